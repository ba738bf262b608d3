"""Simulated training runs: autocorrelated healthy ones, and incidents in which the signals move one after the other."""

from typing import Any, NamedTuple

import numpy as np
import polars as pl
from scipy.signal import lfilter

# Any: NumPy's own generic parameter.
Array = np.ndarray[Any, np.dtype[Any]]

COLUMNS = {
    "max_w": "max_w",
    "staleness": "staleness_mean",
    "stall": "wait_s",
    "mfu": "mfu",
    "reward_eval_gap": "reward_eval",
    "pass_at_k": "pass_at_k",
    "entropy": "entropy",
    "grad_norm": "grad_norm",
}
"""Signal to the column of `steps` that an incident moves."""


class Noise(NamedTuple):
    """How one signal varies in a healthy run."""

    phi: float
    """Autocorrelation at one step."""
    tail: float
    """Degrees of freedom of Student's t; the smaller, the heavier the tail."""


class Move(NamedTuple):
    """One signal that leaves its band."""

    signal: str
    onset: int
    """First step that is not healthy."""
    size: float
    """In standard deviations of the healthy signal, in the bad direction."""
    rise: int
    """Steps until the full size is reached; 1 is a jump."""


class Run(NamedTuple):
    """One run and what is true of it."""

    steps: pl.DataFrame
    moves: tuple[Move, ...]


def autocorrelated(rng: np.random.Generator, length: int, noise: Noise) -> Array:
    """AR(1) with heavy-tailed innovations, of unit standard deviation, begun in its stationary state."""
    burn = 200
    innovations = rng.standard_t(noise.tail, length + burn) / np.sqrt(noise.tail / (noise.tail - 2))
    return lfilter([np.sqrt(1 - noise.phi**2)], [1, -noise.phi], innovations)[burn:]


def simulated_run(
    rng: np.random.Generator, length: int, moves: tuple[Move, ...] = (), *, every: int = 20, adapter: str | None = None
) -> Run:
    """A run with warm-up trends that are normal: reward and MFU rise, entropy and gradient norm fall."""
    at = np.arange(1, length + 1)
    saturating = 1 - np.exp(-at / rng.uniform(200, 600))

    def noisy(signal: str, phi: tuple[float, float], tails: tuple[float, ...]) -> Array:
        values = autocorrelated(rng, length, Noise(rng.uniform(*phi), float(rng.choice(tails))))
        for move in moves:
            if move.signal == signal:
                values = values + move.size * np.clip((at - move.onset + 1) / move.rise, 0, 1)
        return values

    hacked = noisy("reward_eval_gap", (0.0, 0.6), (6, 30))
    reward = 0.3 + 0.3 * saturating + 0.03 * autocorrelated(rng, length, Noise(rng.uniform(0.3, 0.8), 8))
    columns: dict[str, Any] = {
        "step": at,
        "adapter": pl.Series([adapter] * length, dtype=pl.String),
        "max_w": 1 + np.exp(rng.normal(-0.5, 0.3) + 0.25 * noisy("max_w", (0.2, 0.9), (4, 6, 30))),
        "staleness_mean": rng.uniform(1, 3) + rng.uniform(0.1, 0.3) * noisy("staleness", (0.3, 0.95), (5, 30)),
        "wait_s": rng.uniform(0.5, 3) * np.exp(0.35 * noisy("stall", (0.2, 0.9), (6, 30))),
        "duration_s": np.full(length, 60.0),
        "mfu": 0.38 - 0.05 * np.exp(-at / 8) - 0.012 * noisy("mfu", (0.2, 0.9), (5, 30)),
        "reward_mean": reward,
        "reward_eval": 0.3 + 0.25 * saturating - 0.015 * hacked,
        "pass_at_1": 0.35 + 0.2 * saturating + 0.015 * autocorrelated(rng, length, Noise(0.3, 30)),
        "pass_at_k": 0.65 + 0.08 * saturating - 0.015 * noisy("pass_at_k", (0.0, 0.6), (6, 30)),
        "pass_k": np.full(length, 8),
        "entropy": 0.35 + 0.3 * np.exp(-at / rng.uniform(300, 900)) - 0.012 * noisy("entropy", (0.3, 0.95), (6, 30)),
        "grad_norm": np.exp(0.3 - 0.5 * saturating + 0.18 * noisy("grad_norm", (0.1, 0.8), (3.5, 5, 30))),
    }
    steps = pl.DataFrame(columns)
    seldom = [
        pl.when(pl.col("step") % every == 0).then(name).alias(name)
        for name in ("reward_eval", "pass_at_1", "pass_at_k")
    ]
    return Run(steps.with_columns(seldom), moves)


SPARSE = ("reward_eval_gap", "pass_at_k")
"""Signals that are sampled at every n-th step only."""


def simulated_incident(rng: np.random.Generator) -> Run:
    """Three to five signals that leave their bands 3 to 15 steps after each other, by jumps and short ramps.

    What is sampled every n steps has at least three bad samples before the log ends.
    """
    every = int(rng.choice([1, 5, 10, 20]))
    onset = int(rng.integers(max(120, 20 * every), 700))
    moves: list[Move] = []
    for signal in rng.permutation(list(COLUMNS))[: rng.integers(3, 6)]:
        moves.append(Move(str(signal), onset, float(rng.uniform(8, 15)), int(rng.choice([1, 2, 4, 6]))))
        onset += int(rng.integers(3, 16))
    length = onset + max(30, 3 * every) + int(rng.integers(0, 150))
    return simulated_run(rng, length, tuple(moves), every=every)


def healthy_run(rng: np.random.Generator) -> Run:
    """A thousand steps in which nothing happens."""
    return simulated_run(rng, 1000, every=int(rng.choice([5, 10, 20, 50])))
