"""Which signal left its band first, per adapter; ties are said to be ties."""

import polars as pl

from checks.finding import Evidence, Finding
from checks.onset import least_samples
from checks.ranking import Move, Ranked, rank_signals, timed
from checks.signals import signal_series
from checks.token_signals import token_signals
from checks.wall_clock import against_the_clock, said_time

_LEAST = least_samples(evaluation=False)
_LEAST_EVALUATIONS = least_samples(evaluation=True)
_NEXT = ("the first signal's own check: what moved first is nearer to the cause", "the other signals as its effects")


def first_mover(
    turns: pl.DataFrame,
    rewards: pl.DataFrame,
    steps: pl.DataFrame,
    evals: pl.DataFrame,
    spans: pl.DataFrame,
    versions: pl.DataFrame,
    weights: pl.DataFrame,
    lags: pl.DataFrame,
    entropies: pl.DataFrame,
    *,
    strict: float = 1.0,
) -> Finding:
    """Which signal left its band first, per adapter; ties are said to be ties.

    Definition: each signal's series (max w, min w, KL and w's ESS; staleness; stall; MFU; train reward against held-out
    and held-out itself; pass@k; entropy both ways; gradient norm) is compared with its own past: running median of
    five, rise of a short mean over the mean before it, against median and 1.4826 MAD of earlier rises, w, stall and
    gradient norm in logarithms. A lasting rise in the bad direction is a move; its onset is the likeliest start of a
    jump or ramp in autocorrelated noise. A signal sampled every n steps has an onset interval; signals whose intervals
    overlap share a rank and are a tie. Signals without data are never ranked. A move within the first 43 steps of a
    signal, or within the first 10 evaluations, is not seen: they are what it is compared with, and steady is said
    of what came after. Isolated outliers of one or two steps are not moves: grad-norm and importance-weight report
    those. w, staleness and entropy are taken from the tokens themselves, by the step that trained on them, and only
    where those tell of less than half as many steps as the trainer logged from its own numbers; never from both in
    one series. Where entropy is known of sampled tokens only it is their estimate, and the part says so. Ranks go
    by step; where the times of the steps (steps.at) give another order, within an adapter or between the first
    movers of two, that is said beside it.
    Units: signals that moved; onsets are optimizer steps.
    Reads: steps(step, adapter, at, duration_s, wait_s, mfu, model_flops, peak_flops, grad_norm, entropy, reward_mean,
    reward_eval, pass_at_k, max_w, min_w, kl_mu_old, ess, staleness_mean), evals, spans, versions, rewards,
    turns(session_id, adapter, adapter_version, weight_versions, trainer_step, trainer_version, completion_ids,
    sampled_logprobs, loss_mask, temperature, reward, purpose), scores(trainer_step, trainer_version, trainer_logprobs,
    entropies).
    Threshold: any move warns. The test's limits are calibrated for the whole log, by simulation: at most 2 % of healthy
    runs of 1,000 steps with autocorrelated, heavy-tailed noise rank anything (`checks/onset.py`). `strict` multiplies
    the limits.
    Check next: the check of the first signal; then the others, as effects.
    """
    tokens = token_signals(weights, lags, entropies, versions)
    series = signal_series(turns, rewards, steps, evals, spans, versions, tokens=tokens)
    ranked = timed(rank_signals(series, strict=strict), series, steps)
    if not any(each.moves or each.steady for each in ranked):
        return _too_few(series, steps, scored="cells" in weights.columns)
    evidence = [_evidence(each, move) for each in ranked for move in each.moves]
    return Finding(
        check="first-mover",
        status="warn" if evidence else "ok",
        value=len(evidence),
        unit="signals that moved",
        summary="; ".join([*(_line(each, alone=len(ranked) == 1) for each in ranked), *against_the_clock(ranked)]),
        check_next=_NEXT if evidence else (),
        evidence=tuple(evidence),
    )


def _too_few(series: pl.DataFrame, steps: pl.DataFrame, *, scored: bool) -> Finding:
    """Where the run itself is too short no further column would help, and none is named."""
    said = f"no signal has {_LEAST} steps, or {_LEAST_EVALUATIONS} evaluations, for a baseline"
    lines = (series.group_by("adapter", "signal", "part"), steps.group_by("adapter"))
    length = max((count for each in lines for count in each.agg(pl.col("step").n_unique())["step"]), default=0)
    if 0 < length < _LEAST:
        return Finding.no_data("first-mover", f"{said}: the log has {length} step{'' if length == 1 else 's'}")
    columns = ("steps.grad_norm", "steps.entropy", "steps.max_w", "steps.staleness_mean", "evals.score")
    of_tokens = () if scored else ("turns.trainer_logprobs",)
    return Finding.no_data("first-mover", said, missing=("turns.trainer_step", *of_tokens, *columns))


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
            "at": None if move.at is None else said_time(move.at),
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
