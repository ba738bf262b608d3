"""Why importance weights are off: the kind of the fault, from what was sampled, logged and scored."""

from typing import Any, NamedTuple

import polars as pl

from checks.measures.importance_weights import SETTING
from checks.measures.weight_causes import CAUSES

TOLD_AT_LEAST = 5
"""Fewest tokens on which a missing division by the temperature, or a shift of the lists, is told."""
HELD_SHARE = 0.9
"""Share of them that must fit; without the fault a token fits with a probability well under one half."""
CLOSER = 0.5
"""mu belongs to another model when it is at least so much closer to it, in mean |Δ log p|; and a fault is the
engine's, not staleness, when the engine explains so much of it."""
SHIFTED = 0.25
"""Lists are shifted when the shift leaves so little of mean |Δ log p|."""
GROUP = ("adapter", "lag", "of_base", *SETTING)
"""Turns of which one cause is told."""


class Cause(NamedTuple):
    """A kind, None where the log cannot tell, and what speaks for it."""

    kind: str | None
    text: str


def with_kinds(cells: pl.DataFrame, causes: pl.DataFrame) -> pl.DataFrame:
    """Per `GROUP` the `kind` and the `why`. Both frames have `lag`; `causes` may be empty."""
    cells, causes = (frame.with_columns(of_base=pl.col("sampling_version") == 0) for frame in (cells, causes))
    means = cells.group_by("adapter", "lag").agg(mean_abs=pl.col("sum_abs").sum() / pl.col("n").sum())
    groups = cells.select(GROUP).unique(maintain_order=True)
    groups = groups.join(means, on=["adapter", "lag"], how="left", nulls_equal=True, maintain_order="left")
    told = causes.group_by(GROUP, maintain_order=True).agg(pl.col(CAUSES).sum())
    groups = groups.join(told, on=GROUP, how="left", nulls_equal=True, maintain_order="left")
    groups = groups.with_columns(pl.col(CAUSES).fill_null(0.0))
    floors: dict[str | None, float] = dict(means.filter(pl.col("lag") == 0).select("adapter", "mean_abs").iter_rows())
    found = [_cause(row, floors.get(row["adapter"])) for row in groups.iter_rows(named=True)]
    return groups.select(GROUP).with_columns(
        kind=pl.Series([cause.kind for cause in found], dtype=pl.String),
        why=pl.Series([cause.text for cause in found], dtype=pl.String),
    )


# Any: a row of a frame.
def _cause(row: dict[str, Any], floor: float | None) -> Cause:
    scaled = _temperature(row)
    if scaled is not None:
        return Cause("unscaled_temperature", scaled)
    if row["of_base"] is not True and row["abs_mu_reference"] < CLOSER * row["abs_d_reference"]:
        return Cause("base_model_served", "sampled_logprobs are the base model's, not those of the version named")
    hint = _hint(row)
    if row["generator_tokens"] and row["abs_d_generator"]:
        of_engine = row["abs_mu_generator"] / row["abs_d_generator"]
        if of_engine > CLOSER:
            return Cause("mismatch_at_equal_version", hint or "engine and trainer differ under the same version")
        if row["lag"] != 0:
            return Cause("stale", "the engine agrees with the version that sampled; the policy has moved on since")
    return _by_lag(row, floor, hint)


def _by_lag(row: dict[str, Any], floor: float | None, hint: str) -> Cause:
    lag = row["lag"]
    if lag is None:
        return Cause(None, hint or "the log does not say which version sampled and which scored")
    if lag < 0:
        return Cause(None, hint or "sampled by a version newer than the trainer's")
    if lag == 0:
        return Cause("mismatch_at_equal_version", hint or "engine and trainer differ at equal version")
    if floor is not None and floor > CLOSER * row["mean_abs"]:
        return Cause("mismatch_at_equal_version", hint or f"mean |log w| is {floor:.3g} at lag 0 already")
    return Cause("stale", f"sampled {lag} step{'s' * (lag != 1)} before")


def _temperature(row: dict[str, Any]) -> str | None:
    temperature = row["temperature"]
    if temperature is None or temperature <= 0 or temperature == 1:
        return None
    if row["logprob_mode"] == "raw":
        return f"sampled_logprobs are raw, of logits not divided by the temperature {temperature:g}"
    for side, name in (("sampled", "sampled_logprobs"), ("trainer", "trainer_logprobs")):
        told, held = row[f"{side}_raw_told"], row[f"{side}_raw_held"]
        if told >= TOLD_AT_LEAST and held >= HELD_SHARE * told:
            return f"{name} fit logits not divided by the temperature {temperature:g} ({held:g} of {told:g} tokens)"
    return None


def _hint(row: dict[str, Any]) -> str:
    """What else the pattern of a mismatch says; empty for nothing."""
    if row["shift_tokens"] >= TOLD_AT_LEAST:
        for name, way in (("abs_shift_left", "late"), ("abs_shift_right", "early")):
            if row[name] < SHIFTED * row["abs_d_shift"]:
                return f"the lists agree when sampled_logprobs are moved by one: they stand one token too {way}"
    if row["tokens"] and row["truncated_held"] >= 0.95 * row["tokens"]:
        return f"log w lies between log top_p and 0: sampled_logprobs are renormalised within top_p {row['top_p']:g}"
    return ""
