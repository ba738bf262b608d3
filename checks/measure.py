"""What folds the tokens of a log into a small frame, batch by batch."""

from collections.abc import Collection
from typing import NamedTuple, Protocol

import polars as pl

from checks.log import Batch
from collector.rendering.renderer import Renderer
from collector.rendering.tokenizer import ChatTokenizer


class Tools(NamedTuple):
    """What `--tokenizer` gives. Without it both are None."""

    tokenizer: ChatTokenizer | None = None
    renderer: Renderer | None = None
    """None too when the folder has no chat template."""


class Measure(Protocol):
    """Sees every batch once, in the log's order; gives one small frame at the end."""

    def add(self, batch: Batch) -> None:
        """Folds one batch in."""
        ...

    def again(self) -> Collection[str]:
        """Sessions whose turns it needs a second time; empty for none.

        Asked after the last batch, and again after the turns of those sessions were given, until it is empty: what it
        has to hold for them is bounded by naming some at a time, and no session twice.
        """
        ...

    def add_again(self, batch: Batch) -> None:
        """Folds one batch of those sessions in, in the log's order."""
        ...

    def frame(self) -> pl.DataFrame:
        """What was measured, small whatever the size of the log."""
        ...


class MeasureType(Protocol):
    """A measure, not yet begun.

    One that asks for sessions again may name the columns of `turns` that it reads then, `again_columns`: those that the
    first pass would read in vain.
    """

    name: str
    """What the frame is called where checks ask for it."""
    turn_columns: tuple[str, ...]
    """Columns of `turns` that it reads, beside session_id and turn."""
    score_columns: tuple[str, ...]
    """Columns of `scores` that it reads."""
    needs_tokenizer: bool
    """Whether it can do nothing without `--tokenizer`: its checks are then no_data."""

    def __call__(self, tools: Tools) -> Measure:
        """Begins it."""
        ...
