"""Train reward against the held-out score, and where they first move in opposite directions."""

import math
from typing import Any, NamedTuple

import msgspec
import numpy as np
import polars as pl

from checks.eval_falls import Change, eval_falls
from checks.eval_points import eval_points, stepped
from checks.eval_suites import suites_text
from checks.finding import Evidence, Finding, Number, Series, kept
from checks.step_curves import step_curves
from checks.train_rewards import at_evaluations, train_rewards

# Any: NumPy's own generic parameter for an element type.
Array = np.ndarray[Any, np.dtype[Any]]

LEAST = 5
"""Evaluations from which noise can be told from movement."""
_NEXT = ("what the rewarded sessions of that step have in common: is the reward being gamed", "pass-at-k", "truncation")


class Curve(NamedTuple):
    """One adapter at its evaluations."""

    steps: Array
    held_out: Array
    train: Array
    """Mean train reward since the evaluation before."""


def reward_eval_gap(
    turns: pl.DataFrame,
    rewards: pl.DataFrame,
    steps: pl.DataFrame,
    evals: pl.DataFrame,
    versions: pl.DataFrame,
    *,
    sigmas: float = 4.0,
) -> Finding:
    """Train reward against the held-out score, and where they first move in opposite directions.

    Definition: the gap is the train reward of the newest step less the held-out score of the newest evaluation, of one
    suite: where several were tried it is chosen as by pass-at-k, and the summary names it. An
    opposite movement is an evaluation since which the held-out score stays below an earlier level by more than `sigmas`
    times its noise, the mean of two evaluations against the mean of two, while the train reward since rose by more than
    `sigmas` times its own. Noise is 1.4826 MAD of second differences over the root of 6, so that trends do not count as
    noise. It takes 5 evaluations beside train reward. Of an adapter with fewer, a fall is a version that does worse
    than the one it was trained from (where no parents are logged: than the evaluation before), task by task over at
    least 8 tasks that both were tried on, by more than 4 standard errors of the paired mean or on every task by as
    much, and that no later version made good. Turns of purpose eval and probe are not train reward.
    Units: reward; the two scales are compared as they are logged.
    Reads: steps(step, adapter, reward_mean, reward_eval), turns(session_id, adapter, trainer_step, purpose, reward),
    rewards, evals(adapter, version, step, suite, task_id, score, passed), versions.
    Threshold: an opposite movement and a fall warn; 4 times the noise, and 4 standard errors as of many tasks, both
    provisional: of some hundred thousand simulated pairs of equal versions the fall names one. The gap itself has no
    threshold: the two are often on different scales. Lecture 12 of CMU 11-768: train reward up while held-out falls is
    reward hacking.
    Check next: what the rewarded sessions have in common; pass-at-k; truncation.
    """
    train = train_rewards(turns, rewards, steps, versions).filter(pl.col("value").is_finite())
    held_out = eval_points(evals, versions, steps).filter(pl.col("value").is_finite())
    metrics: dict[str, Number] = {
        name: _newest(points)
        for name, points in (("reward_train_last", train), ("reward_eval_last", held_out))
        if points.height
    }
    if train.is_empty() or held_out.is_empty():
        which = "no held-out score" if held_out.is_empty() else "no train reward"
        missing = ("evals.score", "steps.reward_eval") if held_out.is_empty() else ("steps.reward_mean", "turns.reward")
        nothing = Finding.no_data("reward-eval-gap", f"{which} by step", missing=missing)
        return msgspec.structs.replace(nothing, series=_series(train, held_out))
    metrics["reward_eval_gap_last"] = metrics["reward_train_last"] - metrics["reward_eval_last"]
    paired = at_evaluations(train, held_out).partition_by("adapter", as_dict=True, maintain_order=True)
    curves = {
        key[0]: Curve(curve["step"].to_numpy(), curve["value"].to_numpy(), curve["train"].to_numpy())
        for key, curve in paired.items()
    }
    adapters: list[str | None] = held_out["adapter"].unique(maintain_order=True).to_list()
    few = [adapter for adapter in adapters if adapter not in curves or len(curves[adapter].steps) < LEAST]
    moves = [found for adapter, curve in curves.items() if (found := _opposite(adapter, curve, sigmas)) is not None]
    moves += [_fall(adapter, fall) for adapter in few for fall in eval_falls(evals, versions, adapter)]
    evidence, omitted = kept(moves)
    told = f"train {metrics['reward_train_last']:.4g}, held-out {metrics['reward_eval_last']:.4g}"
    suites = suites_text(stepped(evals, versions))
    told += f" ({suites})" if suites else ""
    enough = any(len(curve.steps) >= LEAST for curve in curves.values())
    none_told = "" if enough else f"; fewer than {LEAST} evaluations beside train reward, no movement told"
    moved = f"; {evidence[0].text}" if evidence else none_told
    return Finding(
        check="reward-eval-gap",
        status="warn" if evidence else "ok",
        value=metrics["reward_eval_gap_last"],
        unit="reward",
        summary=told + moved,
        check_next=_NEXT if evidence else (),
        evidence=evidence,
        evidence_omitted=omitted,
        metrics=metrics,
        series=_series(train, held_out),
    )


def _newest(points: pl.DataFrame) -> float:
    """The value of the newest step, the mean over adapters where several have it."""
    last = points.filter(pl.col("step") == pl.col("step").max())["value"]
    return float(last.sum()) / len(last)


def _opposite(adapter: str | None, curve: Curve, sigmas: float) -> Evidence | None:
    """The first evaluation since which held-out is down and train is up."""
    count = len(curve.steps)
    if count < LEAST:
        return None
    held, train = _pairs(curve.held_out), _pairs(curve.train)
    error = math.sqrt(1 / 2 + 1 / 2)
    least_fall, least_rise = sigmas * error * noise(curve.held_out), sigmas * error * noise(curve.train)
    for late in range(2, count - 1):
        falls = held[: late - 1] - held[late]
        rises = train[late] - train[: late - 1]
        opposite = np.flatnonzero((falls > max(least_fall, 1e-9)) & (rises > max(least_rise, 1e-9)))
        if len(opposite) == 0:
            continue
        early = int(opposite[np.argmax(falls[opposite])])
        if held[early] - held[-1] <= least_fall / 2:
            continue
        step = int(curve.steps[late])
        said = (
            f"from step {step} held-out is {falls[early]:.3g} below its level at step {curve.steps[early]}, "
            f"train {rises[early]:.3g} above"
        )
        detail: dict[str, int | float | str | None] = {
            "since": int(curve.steps[early]),
            "train_rose": float(rises[early]),
        }
        return Evidence(step=step, adapter=adapter, status="warn", value=float(-falls[early]), text=said, detail=detail)
    return None


def _fall(adapter: str | None, fall: Change) -> Evidence:
    score, line = fall.score, "" if adapter is None else f"{adapter}: "
    later, before = (
        (f"step {fall.step}", f"step {fall.since}")
        if fall.version is None or fall.parent is None or fall.version == fall.parent
        else (f"v{fall.version}", f"v{fall.parent}")
    )
    return Evidence(
        step=fall.step,
        adapter=adapter,
        status="warn",
        value=score.by,
        text=f"{line}held-out fell from {score.before:.3g} at {before} to {score.after:.3g} at {later}, over the"
        f" {score.tasks} tasks of both" + ("" if fall.suites < 2 else f", suite {fall.suite or 'without a name'}"),
        detail={
            "since": fall.since,
            "version": fall.version,
            "parent": fall.parent,
            "tasks": score.tasks,
            "suite": fall.suite,
            "reward_eval_before": score.before,
            "reward_eval_after": score.after,
            "low": score.low,
            "high": score.high,
        },
    )


def _pairs(values: Array) -> Array:
    """The mean of each value and the one after it."""
    return (values[:-1] + values[1:]) / 2


def noise(values: Array) -> float:
    """Standard deviation of one value about a smooth trend."""
    bends = values[2:] - 2 * values[1:-1] + values[:-2]
    return 1.4826 * float(np.median(np.abs(bends))) / math.sqrt(6) if len(bends) else math.inf


def _series(train: pl.DataFrame, held_out: pl.DataFrame) -> tuple[Series, ...]:
    return (*step_curves(train, "train reward", "reward"), *step_curves(held_out, "held-out score", "reward"))
