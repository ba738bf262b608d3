"""What would explain the importance weights of turns that look wrong, told from a bounded sample of them."""

from collections.abc import Sequence

import numpy as np
import polars as pl

from checks.measures.scored_tokens import ScoredTokens
from checks.ragged import Array, ragged

CAUSES = (
    "tokens",
    "abs_d",
    "sampled_raw_told",
    "sampled_raw_held",
    "trainer_raw_told",
    "trainer_raw_held",
    "truncated_held",
    "shift_tokens",
    "abs_d_shift",
    "abs_shift_left",
    "abs_shift_right",
    "reference_tokens",
    "abs_mu_reference",
    "abs_d_reference",
    "generator_tokens",
    "abs_mu_generator",
    "abs_d_generator",
)
"""Sums over the sampled turns' tokens:
`abs_d`: |log w|.
`*_raw_told`, `*_raw_held`: tokens that can tell whether one side's logits were not divided by T, and those that do.
`truncated_held`: tokens whose log w lies between log top_p and 0, as when mu was renormalised over the nucleus.
`abs_shift_left`, `abs_shift_right`: |log pi_old - log mu| with mu taken one token later or earlier;
`abs_d_shift`: |log w| of as many tokens, without the first or without the last, whichever is less.
`abs_mu_reference`, `abs_mu_generator`: |log mu - log p| of the base model, and of the version that should have sampled;
`abs_d_reference`, `abs_d_generator`: |log w| of the same tokens."""
PER_CELL = 32
_IN_ALL = 128
_SLACK = 0.05
_RANGE = (0.55, 0.995)


def weight_causes(
    chosen: pl.DataFrame,
    scores: pl.DataFrame,
    tokens: ScoredTokens,
    spans: Sequence[tuple[int, int]],
    keys: Sequence[str],
) -> pl.DataFrame:
    """`CAUSES` of each cell, over its first few chosen segments, whose `index` is that of their tokens in `spans`."""
    sample = chosen.filter(pl.int_range(pl.len()).over(keys) < PER_CELL).head(_IN_ALL)
    others = {name: ragged(scores[name]) for name in ("reference_logprobs", "sampling_version_logprobs")}
    found: list[dict[str, float]] = []
    for index, row, temperature, top_p in sample.select("index", "row", "temperature", "top_p").iter_rows():
        begin, end = spans[int(index)]
        d, mu = tokens.log_w(slice(begin, end)), tokens.mu[begin:end].astype(np.float64)
        place = tokens.place(np.arange(begin, end)) - tokens.offsets[row]
        sums = dict.fromkeys(CAUSES, 0.0) | {"tokens": float(len(d)), "abs_d": float(np.abs(d).sum())}
        sums |= _temperature(mu, mu + d, temperature) | _truncated(d, top_p) | _shifted(mu, mu + d)
        for name, column in (("reference", "reference_logprobs"), ("generator", "sampling_version_logprobs")):
            sums |= _other(name, others[column].row(row), place, mu, d)
        found.append(sums)
    frame = pl.DataFrame(found, schema=dict.fromkeys(CAUSES, pl.Float64))
    return pl.concat([sample.select(keys), frame], how="horizontal")


def raw_tokens(raw: Array, scaled: Array, temperature: float) -> tuple[int, int]:
    """Of how many tokens `raw` can be log softmax(z) and `scaled` log softmax(z / T), out of how many that can tell.

    Whatever the other logits are, the odds of a token after division by T are at least odds^(1/T) for T < 1 and at
    most odds^(1/T) for T > 1. Tokens of middling to high probability tell: without the division their odds stay.
    """
    with np.errstate(over="ignore"):
        p = np.exp(raw)
    told = (p > _RANGE[0]) & (p < _RANGE[1]) & (scaled < 0)
    bound, found = (_logit(values[told]) for values in (raw, scaled))
    with np.errstate(over="ignore"):
        bound = bound / temperature
    held = found >= bound - _SLACK if temperature < 1 else found <= bound + _SLACK
    return int(told.sum()), int(held.sum())


def _logit(log_p: Array) -> Array:
    return log_p - np.log(-np.expm1(log_p))


def _temperature(mu: Array, old: Array, temperature: float | None) -> dict[str, float]:
    if temperature is None or temperature <= 0 or temperature == 1:
        return {}
    told, held = raw_tokens(mu, old, temperature)
    told_trainer, held_trainer = raw_tokens(old, mu, temperature)
    return {
        "sampled_raw_told": float(told),
        "sampled_raw_held": float(held),
        "trainer_raw_told": float(told_trainer),
        "trainer_raw_held": float(held_trainer),
    }


def _truncated(d: Array, top_p: float | None) -> dict[str, float]:
    if top_p is None or not 0 < top_p < 1:
        return {}
    slack = 1e-3
    return {"truncated_held": float(((d <= slack) & (d >= np.log(top_p) - slack)).sum())}


def _shifted(mu: Array, old: Array) -> dict[str, float]:
    if len(mu) < 2:
        return {}
    d = np.abs(old - mu)
    return {
        "shift_tokens": len(mu) - 1.0,
        "abs_d_shift": float(d.sum() - max(d[0], d[-1])),
        "abs_shift_left": float(np.abs(old[:-1] - mu[1:]).sum()),
        "abs_shift_right": float(np.abs(old[1:] - mu[:-1]).sum()),
    }


def _other(name: str, values: Array, place: Array, mu: Array, d: Array) -> dict[str, float]:
    """How far mu is from another model's numbers, over the tokens where those are finite."""
    if len(values) <= int(place[-1]):
        return {}
    with np.errstate(invalid="ignore"):
        away = np.abs(mu - values[place])
    finite = np.isfinite(away)
    return {
        f"{name}_tokens": float(finite.sum()),
        f"abs_mu_{name}": float(away[finite].sum()),
        f"abs_d_{name}": float(np.abs(d[finite]).sum()),
    }
