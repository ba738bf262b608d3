"""Tasks that an earlier version fixed: found in the evaluations of the past, tried again, and none may fall back."""

import math
from collections.abc import Collection, Sequence
from typing import NamedTuple

import polars as pl

from trainer.gate.report import Criterion, Status, Trial
from trainer.gate.samples import passes, scores
from trainer.gate_config import GateConfig
from trainer.gate_statistics import compare, fallen, mean_scores

_LISTED = 5


class Fall(NamedTuple):
    """A fix that the candidate lost."""

    task: str
    against: int
    """The version that has it."""
    passed: tuple[int, int]
    """Of the candidate: (passed, samples)."""
    other_passed: tuple[int, int]


def earlier_fixes(evals: pl.DataFrame, *, adapter: str, suite: str, once_live: Collection[int]) -> list[str]:
    """Task ids that failed under one version and passed under a later one that is or was live, by id.

    Failed: none of the samples passed. Passed: more than half did. Samples vary, so that some of these are chance;
    a wrong one costs samples and nothing else, since a fall is judged on fresh samples of both versions.
    """
    mine = evals.filter(
        ((pl.col("adapter") == adapter) | (pl.col("adapter").is_null() & (pl.col("version") == 0)))
        & (pl.col("suite") == suite)
    ).drop_nulls("passed")
    rates = mine.group_by("task_id", "version").agg(rate=pl.col("passed").cast(pl.Float64).mean())
    failed = rates.filter(pl.col("rate") == 0).group_by("task_id").agg(first=pl.col("version").min())
    live = pl.col("version").is_in(list(once_live))
    passed = rates.filter((pl.col("rate") > 0.5) & live).group_by("task_id").agg(last=pl.col("version").max())
    fixed = failed.join(passed, on="task_id").filter(pl.col("first") < pl.col("last"))
    return sorted(fixed["task_id"].to_list())


def fixes_kept(
    candidate: Trial, others: Sequence[Trial], tasks: Sequence[str], config: GateConfig, *, deterministic: bool
) -> Criterion:
    """Whether the candidate keeps every earlier fix that live and the pinned best have.

    Sampled replies: a fall is a one-sided Fisher exact test on fresh samples of both, corrected over all fixes and
    versions by Holm's method, so that a candidate that kept them all is refused with a chance of at most `fall_level`;
    and the fixes together must not be worse by the gate's own comparison, which finds many small falls. Deterministic
    replies: any fix that the other passes and the candidate fails. A fix that live has lost itself is no fall.
    """
    if not tasks:
        return Criterion(name="earlier fixes", status="pass", text="no earlier fix to try again")
    pairs = _pairs(candidate, others, tasks)
    if len({pair.task for pair in pairs}) < len(set(tasks)):
        missing = len(set(tasks)) - len({pair.task for pair in pairs})
        return Criterion(
            name="earlier fixes",
            status="no_data",
            tasks=len(tasks),
            text=f"{missing} of {len(tasks)} earlier fixes were not observed",
            next="evaluate again",
        )
    falls = _certain(pairs) if deterministic else _significant(pairs, config.fall_level)
    if falls:
        listed = "; ".join(_shown(fall) for fall in falls[:_LISTED])
        more = f"; and {len(falls) - _LISTED} more" if len(falls) > _LISTED else ""
        return _criterion(tasks, "refuse", f"lost: {listed}{more}", "look at these tasks' replies, and what taught it")
    for other in others:
        together = compare(
            mean_scores(scores(candidate, tasks)), mean_scores(scores(other, tasks)), margin=config.margin
        )
        if together.verdict == "worse" and together.mean_difference is not None:
            text = f"worse on the fixes together: {together.mean_difference:+.3f} against version {other.version}"
            return _criterion(tasks, "refuse", text, "look at the tasks with the largest loss")
    if not deterministic and (short := _too_few(pairs, config.fall_level)) is not None:
        return _criterion(tasks, "inconclusive", short, "raise evaluation.fix_samples or lower evaluation.most_fixes")
    lost = len({pair.task for pair in pairs if pair.against == others[0].version and not pair.other_passed[0]})
    aside = f" ({lost} that version {others[0].version} fails now are no fall)" if lost else ""
    return _criterion(tasks, "pass", f"none of {len(set(tasks))} fell back{aside}", None)


def _pairs(candidate: Trial, others: Sequence[Trial], tasks: Sequence[str]) -> list[Fall]:
    ours = passes(candidate, tasks)
    return [
        Fall(task, other.version, (sum(ours[task]), len(ours[task])), (sum(theirs), len(theirs)))
        for other in others
        for task, theirs in passes(other, tasks).items()
        if task in ours
    ]


def _certain(pairs: Sequence[Fall]) -> list[Fall]:
    return [pair for pair in pairs if pair.other_passed[0] == pair.other_passed[1] and pair.passed[0] == 0]


def _significant(pairs: Sequence[Fall], level: float) -> list[Fall]:
    """Holm: from the least likely on, each at the level over how many are left."""
    ranked = sorted(((fallen(pair.passed, pair.other_passed), pair) for pair in pairs), key=lambda each: each[0])
    found: list[Fall] = []
    for index, (chance, pair) in enumerate(ranked):
        if chance > level / (len(ranked) - index):
            break
        found.append(pair)
    return found


def _too_few(pairs: Sequence[Fall], level: float) -> str | None:
    """Why no fall at all could have been shown, where that is so."""
    fewest = min(min(pair.passed[1], pair.other_passed[1]) for pair in pairs)
    if 1 / math.comb(2 * fewest, fewest) <= level / len(pairs):
        return None
    return f"{fewest} samples of each could not show a fall among {len(pairs)} comparisons"


def _shown(fall: Fall) -> str:
    ours, theirs = fall.passed, fall.other_passed
    return f"{fall.task} ({ours[0]}/{ours[1]}, version {fall.against} {theirs[0]}/{theirs[1]})"


def _criterion(tasks: Sequence[str], status: Status, text: str, then: str | None) -> Criterion:
    return Criterion(name="earlier fixes", status=status, text=text, next=then, tasks=len(set(tasks)))
