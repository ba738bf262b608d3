"""One session's turns with their tokens, read out of a log."""

from typing import NamedTuple

import polars as pl

from checks.columns import SCORE_COLUMNS, empty
from checks.log import Batch
from console.watch.topic import OpenLog
from console.watch.trained_then import TrainedThen

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


def read_session(
    session_id: str, open_log: OpenLog, numbers: pl.Series, then: TrainedThen | None = None
) -> SessionTurns:
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


def _as_of(session: SessionTurns, numbers: pl.Series, then: TrainedThen | None) -> SessionTurns:
    """Only the turns that are held, by number."""
    order = session.turns.with_row_index("row").filter(pl.col("turn").is_in(numbers.implode()))
    order = order.sort("turn", "row", maintain_order=True).with_row_index("at")
    scores = session.scores.join(order.select("row", "at"), on="row", how="inner", maintain_order="left")
    scores = scores.with_columns(pl.col("at").cast(pl.UInt32).alias("row")).drop("at")
    turns = order.drop("row", "at")
    if then is not None:
        scores = scores.filter(then.scored(_of_adapter(scores, turns)))
    return SessionTurns(session.session_id, turns, scores.sort("row", maintain_order=True))


def _of_adapter(scores: pl.DataFrame, turns: pl.DataFrame) -> pl.DataFrame:
    """The scorings, each with its adapter: its own, else the turn's."""
    of_turn = turns.select(pl.col("adapter").cast(pl.String).alias("of_turn")).with_row_index("row")
    of_turn = of_turn.with_columns(pl.col("row").cast(pl.UInt32))
    joined = scores.join(of_turn, on="row", how="left", maintain_order="left")
    return joined.with_columns(adapter=pl.coalesce(pl.col("adapter").cast(pl.String), "of_turn"))


def _no_scores() -> pl.DataFrame:
    turns = empty("turns")
    return turns.select(pl.lit(None, pl.UInt32).alias("row"), *SCORE_COLUMNS)
