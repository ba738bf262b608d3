"""Held-out scores that surely fell from one version to the next, where there are too few for a baseline."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
import polars as pl

from checks.eval_points import stepped
from checks.eval_suites import suites_of
from checks.group_advantage import ABSOLUTE, RELATIVE
from checks.paired_tasks import Paired, paired

LEAST_TASKS = 8
"""Tasks that both evaluations must have."""
SURE = 4.0
"""Standard errors, as of many tasks, by which the paired mean must fall; provisional. Of some
hundred thousand simulated pairs that are alike it names one."""


class Point(NamedTuple):
    """One evaluated version; in a log without versions, one evaluated step."""

    version: int | None
    step: int
    scores: Mapping[str | None, float]
    """Task to the mean score of its samples."""


class Evaluated(NamedTuple):
    """What one adapter did on one held-out suite."""

    suite: str | None
    points: list[Point]
    """In order."""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A version against the one that it was trained from, on the held-out tasks that both were tried on."""

    since: int
    """Step of the one before: what changed began after it."""
    step: int
    """Step of the later one."""
    version: int | None
    """The later one; None where the log names steps only."""
    parent: int | None
    """What it is compared with: the nearest version it was trained from that has enough of its tasks."""
    score: Paired
    suite: str | None = None
    """The held-out suite whose tasks these are."""
    suites: int = 1
    """On how many suites the adapter was tried: its numbers on one are not compared with those on another."""

    @property
    def first(self) -> int:
        """The earliest step that can have brought it."""
        return min(self.since + 1, self.step)

    @property
    def fell(self) -> bool:
        """Whether it surely does worse."""
        return fell(self.score)


def evaluated(evals: pl.DataFrame, versions: pl.DataFrame, adapter: str | None) -> list[Evaluated]:
    """What was evaluated of one adapter by suite, the suite that its numbers are of first.

    The base model's evaluation, version 0, is the adapter's first.
    """
    own = pl.col("adapter").eq_missing(adapter)
    mine = stepped(evals.filter(own), versions.filter(own))
    scored = mine.drop_nulls(["step", "points"]).filter(pl.col("points").is_finite())
    means = scored.group_by("suite", "version", "step", "task_id").agg(pl.col("points").mean())
    return [
        Evaluated(suite, _points(means.filter(pl.col("suite").eq_missing(suite))))
        for suite in suites_of(mine).get(adapter, ())
    ]


def _points(means: pl.DataFrame) -> list[Point]:
    found: dict[tuple[int, int | None], dict[str | None, float]] = {}
    for version, step, task, score in means.select("version", "step", "task_id", "points").iter_rows():
        found.setdefault((step, version), {})[task] = score
    order = sorted(found, key=lambda key: (key[0], -1 if key[1] is None else key[1]))
    return [Point(version, step, found[step, version]) for step, version in order]


def eval_falls(evals: pl.DataFrame, versions: pl.DataFrame, adapter: str | None) -> tuple[Change, ...]:
    """The falls of one adapter that no later version made good, oldest first.

    Of a version that fell on several suites it is the fall on the one that the adapter's numbers are of, else on the
    next.
    """
    parents = parents_of(versions, adapter)
    known = evaluated(evals, versions, adapter)
    found: dict[tuple[int, int], Change] = {}
    for of_suite in known:
        for at, change in enumerate(_changes(of_suite, parents, len(known))):
            if change is not None and change.fell and not _made_good(of_suite.points, at, parents):
                found.setdefault((change.step, -1 if change.version is None else change.version), change)
    return tuple(found[key] for key in sorted(found))


def changes_by_suite(evals: pl.DataFrame, versions: pl.DataFrame, adapter: str | None) -> list[list[Change]]:
    """What each evaluation shows against the version before, in order, by suite as `evaluated` has them; without those
    that have nothing to be compared with."""
    parents = parents_of(versions, adapter)
    known = evaluated(evals, versions, adapter)
    return [[each for each in _changes(of, parents, len(known)) if each is not None] for of in known]


def _changes(of: Evaluated, parents: Mapping[int, int | None], suites: int) -> list[Change | None]:
    found = [_change_at(of.points, at, parents) for at in range(len(of.points))]
    named = {"suite": of.suite, "suites": suites}
    return [None if change is None else msgspec.structs.replace(change, **named) for change in found]


def _change_at(points: Sequence[Point], at: int, parents: Mapping[int, int | None]) -> Change | None:
    """What one evaluation shows against the version before; None where there is nothing to compare it with.

    A version is compared with the one it was trained from, and not with the one that was evaluated before it: that may
    be a version which was refused and led nowhere.
    """
    before = _reference(points, at, parents)
    later = points[at]
    score = None if before is None else paired(before.scores, later.scores)
    if before is None or score is None:
        return None
    return Change(since=before.step, step=later.step, version=later.version, parent=before.version, score=score)


def parents_of(versions: pl.DataFrame, adapter: str | None) -> dict[int, int | None]:
    """Version to the one it was trained from, as far as the log says; nothing where it says that of none."""
    mine = versions.filter(pl.col("adapter").eq_missing(adapter)).drop_nulls("version")
    known = mine.drop_nulls("parent")
    roots: dict[int, int | None] = dict.fromkeys(mine["version"].to_list() if known.height else ())
    return roots | dict(known.select("version", "parent").iter_rows())


def _reference(points: Sequence[Point], at: int, parents: Mapping[int, int | None]) -> Point | None:
    """What an evaluation is compared with: the nearest ancestor with enough of its tasks; without a line of versions
    the evaluation of the step before."""
    point = points[at]
    if point.version is None or point.version not in parents:
        before = points[at - 1] if at else None
        return before if before is not None and before.step < point.step and _enough(before, point) else None
    by_version = {each.version: each for each in points}
    passed: set[int] = set()
    above = parents[point.version]
    # A registry that says a version comes from itself ends the walk.
    while above is not None and above not in passed:
        passed.add(above)
        if above in by_version and _enough(by_version[above], point):
            return by_version[above]
        above = parents.get(above)
    return None


def _enough(one: Point, other: Point) -> bool:
    return len(one.scores.keys() & other.scores.keys()) >= LEAST_TASKS


def fell(score: Paired) -> bool:
    """Whether the mean surely fell: every task by as much, or by so many standard errors, and more than rounding."""
    least = max(ABSOLUTE, RELATIVE * max(abs(score.before), abs(score.after)))
    return score.by < -least and (score.errors is None or score.errors >= SURE)


def _made_good(points: Sequence[Point], at: int, parents: Mapping[int, int | None]) -> bool:
    """Whether a later version was evaluated and is no such fall from the same one."""
    own, before = points[at], _reference(points, at, parents)
    assert before is not None
    later = points[at + 1 :]
    if own.version is not None:
        later = [each for each in points if each.version is not None and each.version > own.version]
    scores = [paired(before.scores, each.scores) for each in later if _enough(before, each)]
    return any(score is not None and not fell(score) for score in scores)
