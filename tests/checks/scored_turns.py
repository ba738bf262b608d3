"""Turns and scores of a simulated run, token by token and without any table of steps, with a fault to be found."""

from typing import Any, NamedTuple

import numpy as np

# Any: NumPy's own generic parameter.
Array = np.ndarray[Any, np.dtype[Any]]

PROMPT = (11, 12, 13)


class ScoredTurn(NamedTuple):
    """One turn as any trainer may log it."""

    step: int
    """The optimizer step that trains on it."""
    number: int
    """In the step, from 0."""
    version: int
    """The optimizer step of the weights that sampled it."""
    ids: list[int]
    mu: list[float]
    old: list[float]
    """log pi_old."""
    entropies: list[float]
    reward: float


def scored_turns(
    rng: np.random.Generator, steps: int, *, stale: int, skewed: int, turns: int = 6, tokens: int = 40
) -> list[ScoredTurn]:
    """A run in which from step `stale` on the weights that sample are 3 steps older, and from `skewed` on w spreads.

    Healthy turns are one or two steps old and their log w is rounding; a value beyond the last step is no fault.
    """
    found: list[ScoredTurn] = []
    for step in range(1, steps + 1):
        for number in range(turns):
            lag = int(rng.integers(1, 3)) + 3 * (step >= stale)
            mu = -rng.exponential(0.6, tokens)
            spread = 0.01 * (1 + 19 * (step >= skewed)) * rng.uniform(0.8, 1.2)
            found.append(
                ScoredTurn(
                    step,
                    number,
                    step - lag,
                    rng.integers(100, 200, tokens).tolist(),
                    mu.tolist(),
                    np.minimum(mu + rng.normal(0, spread, tokens), 0.0).tolist(),
                    rng.gamma(4.0, 0.15, tokens).tolist(),
                    float(rng.random() < 0.5),
                )
            )
    return found


# Any: a record of a native log.
def native(turn: ScoredTurn, **changed: Any) -> dict[str, Any]:
    """As a line of a native log, the scores in the turn."""
    return {
        "session_id": f"{turn.step}/{turn.number}",
        "prompt_ids": list(PROMPT),
        "completion_ids": turn.ids,
        "sampled_logprobs": turn.mu,
        "temperature": 1.0,
        "adapter": "bot",
        "adapter_version": turn.version,
        "trainer_step": turn.step,
        "trainer_logprobs": turn.old,
    } | changed
