"""The feedback that counts of what is held."""

import polars as pl

from checks.standing_feedback import standing_feedback
from console.watch.held import Held
from console.watch.kept import Kept

_KEPT: Kept[pl.DataFrame] = Kept()


def standing(held: Held) -> pl.DataFrame:
    """Rows of `Held.feedback`: what supersedes a judgement may be of another turn, so that all are looked at."""
    return _KEPT.of((held.feedback,), lambda: standing_feedback(held.feedback))
