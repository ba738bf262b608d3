"""Whose log-probabilities the engine's are: those of the version named, or those of the base model."""

from collections.abc import Collection
from typing import ClassVar

import numpy as np
import polars as pl

from checks.lag import label_version
from checks.log import Batch
from checks.measure import Tools
from checks.measures.sampled_tokens import LENGTH_COLUMNS, VERSION_COLUMNS, aligned, counted_tokens, mask_fits
from checks.ragged import Array, ragged

KEYS = ("adapter", "version")
_ADDED = ("tokens", "turns", "abs_own", "abs_base", "likelihood", "squares", "dd", "dn", "nn")
_SCHEMA = {
    "adapter": pl.String,
    "version": pl.Int64,
    **dict.fromkeys(("tokens", "turns"), pl.Int64),
    **dict.fromkeys(_ADDED[2:], pl.Float64),
    "worst": pl.Float64,
    "session_id": pl.String,
    "turn": pl.Int64,
}


class ServedModels:
    """One row per adapter and version above 0, of turns that have mu, the version's own score and the base model's.

    `abs_own`, `abs_base`: sums of |log mu - log p| of either. `likelihood`: sum of log p_own - log p_base of what was
    sampled. With e = |log mu - log p_base| - |log mu - log p_own|: `squares` sums e^2 over tokens; `dd`, `dn`, `nn`
    sum D^2, D n and n^2 over turns of n tokens whose e add up to D; `worst` is the least D / n, at that turn.
    The version's own score is sampling_version_logprobs, else trainer_logprobs of the same version.
    """

    name: ClassVar[str] = "served_models"
    turn_columns: ClassVar[tuple[str, ...]] = ("adapter", *LENGTH_COLUMNS, *VERSION_COLUMNS)
    score_columns: ClassVar[tuple[str, ...]] = (
        "trainer_version",
        "trainer_logprobs",
        "sampling_version_logprobs",
        "reference_logprobs",
    )
    needs_tokenizer: ClassVar[bool] = False

    def __init__(self, tools: Tools) -> None:
        del tools
        self._sums: list[pl.DataFrame] = []

    def add(self, batch: Batch) -> None:
        """Adds up one batch."""
        scores = batch.scores.filter(pl.col("reference_logprobs").is_not_null())
        if scores.is_empty():
            return
        turns, found = aligned(batch.turns.select("session_id", "turn", *self.turn_columns), scores["row"])
        span = pl.when(pl.col("weight_versions").list.len() == 1).then(pl.col("weight_versions").list.first())
        version = pl.coalesce("adapter_version", label_version(span.struct.field("version")))
        frame = pl.concat(
            [
                turns.select("session_id", "turn", "adapter", "sampled_logprobs", "loss_mask", version=version),
                found,
                scores.select(self.score_columns),
            ],
            how="horizontal",
        ).with_columns(
            own=pl.coalesce(
                "sampling_version_logprobs",
                pl.when(pl.col("trainer_version") == pl.col("version")).then("trainer_logprobs"),
            )
        )
        equal = [pl.col(name).list.len() == pl.col("tokens") for name in ("own", "reference_logprobs")]
        fits = pl.all_horizontal(
            pl.col("version") > 0, pl.col("sampled") == pl.col("tokens"), pl.col("tokens") > 0, mask_fits(), *equal
        )
        usable = frame.filter(fits.fill_null(False))
        if usable.height:
            self._fold(usable)

    def _fold(self, frame: pl.DataFrame) -> None:
        mu = ragged(frame["sampled_logprobs"])
        start = mu.offsets[:-1]
        own, base = (ragged(frame[name]).values.astype(np.float64) for name in ("own", "reference_logprobs"))
        with np.errstate(invalid="ignore"):
            to_own, to_base, ratio = np.abs(mu.values - own), np.abs(mu.values - base), own - base
        finite = np.isfinite(to_own) & np.isfinite(to_base)
        kept = counted_tokens(frame["loss_mask"], mu.offsets)
        finite = finite if kept is None else finite & kept
        n = np.add.reduceat(finite, start, dtype=np.int64)

        def added(values: Array) -> Array:
            return np.add.reduceat(np.where(finite, values, 0.0), start)

        with np.errstate(invalid="ignore"):
            excess = to_base - to_own
        own_sum, base_sum, squares, total = added(to_own), added(to_base), added(excess**2), added(excess)
        each = frame.select(*KEYS, "session_id", "turn").with_columns(
            tokens=pl.Series(n),
            turns=pl.lit(1, pl.Int64),
            abs_own=pl.Series(own_sum),
            abs_base=pl.Series(base_sum),
            likelihood=pl.Series(added(ratio)),
            squares=pl.Series(squares),
            dd=pl.Series(total**2),
            dn=pl.Series(total * n),
            nn=pl.Series(n.astype(np.float64) ** 2),
            worst=pl.Series(total / np.maximum(n, 1)),
        )
        self._sums.append(_added_up(each.filter(pl.col("tokens") > 0).select(list(_SCHEMA)).cast(_SCHEMA)))  # pyright: ignore[reportArgumentType]
        if len(self._sums) > 256:
            self._sums = [_added_up(pl.concat(self._sums))]

    def again(self) -> Collection[str]:
        """None."""
        return ()

    def add_again(self, batch: Batch) -> None:
        """Never asked."""

    def frame(self) -> pl.DataFrame:
        """The sums; see the class."""
        return _added_up(pl.concat([pl.DataFrame(schema=_SCHEMA), *self._sums]))


def _added_up(frame: pl.DataFrame) -> pl.DataFrame:
    worst = pl.col("worst").arg_min()
    at_worst = [pl.col(name).get(worst) for name in ("worst", "session_id", "turn")]
    return frame.group_by(KEYS, maintain_order=True).agg(pl.col(_ADDED).sum(), *at_worst)
