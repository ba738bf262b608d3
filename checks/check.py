"""What a registered check is: its name, its function, and what that is given."""

import inspect
from collections.abc import Callable
from typing import NamedTuple

from checks.finding import Finding
from checks.measure import MeasureType


class Check(NamedTuple):
    """One check and what it is given."""

    name: str
    function: Callable[..., Finding]
    """Takes the frames in the order of `frames`, thresholds by keyword."""
    frames: tuple[str, ...]
    """Tables of the log (`turns` narrow: only `turn_columns`), or names of measures."""
    turn_columns: tuple[str, ...] = ()
    """Scalar columns of `turns` it reads, beside session_id and turn; `prompt_tokens` and `completion_tokens` count."""
    measures: tuple[MeasureType, ...] = ()
    """The measures named in `frames`."""

    @property
    def thresholds(self) -> dict[str, object]:
        """Keyword arguments of the function, with their defaults."""
        parameters = inspect.signature(self.function).parameters.values()
        return {each.name: each.default for each in parameters if each.kind is each.KEYWORD_ONLY}

    @property
    def manual(self) -> str:
        """The manual page: the function's docstring, without the indentation."""
        return inspect.cleandoc(self.function.__doc__ or "")
