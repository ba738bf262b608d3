"""What fell on held-out tasks, and what gate and rewards said of it: read first where nothing has a baseline."""

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec
import polars as pl

from checks.eval_falls import Change, Point, eval_falls, evaluated
from checks.paired_tasks import Paired, paired
from checks.ranking import Ranked
from checks.train_rewards import train_rewards
from collector.records import Version
from console.watch.held import Held
from console.watch.kept import Kept
from console.watch.views.learnt_turns import sampler_of, turns_of_steps, turns_within
from trainer.adapter_standing import gate_summary

HELD_OUT = "reward_eval_gap"
"""The signal that a fall belongs to."""


class RewardMove(msgspec.Struct, frozen=True, kw_only=True):
    """The train reward of the steps that made the version before, and of those that made the one that fell."""

    before: float | None
    after: float
    sampler_before: int | None = None
    """The version that sampled the turns of the one; None where several did, or nobody knows."""
    sampler_after: int | None = None
    held_out: Paired | None = None
    """The held-out scores of those two versions."""

    @property
    def against(self) -> bool:
        """Whether reward and held-out moved in opposite ways between the two versions that earned the reward."""
        score = self.held_out
        if score is None or self.before is None or score.low is None or score.high is None:
            return False
        return score.low > 0 > self.after - self.before or score.high < 0 < self.after - self.before


class ToldFall(msgspec.Struct, frozen=True, kw_only=True):
    """A fall, and what else is recorded of the version that fell."""

    fall: Change
    state: str | None = None
    """candidate, canary, live, rejected or retired; None without a registry."""
    verdict: str | None = None
    """The gate's; None where it did not judge."""
    reward: RewardMove | None = None
    """None where no train reward is recorded of its steps."""
    at: datetime | None = None
    """When its last step ended."""

    @property
    def refused(self) -> bool:
        """Whether the gate refused it."""
        return self.verdict == "refuse"


ToldFalls = Mapping[str | None, tuple[ToldFall, ...]]
"""Adapter to its falls."""


class Falls:
    """Adapter to its falls, as long as nothing that they are made of is another."""

    def __init__(self) -> None:
        self._kept: Kept[ToldFalls] = Kept()

    def of(self, held: Held, ranked: Sequence[Ranked]) -> ToldFalls:
        """Of each adapter whose held-out signal has no baseline yet: where it has one, the ranking tells."""
        trained = held.turns.height - held.turns["trainer_step"].null_count()
        inputs = (held.evals, held.versions, held.steps, held.rewards, held.registry, trained, *ranked)
        return self._kept.of(inputs, lambda: self._of(held, ranked))

    def _of(self, held: Held, ranked: Sequence[Ranked]) -> ToldFalls:
        ranks = {each.adapter: each for each in ranked}
        found: dict[str | None, tuple[ToldFall, ...]] = {}
        for adapter in held.evals["adapter"].unique(maintain_order=True):
            if adapter in ranks and HELD_OUT not in ranks[adapter].unknown:
                continue
            fell = eval_falls(held.evals, held.versions, adapter)
            if fell:
                found[adapter] = tuple(_told(held, adapter, each) for each in fell)
        return found


def _told(held: Held, adapter: str | None, fall: Change) -> ToldFall:
    version = version_of(held, adapter, fall.version)
    ended = held.steps.filter(pl.col("adapter").eq_missing(adapter) & (pl.col("step") == fall.step))["at"].drop_nulls()
    return ToldFall(
        fall=fall,
        state=None if version is None else version.state,
        verdict=None if version is None else gate_summary(version).verdict,
        reward=reward_move(held, adapter, fall),
        at=ended[-1] if len(ended) else None,
    )


def version_of(held: Held, adapter: str | None, version: int | None) -> Version | None:
    """The registry's record of a version."""
    known = () if held.registry is None else held.registry.versions
    return next((each for each in known if (each.adapter, each.version) == (adapter, version)), None)


def reward_move(held: Held, adapter: str | None, change: Change) -> RewardMove | None:
    """What the rewards did meanwhile."""
    points = next(of.points for of in evaluated(held.evals, held.versions, adapter) if of.suite == change.suite)
    own, parent = version_of(held, adapter, change.version), version_of(held, adapter, change.parent)
    above = None if parent is None else version_of(held, adapter, parent.parent)
    began = _step_of(above) if parent is not None else _evaluated_before(points, change.since)
    rewards = _train(held, adapter, None if own is None else own.created_at)
    after = _mean(rewards, change.since, change.step)
    if after is None:
        return None
    before = _mean(rewards, began, change.since)
    one = _sampler(held, adapter, parent, -1 if began is None else began, change.since)
    other = _sampler(held, adapter, own, change.since, change.step)
    scores = {point.version: point.scores for point in points}
    known = None not in (one, other) and one != other and one in scores and other in scores
    score = paired(scores[one], scores[other]) if known else None
    return RewardMove(before=before, after=after, sampler_before=one, sampler_after=other, held_out=score)


def _sampler(held: Held, adapter: str | None, version: Version | None, since: int, until: int) -> int | None:
    """The version whose turns a version learned from, or the steps after one and up to another."""
    if adapter is None:
        return None
    if version is not None:
        return sampler_of(turns_within(held.turns, version.trained_on), adapter)
    return sampler_of(turns_of_steps(held, adapter, since + 1, until), adapter)


def _step_of(version: Version | None) -> int | None:
    return None if version is None else version.optimizer_step or 0


def _evaluated_before(points: Sequence[Point], step: int) -> int | None:
    return max((each.step for each in points if each.step < step), default=None)


def _train(held: Held, adapter: str | None, until: datetime | None) -> pl.DataFrame:
    """`step, value`: of steps that were made again from the same version, those that had made this one."""
    steps = held.steps if until is None else held.steps.filter((pl.col("at") <= until).fill_null(True))
    rewards = train_rewards(held.turns, held.rewards, steps, held.versions)
    return rewards.filter(pl.col("adapter").eq_missing(adapter) & pl.col("value").is_finite())


def _mean(rewards: pl.DataFrame, since: int | None, until: int) -> float | None:
    """Of the steps after one and up to another."""
    step = pl.col("step")
    values = rewards.filter((step <= until) & (step > since if since is not None else pl.lit(True)))["value"]
    return float(values.sum()) / len(values) if len(values) else None
