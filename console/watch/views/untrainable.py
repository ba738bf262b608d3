"""How much of the traffic nobody can train on, counted as it grows."""

import msgspec
import polars as pl

_TRAINED = ("traffic", "canary")
"""Purposes that are trained; a turn without one is traffic."""
_BY = ("adapter", "trainable", "untrainable_reason")


class Untrainable(msgspec.Struct, frozen=True, kw_only=True):
    """How much of the traffic nobody can train on."""

    turns: int
    """Turns of the purposes that are trained."""
    untrainable: int
    share: float | None
    """None where there is no such turn."""
    reasons: tuple[tuple[str, int], ...]
    """Reason and turns, most first."""


class UntrainableCounts:
    """Turns by adapter and reason. Of a frame that only grew, the new turns alone are counted."""

    def __init__(self) -> None:
        self._turns: pl.DataFrame | None = None
        self._counts = _counted(
            pl.DataFrame(schema={**dict.fromkeys(("purpose", *_BY), pl.String), "trainable": pl.Boolean})
        )

    def of(self, turns: pl.DataFrame, adapter: str | None) -> Untrainable:
        """Of one adapter and of the base model before it; of everything where no adapter is named."""
        if turns is not self._turns:
            self._counts = self._updated(turns)
            self._turns = turns
        mine = self._counts
        if adapter is not None:
            mine = mine.filter(pl.col("adapter").eq_missing(adapter) | pl.col("adapter").is_null())
        total = int(mine["turns"].sum())
        bad = mine.filter(~pl.col("trainable")).group_by("untrainable_reason").agg(pl.col("turns").sum())
        reasons = bad.sort("turns", "untrainable_reason", descending=[True, False]).rows()
        missed = sum(count for _, count in reasons)
        named = tuple((reason or "no reason given", count) for reason, count in reasons)
        return Untrainable(turns=total, untrainable=missed, share=missed / total if total else None, reasons=named)

    def _updated(self, turns: pl.DataFrame) -> pl.DataFrame:
        before = self._turns
        if before is None or not _grown_from(before, turns):
            return _counted(turns)
        both = pl.concat([self._counts, _counted(turns.slice(before.height))])
        return both.group_by(_BY).agg(pl.col("turns").sum())


def _grown_from(before: pl.DataFrame, turns: pl.DataFrame) -> bool:
    """Whether the earlier rows are still the first ones: rows are never changed, but some may come between."""
    if before.is_empty() or turns.height < before.height:
        return False
    keys = [name for name in ("writer", "seq", "session_id", "turn") if name in turns.columns]
    ends = (0, before.height // 2, before.height - 1)
    return all(_row(before, at, keys) == _row(turns, at, keys) for at in ends)


def _row(turns: pl.DataFrame, at: int, keys: list[str]) -> tuple[object, ...]:
    # A frame of many pieces is made one for a single row of it: it is cut before.
    return turns.slice(at, 1).select(keys).row(0)


def _counted(turns: pl.DataFrame) -> pl.DataFrame:
    """Turns of trained purposes that say whether they are trainable."""
    narrow = turns.select("purpose", *_BY).filter(
        pl.col("purpose").is_null() | pl.col("purpose").is_in(_TRAINED), pl.col("trainable").is_not_null()
    )
    return narrow.group_by(_BY).agg(pl.len().cast(pl.Int64).alias("turns"))
