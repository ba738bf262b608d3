"""What a registered check is: its name, its function, and what that is given."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import msgspec
import polars as pl

from checks.finding import EVIDENCE_LIMIT, Finding
from checks.measure import MeasureType

_LIMIT = "evidence_limit"


class Check(NamedTuple):
    """One check and what it is given."""

    name: str
    function: Callable[..., Finding]
    """Takes the frames in the order of `frames`, thresholds by keyword. One that may find a fault in every turn also
    takes `evidence_limit`, so that evidence which nobody asks for is not made."""
    frames: tuple[str, ...]
    """Tables of the log (`turns` narrow: only `turn_columns`), or names of measures."""
    turn_columns: tuple[str, ...] = ()
    """Scalar columns of `turns` it reads, beside session_id and turn; `prompt_tokens` and `completion_tokens` count."""
    measures: tuple[MeasureType, ...] = ()
    """The measures named in `frames`."""

    @property
    def thresholds(self) -> dict[str, object]:
        """Keyword arguments of the function that grade, with their defaults."""
        return {name: default for name, default in self._keywords.items() if name != _LIMIT}

    @property
    def _keywords(self) -> dict[str, object]:
        parameters = inspect.signature(self.function).parameters.values()
        return {each.name: each.default for each in parameters if each.kind is each.KEYWORD_ONLY}

    def run(
        self,
        given: Sequence[pl.DataFrame],
        thresholds: Mapping[str, float],
        *,
        evidence_limit: int = EVIDENCE_LIMIT,
    ) -> Finding:
        """What it finds in its frames, with the gravest evidence, so much at most; the rest is counted."""
        limit = {_LIMIT: evidence_limit} if _LIMIT in self._keywords else {}
        finding = self.function(*given, **thresholds, **limit)
        beyond = len(finding.evidence) - evidence_limit
        if beyond <= 0:
            return finding
        evidence, omitted = finding.evidence[:evidence_limit], finding.evidence_omitted + beyond
        return msgspec.structs.replace(finding, evidence=evidence, evidence_omitted=omitted)

    @property
    def manual(self) -> str:
        """The manual page: the function's docstring, without the indentation."""
        return inspect.cleandoc(self.function.__doc__ or "")
