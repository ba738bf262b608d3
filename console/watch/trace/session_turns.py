"""One session's turns with their tokens, read out of a log."""

from typing import NamedTuple

import polars as pl

from checks.columns import SCORE_COLUMNS, empty
from checks.log import Batch
from checks.trained_step import trained_step
from console.watch.topic import OpenLog

TURN_COLUMNS = (
    "turn_id",
    "trainer_step",
    "adapter",
    "adapter_version",
    "prompt_ids",
    "completion_ids",
    "sampled_logprobs",
    "logprob_mode",
    "weight_versions",
    "loss_mask",
    "stated_completion_tokens",
    "temperature",
    "top_p",
    "finish_reason",
    "cached_tokens",
    "complete",
    "request",
    "response",
    "prompt_text",
    "completion_text",
    "place",
)
"""What is read of each turn."""


class Then(NamedTuple):
    """What a replay shows of training."""

    steps: pl.DataFrame
    """`adapter, last`: the newest step that had ended; none of an adapter without one."""
    marks: pl.DataFrame
    """`turn, mark`: the first scoring of the turn that was there, by its `trainer_step`."""
    versions: pl.DataFrame
    """As they are by now: they tell how the steps of scores are counted."""
    store: bool
    """Whether every turn that was ever scored has a mark, as those of a store have."""


class SessionTurns(NamedTuple):
    """The turns of one session, in their order, and every scoring of them."""

    session_id: str
    turns: pl.DataFrame
    """`session_id`, `turn` and `TURN_COLUMNS`."""
    scores: pl.DataFrame
    """`row` into the turns, and the columns of scores."""

    def row_of(self, turn: int) -> int | None:
        """The row of a turn, the first of that number; None where there is none."""
        return self.turns["turn"].index_of(turn)

    def batch(self, row: int | None = None, scoring: int | None = None) -> Batch:
        """All of it as the checks' measures read it, or one turn alone, or with one of its scorings."""
        if row is None:
            return Batch(self.turns, self.scores)
        scores = self.scores.filter(pl.col("row") == row)
        if scoring is not None:
            scores = scores.slice(scoring, 1)
        return Batch(self.turns.slice(row, 1), scores.with_columns(row=pl.lit(0, pl.UInt32)))

    @property
    def tokens(self) -> int:
        """Ids that it holds."""
        counted = [pl.col(name).list.len().cast(pl.Int64).sum() for name in ("prompt_ids", "completion_ids")]
        return int(self.turns.select(sum(counted[1:], counted[0])).item() or 0)


def read_session(session_id: str, open_log: OpenLog, numbers: pl.Series, then: Then | None = None) -> SessionTurns:
    """The turns of some numbers of a session; in a replay only the scorings of steps that had come by then."""
    return _as_of(_read(session_id, open_log), numbers, then)


def _read(session_id: str, open_log: OpenLog) -> SessionTurns:
    turns = [empty("turns").select("session_id", "turn", *TURN_COLUMNS)]
    scores: list[pl.DataFrame] = []
    height = 0
    for batch in open_log().batches(TURN_COLUMNS, SCORE_COLUMNS, sessions=[session_id]):
        turns.append(batch.turns)
        scores.append(batch.scores.with_columns((pl.col("row") + height).cast(pl.UInt32).alias("row")))
        height += batch.turns.height
    whole = pl.concat(turns, how="vertical_relaxed").with_columns(pl.col(pl.Categorical).cast(pl.String))
    if not scores:
        return SessionTurns(session_id, whole, _no_scores())
    return SessionTurns(session_id, whole, pl.concat([_no_scores(), *scores], how="vertical_relaxed"))


def _as_of(session: SessionTurns, numbers: pl.Series, then: Then | None) -> SessionTurns:
    """Only the turns that are held, by number."""
    order = session.turns.with_row_index("row").filter(pl.col("turn").is_in(numbers.implode()))
    order = order.sort("turn", "row", maintain_order=True).with_row_index("at")
    scores = session.scores.join(order.select("row", "at"), on="row", how="inner", maintain_order="left")
    scores = scores.with_columns(pl.col("at").cast(pl.UInt32).alias("row")).drop("at")
    turns = order.drop("row", "at")
    if then is not None:
        scores = scores.filter(_come(scores, turns, then))
    return SessionTurns(session.session_id, turns, scores.sort("row", maintain_order=True))


def _come(scores: pl.DataFrame, turns: pl.DataFrame, then: Then) -> pl.Series:
    """Whether each scoring was there: the step that trained on it had ended, or the turn is still marked with it.

    A scoring is as old as that step, not as the weights that it names: those stood there since the step before. Of an
    adapter without a step either none had ended, and then the turn has lost its mark, or the log tells of none.
    """
    known = turns.select("turn", of="adapter", stated="trainer_step").join(then.marks, on="turn", how="left")
    known = known.unique("turn", keep="first", maintain_order=True).with_columns(pl.col("of").cast(pl.String))
    at = turns.select("turn").with_row_index("row").with_columns(pl.col("row").cast(pl.UInt32))
    rows = scores.select("row", "trainer_step", "trainer_version", adapter=pl.col("adapter").cast(pl.String))
    rows = rows.join(at, on="row", how="left", maintain_order="left")
    rows = rows.join(known, on="turn", how="left", maintain_order="left")
    rows = rows.with_columns(adapter=pl.coalesce("adapter", "of"))
    rows = rows.join(then.steps, on="adapter", how="left", nulls_equal=True, maintain_order="left")
    # A turn that names no adapter may be of any.
    last = pl.coalesce("last", pl.when(pl.col("adapter").is_null()).then(pl.lit(then.steps["last"].max(), pl.Int64)))
    named, mark = pl.col("trainer_step"), pl.col("mark")
    step = trained_step(then.versions)
    unmarked = mark.is_null() & (pl.lit(then.store) | pl.col("stated").is_not_null())
    late = pl.when(last.is_null()).then(unmarked).otherwise((step > last) & (mark.is_null() | named.ne_missing(mark)))
    return rows.select(step.is_null() | ~late).to_series()


def _no_scores() -> pl.DataFrame:
    turns = empty("turns")
    return turns.select(pl.lit(None, pl.UInt32).alias("row"), *SCORE_COLUMNS)
