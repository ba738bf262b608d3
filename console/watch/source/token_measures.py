"""The measures over tokens, fed with turns as they come and once more when they are scored."""

from collections.abc import Mapping

import polars as pl

from checks.log import Batch
from checks.measure import Tools
from checks.measures.entropies import Entropies
from checks.measures.importance_weights import ImportanceWeights
from checks.measures.parts import as_parts, part
from checks.measures.token_lags import TokenLags

KINDS = (ImportanceWeights, TokenLags, Entropies)
TURN_COLUMNS = tuple(dict.fromkeys(["turn_id", *(name for kind in KINDS for name in kind.turn_columns)]))
SCORE_COLUMNS = tuple(dict.fromkeys(name for kind in KINDS for name in kind.score_columns))


class TokenMeasures:
    """What one pass over all turns with all their scores would measure, but for the order of equal rows.

    A turn that is scored after it was read is given again, with its new scores. What a turn without them had added to
    is taken away then: counts, and the sums of sampled tokens under no step.
    """

    def __init__(self) -> None:
        self._measures = {kind.name: kind(Tools()) for kind in KINDS}
        self._taken: dict[str, dict[str, int]] = {kind.name: {} for kind in KINDS}
        self._taken_steps: list[pl.DataFrame] = []

    def add(self, batch: Batch, late: Mapping[str, bool]) -> None:
        """`late` is turn_id to whether it had scores before, of turns that were given before."""
        turns = batch.turns
        if not turns["turn_id"].is_in([*late]).any():
            for measure in self._measures.values():
                measure.add(batch)
            return
        # Sampled tokens are summed by the first score of their turn, so a later one adds none.
        scored_before = pl.col("turn_id").is_in([turn for turn, before in late.items() if before])
        once = turns.with_columns(sampled_logprobs=pl.when(~scored_before).then("sampled_logprobs"))
        for name, measure in self._measures.items():
            given = batch._replace(turns=once) if name == Entropies.name else batch
            measure.add(given)
            alone = given.turns.filter(pl.col("turn_id").is_in([*late]))
            self._take(name, Batch(alone, given.scores.clear()))

    def frames(self) -> dict[str, pl.DataFrame]:
        """What each measure gives, by its name."""
        return {name: self._less(name, measure.frame()) for name, measure in self._measures.items()}

    def _take(self, name: str, unscored: Batch) -> None:
        """Notes what these turns had added when they had no scores."""
        alone = next(kind for kind in KINDS if kind.name == name)(Tools())
        alone.add(unscored)
        parts = alone.frame()
        taken = self._taken[name]
        for count, value in part(parts, "counts").row(0, named=True).items():
            taken[count] = taken.get(count, 0) + value
        if "steps" in parts.columns:
            self._taken_steps.append(part(parts, "steps"))

    def _less(self, name: str, frame: pl.DataFrame) -> pl.DataFrame:
        taken = self._taken[name]
        if not taken:
            return frame
        parts = {of: part(frame, of) for of in frame.columns}
        parts["counts"] = parts["counts"].with_columns(pl.col(count) - value for count, value in taken.items())
        if name == Entropies.name and "steps" in parts:
            parts["steps"] = _less_steps(parts["steps"], self._taken_steps)
        if "above" in parts:
            parts["above"] = parts["above"].unique(maintain_order=True)
        return as_parts(parts)


def _less_steps(steps: pl.DataFrame, taken: list[pl.DataFrame]) -> pl.DataFrame:
    sums = [name for name in steps.columns if name.endswith(("_tokens", "_sum"))]
    keys = [name for name in steps.columns if name not in sums]
    negative = [rows.with_columns(-pl.col(name) for name in sums) for rows in taken]
    added = pl.concat([steps, *negative]).group_by(keys, maintain_order=True).agg(pl.col(sums).sum())
    emptied = (pl.col("entropy_tokens") == 0) & (pl.col("sampled_tokens") == 0)
    return added.filter(~emptied)
