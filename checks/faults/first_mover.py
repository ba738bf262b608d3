"""Which signal left its band first, per adapter; ties are said to be ties."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from checks.finding import Evidence, Finding
from checks.onset import Onset, least_samples, onset, strictness
from checks.signals import SIGNALS, Part, Signal, signal_series

# Any: NumPy's own generic parameter for an element type.
Array = np.ndarray[Any, np.dtype[Any]]

_LEAST = least_samples(evaluation=False)
_LEAST_EVALUATIONS = least_samples(evaluation=True)
_NEXT = ("the first signal's own check: what moved first is nearer to the cause", "the other signals as its effects")


class Series(NamedTuple):
    """One part of one signal of one adapter."""

    adapter: str | None
    signal: Signal
    part: Part
    steps: Array
    values: Array


class Move(NamedTuple):
    """One signal that left its band."""

    signal: str
    part: str
    first: int
    """Earliest step at which it can have begun."""
    last: int
    """Latest step at which it can have begun: the first step seen to be bad where sampling is sparse."""
    seen: int
    """The step at which the test was sure."""
    score: float
    was: float
    """The signal's median before."""


class Ranked(NamedTuple):
    """One adapter: what moved, in order, and what did not."""

    adapter: str | None
    moves: tuple[Move, ...]
    steady: tuple[str, ...]
    unknown: tuple[str, ...]
    """Signals without data, or with too little for a baseline."""

    def rank(self, move: Move) -> int:
        """1 and up: one more than the number of signals that surely moved earlier."""
        return 1 + sum(other.last < move.first for other in self.moves)

    def tie(self, move: Move) -> bool:
        """Whether another signal may have moved at the same time."""
        return any(other is not move and other.first <= move.last and move.first <= other.last for other in self.moves)


def first_mover(
    turns: pl.DataFrame,
    rewards: pl.DataFrame,
    steps: pl.DataFrame,
    evals: pl.DataFrame,
    spans: pl.DataFrame,
    versions: pl.DataFrame,
    *,
    strict: float = 1.0,
) -> Finding:
    """Which signal left its band first, per adapter; ties are said to be ties.

    Definition: each signal's series (max w, min w, KL and w's ESS; staleness; stall; MFU; train reward against held-out
    and held-out itself; pass@k; entropy both ways; gradient norm) is compared with its own past: running median of
    five, rise of a short mean over the mean before it, against median and 1.4826 MAD of earlier rises, w, stall and
    gradient norm in logarithms. A lasting rise in the bad direction is a move; its onset is the likeliest start of a
    jump or ramp in autocorrelated noise. A signal sampled every n steps has an onset interval; signals whose intervals
    overlap share a rank and are a tie. Signals without data are never ranked. Isolated outliers of one or two steps
    are not moves: grad-norm and importance-weight report those.
    Units: signals that moved; onsets are optimizer steps.
    Reads: steps(step, adapter, at, duration_s, wait_s, mfu, model_flops, peak_flops, grad_norm, entropy, reward_mean,
    reward_eval, pass_at_k, max_w, min_w, kl_mu_old, ess, staleness_mean), evals, spans, versions, rewards,
    turns(session_id, adapter, trainer_step, reward, purpose).
    Threshold: any move warns. The test's limits are calibrated for the whole log, by simulation: at most 2 % of healthy
    runs of 1,000 steps with autocorrelated, heavy-tailed noise rank anything (`checks/onset.py`). `strict` multiplies
    the limits.
    Check next: the check of the first signal; then the others, as effects.
    """
    ranked = rank_signals(signal_series(turns, rewards, steps, evals, spans, versions), strict=strict)
    if not any(each.moves or each.steady for each in ranked):
        return Finding.no_data(
            "first-mover",
            f"no signal has {_LEAST} steps, or {_LEAST_EVALUATIONS} evaluations, for a baseline",
            missing=("steps.grad_norm", "steps.entropy", "steps.max_w", "steps.staleness_mean", "evals.score"),
        )
    evidence = [_evidence(each, move) for each in ranked for move in each.moves]
    return Finding(
        check="first-mover",
        status="warn" if evidence else "ok",
        value=len(evidence),
        unit="signals that moved",
        summary="; ".join(_line(each, alone=len(ranked) == 1) for each in ranked),
        check_next=_NEXT if evidence else (),
        evidence=tuple(evidence),
    )


def rank_signals(series: pl.DataFrame, *, strict: float = 1.0) -> tuple[Ranked, ...]:
    """The adapters of a frame of `signal_series`, each with its signals ranked."""
    read = list(_read(series))
    factor = strict * strictness(sum(len(each.values) for each in read))
    adapters = dict.fromkeys(each.adapter for each in read)
    return tuple(_rank(adapter, [each for each in read if each.adapter == adapter], factor) for adapter in adapters)


def _read(series: pl.DataFrame) -> Iterable[Series]:
    """The series of every signal, finite and in the order of steps."""
    parts = {(signal.name, part.name): (signal, part) for signal in SIGNALS for part in signal.parts}
    order = list(parts)
    grouped = series.partition_by("adapter", "signal", "part", as_dict=True, maintain_order=True)
    for key in sorted(grouped, key=lambda key: (key[0] is not None, key[0] or "", order.index((key[1], key[2])))):
        frame = grouped[key].filter(~pl.col("value").is_nan()).sort("step")
        signal, part = parts[key[1], key[2]]
        yield Series(key[0], signal, part, frame["step"].to_numpy(), _bounded(frame["value"].to_numpy(), part))


def _bounded(values: Array, part: Part) -> Array:
    """Values that a logarithm and a mean can take: infinities become ten times the largest finite value."""
    finite = values[np.isfinite(values)]
    largest = float(np.abs(finite).max()) if len(finite) else 1.0
    values = np.clip(values, -10 * largest, 10 * largest)
    if not part.log:
        return values
    positive = values[values > 0]
    # Zeros of a quantity that varies by factors stand a factor of ten below its usual size.
    return np.log(np.maximum(values, 0.1 * float(np.median(positive)) if len(positive) else 1.0))


def _rank(adapter: str | None, read: list[Series], factor: float) -> Ranked:
    moves: list[Move] = []
    steady: list[str] = []
    unknown: list[str] = []
    for signal in SIGNALS:
        least = least_samples(evaluation=signal.evaluation)
        known = [each for each in read if each.signal is signal and len(each.values) >= least]
        found = [move for each in known for move in _moves(each, factor)]
        if found:
            moves.append(min(found, key=lambda move: (move.seen, -move.score)))
        else:
            (steady if known else unknown).append(signal.name)
    return Ranked(adapter, tuple(sorted(moves, key=lambda m: (m.last, m.first))), tuple(steady), tuple(unknown))


def _moves(series: Series, factor: float) -> Iterable[Move]:
    """The onset in each direction that is bad."""
    for sign in {"up": (1,), "down": (-1,), "either": (-1, 1)}[series.part.worse]:
        found = onset(sign * series.values, evaluation=series.signal.evaluation, factor=factor, floor=_floor(series))
        if found is not None:
            yield _move(series, found, sign)


def _floor(series: Series) -> float:
    """Least variation that is believed: half a percent of the usual size."""
    return 0.005 if series.part.log else 0.005 * float(np.median(np.abs(series.values)))


def _move(series: Series, found: Onset, sign: int) -> Move:
    steps = series.steps
    first = int(steps[found.first - 1]) + 1 if found.first else int(steps[0])
    base = sign * found.base
    return Move(
        signal=series.signal.name,
        part=series.part.name,
        first=first,
        last=int(steps[found.last]),
        seen=int(steps[found.seen]),
        score=found.score,
        was=float(np.exp(base)) if series.part.log else base,
    )


def _evidence(ranked: Ranked, move: Move) -> Evidence:
    tie = ranked.tie(move)
    between = f"step {move.last}" if move.first == move.last else f"steps {move.first} to {move.last}"
    return Evidence(
        step=move.last,
        adapter=ranked.adapter,
        status="warn",
        value=move.score,
        text=f"{move.signal} left its band at {between}{', a tie' if tie else ''}",
        detail={
            "rank": ranked.rank(move),
            "signal": move.signal,
            "part": move.part,
            "onset_first": move.first,
            "onset_last": move.last,
            "tie": tie,
            "seen": move.seen,
            "was": move.was,
        },
    )


def _line(ranked: Ranked, *, alone: bool) -> str:
    """The sentence of the console: who moved, by how many steps later, who did not, and of whom nothing is known."""
    parts: list[str] = []
    if ranked.moves:
        start = ranked.moves[0].last
        words = [f"{ranked.moves[0].signal} @{start}"]
        for before, move in zip(ranked.moves, ranked.moves[1:], strict=False):
            overlap = move.first <= before.last and before.first <= move.last
            words.append(f"{'=' if overlap else '→'} {move.signal} +{move.last - start}")
        parts.append(" ".join(words))
    for said, names in (("steady", ranked.steady), ("no data", ranked.unknown)):
        if names:
            parts.append(f"{said}: {', '.join(names)}")
    return ("" if alone else f"{ranked.adapter or 'no adapter'}: ") + "; ".join(parts)
