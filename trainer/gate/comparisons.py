"""The candidate's score and pass@k against one other version, task by task."""

import math
from collections.abc import Iterable, Mapping, Sequence

from trainer.gate.report import Criterion, Trial
from trainer.gate.samples import passes, scores
from trainer.gate_config import GateConfig
from trainer.gate_statistics import Comparison, Spread, compare, mean_scores, pass_rates, spread_of, tasks_for


def comparisons(candidate: Trial, other: Trial, tasks: Sequence[str], config: GateConfig) -> list[Criterion]:
    """The score, and pass@k where k is above 1."""
    ours, theirs = scores(candidate, tasks), scores(other, tasks)
    found = [
        _criterion("score", other, mean_scores(ours), mean_scores(theirs), config, _sampling_variance(ours, theirs))
    ]
    if config.pass_k > 1:
        k = config.pass_k
        rates = pass_rates(passes(candidate, tasks), k), pass_rates(passes(other, tasks), k)
        found.append(_criterion(f"pass@{k}", other, *rates, config, None))
    return found


def _criterion(
    name: str,
    other: Trial,
    ours: Mapping[str, float],
    theirs: Mapping[str, float],
    config: GateConfig,
    sampling_variance: float | None,
) -> Criterion:
    shared = ours.keys() & theirs.keys()
    if not shared:
        missing = "no task has a sample of both" if name == "score" else f"no task has {name[5:]} samples of both"
        return Criterion(
            name=name,
            against=other.version,
            status="no_data",
            text=f"{missing}: nothing is compared",
            next="evaluate again, with enough samples of each task",
        )
    found = compare(ours, theirs, margin=config.margin)
    needed, least = _needed(found, config.margin, sampling_variance)
    status = "pass" if found.verdict == "not_worse" else "refuse" if found.verdict == "worse" else "inconclusive"
    return Criterion(
        name=name,
        against=other.version,
        status=status,
        text=_text(found, config.margin),
        next=_next(found, needed, least),
        candidate=_mean(ours[task] for task in sorted(shared)),
        other=_mean(theirs[task] for task in sorted(shared)),
        difference=found.mean_difference,
        lower_bound=found.lower_bound,
        limit=-config.margin,
        minimum_detectable=found.minimum_detectable,
        tasks=found.tasks,
        tasks_needed=needed,
        tasks_needed_at_least=least,
    )


def _text(found: Comparison, margin: float) -> str:
    if found.lower_bound is None or found.minimum_detectable is None or found.mean_difference is None:
        return f"{found.tasks} task is compared, expected two or more"
    shown = f"{found.mean_difference:+.3f}, at least {found.lower_bound:+.3f} with 95 % confidence"
    if found.verdict == "not_worse":
        return f"not worse by {margin:g}: {shown}"
    if found.verdict == "worse":
        return f"worse: {shown}, where more than {-margin:+g} is needed"
    seen = f"{found.tasks} tasks show only a difference of {found.minimum_detectable:.3f}"
    return f"cannot be told: {shown}, where more than {-margin:+g} is needed; {seen}"


def _next(found: Comparison, needed: int | None, least: int | None) -> str | None:
    if found.verdict == "not_worse":
        return None
    if found.verdict == "worse":
        return "look at the tasks it lost, then at the rewards it was trained on"
    if needed is None or least is None:
        return "evaluate on more tasks"
    fewer = f", or {least} with many more samples of each" if least < needed else ""
    return f"evaluate on {needed} tasks{fewer}; or accept a larger margin"


def _needed(found: Comparison, margin: float, sampling_variance: float | None) -> tuple[int | None, int | None]:
    """Tasks needed at this many samples of each, and with ever more of them."""
    if found.spread is None:
        return None, None
    needed = tasks_for(found.spread, margin)
    if sampling_variance is None:
        return needed, needed
    sd = found.spread.sd
    share = math.sqrt(max(0.0, 1 - sampling_variance / sd**2)) if sd else 1.0
    between = Spread(sd * share, found.spread.shares, tuple(size * share for size in found.spread.sizes))
    # However often each is tried: so many are needed even where none differs.
    least = max(tasks_for(between, margin) or 0, tasks_for(spread_of([0.0, 0.0]), margin) or 0)
    return needed, least if needed is None else min(needed, least)


def _sampling_variance(ours: Mapping[str, Sequence[float]], theirs: Mapping[str, Sequence[float]]) -> float | None:
    """How much of the variance of the differences is that of sampling, which more samples of a task take away."""
    shared = sorted(ours.keys() & theirs.keys())
    if not shared or any(len(values[task]) < 2 for task in shared for values in (ours, theirs)):
        return None
    return _mean(
        _variance(ours[task]) / len(ours[task]) + _variance(theirs[task]) / len(theirs[task]) for task in shared
    )


def _variance(values: Sequence[float]) -> float:
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return math.fsum(listed) / len(listed)
