"""What one adapter trains on, decided without a look at token ids: batches of sessions, and the account of the rest."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from trainer.advantage import LARGEST, RunningBaseline
from trainer.batch.batch_config import BatchConfig
from trainer.batch.credit import give_credit
from trainer.batch.cutting import Cut, Unit, cut, units
from trainer.batch.funnel import Funnel, Pull, funnel
from trainer.batch.ledger import Ledger
from trainer.batch.own_turns import OwnTurns
from trainer.batch.response_rate import Answer, ResponseRates, answer, propensity_weights, response_rates
from trainer.batch.session_rewards import SessionRewards, reward_gaps
from trainer.batch.tenant_capture import CapturedSession, Place, TurnFacts
from trainer.batch.user_share import capped_scales


class PlannedBatch(NamedTuple):
    """The sessions of one optimizer step; the places are those of the turns with loss."""

    sessions: tuple[CapturedSession, ...]
    advantages: Mapping[Place, float]
    staleness: Mapping[Place, int]


class AdapterPlan(NamedTuple):
    """The batches of one adapter and the account of every turn of its tenant."""

    ledger: Ledger
    own: OwnTurns
    rewards: SessionRewards
    batches: tuple[PlannedBatch, ...]
    funnel: Funnel
    response: ResponseRates
    new_feedback: int
    baseline: float | None

    @property
    def turns(self) -> list[TurnFacts]:
        """Every turn of the planned sessions, with loss or without."""
        return [turn for batch in self.batches for session in batch.sessions for turn in session.turns]


def plan_adapter(
    own: OwnTurns,
    rewards: SessionRewards,
    baseline: float | None,
    config: BatchConfig,
    *,
    updates_per_batch: int = 1,
) -> AdapterPlan:
    """Sifts the tenant's turns stage by stage, gives credit to those that are left, and cuts them into batches.

    The weights are `updates_per_batch` steps further on at each batch than at the one before.
    """
    capture = own.capture
    ledger = Ledger(capture.sessions)
    ledger.sift(own.reason)
    gaps = reward_gaps(capture, rewards, config.session_reward_to)
    ledger.sift(lambda turn: gaps.get(turn.place))
    ledger.sift(lambda turn: _ineligible(turn, own, config))
    answers = _answers(capture.sessions, own, rewards)
    credit = give_credit(ledger, capture, rewards, baseline, config)
    weights = propensity_weights(answers, config) if config.propensity else {}
    advantages = _weighted(ledger, credit.by_place, weights)
    batches = _batches(ledger, own, rewards, advantages, config, updates_per_batch)
    trained = [session for batch in batches for session in batch.sessions]
    given = [rewards.rewarded(session).reward for session in trained]
    return AdapterPlan(
        ledger=ledger,
        own=own,
        rewards=rewards,
        batches=tuple(batches),
        funnel=funnel(
            ledger,
            _pulls(ledger, own, rewards, batches),
            batch_sessions=[len(batch.sessions) for batch in batches],
            zero_variance_groups=credit.zero_variance_groups,
            ignored_feedback=rewards.ignored,
        ),
        response=response_rates(answers),
        new_feedback=sum(rewards.counted.get(session.session_id, 0) for session in trained),
        baseline=RunningBaseline(baseline).after([r for r in given if r is not None and abs(r) <= LARGEST]).mean,
    )


def _ineligible(turn: TurnFacts, own: OwnTurns, config: BatchConfig) -> str | None:
    """Why an exact, rewarded turn is not trained on by these weights."""
    lineage = own.lineage
    if config.since is not None and turn.started_at < config.since:
        return "before_since"
    if lineage.was_trained_on(*turn.place):
        return "already_trained"
    version = own.exact_version(turn)
    if not lineage.holds(version):
        return "off_lineage"
    return "too_stale" if lineage.staleness(version) > config.max_staleness else None


def _answers(sessions: Sequence[CapturedSession], own: OwnTurns, rewards: SessionRewards) -> list[Answer]:
    """The closed sessions with a turn of the adapter's own."""
    found: list[Answer] = []
    for session in sessions:
        of_adapter = [turn for turn in session.turns if own.is_own(turn)]
        if of_adapter and rewards.is_closed(session):
            version = own.version(of_adapter[-1])
            found.append(answer(session, version, answered=rewards.is_answered(session)))
    return found


def _weighted(ledger: Ledger, advantages: Mapping[Place, float], weights: Mapping[str, float]) -> dict[Place, float]:
    """The kept turns' advantages times their sessions' weights."""
    found: dict[Place, float] = {}
    for session in ledger.sessions.values():
        for turn in ledger.kept(session):
            weighted = advantages[turn.place] * weights.get(session.session_id, 1.0)
            if abs(weighted) <= LARGEST:
                found[turn.place] = weighted
            else:
                ledger.leave_out(turn, "reward_not_finite")
    return found


def _batches(
    ledger: Ledger,
    own: OwnTurns,
    rewards: SessionRewards,
    advantages: Mapping[Place, float],
    config: BatchConfig,
    updates_per_batch: int,
) -> list[PlannedBatch]:
    """The kept turns in batches; those that are in none are left out."""

    def staleness(turn: TurnFacts, batch: int) -> int:
        return own.lineage.staleness(own.exact_version(turn)) + batch * updates_per_batch

    def usable(unit: Unit, batch: int) -> int:
        stalest = config.max_staleness
        return sum(any(staleness(t, batch) <= stalest for t in ledger.kept(each)) for each in unit.sessions)

    made = cut(units([session for session in ledger.sessions.values() if ledger.kept(session)]), config, usable)
    _leave_rest(ledger, made)
    batch_of = {session.session_id: at for at, batch in enumerate(made.batches) for session in _sessions(batch)}

    def too_stale(turn: TurnFacts) -> str | None:
        batch = batch_of.get(turn.session_id)
        return "too_stale" if batch is None or staleness(turn, batch) > config.max_staleness else None

    ledger.sift(too_stale)
    planned: list[PlannedBatch] = []
    for at, batch in enumerate(made.batches):
        sessions = tuple(session for session in _sessions(batch) if ledger.kept(session))
        capped = _capped(ledger, rewards, sessions, advantages, config)
        stale = {turn.place: staleness(turn, at) for session in sessions for turn in ledger.kept(session)}
        planned.append(PlannedBatch(sessions, capped, stale))
    return planned


def _sessions(batch: Sequence[Unit]) -> list[CapturedSession]:
    return [session for unit in batch for session in unit.sessions]


def _leave_rest(ledger: Ledger, made: Cut) -> None:
    for session in _sessions(made.waiting):
        for turn in ledger.kept(session):
            ledger.leave_out(turn, "too_few_sessions")


def _capped(
    ledger: Ledger,
    rewards: SessionRewards,
    sessions: Sequence[CapturedSession],
    advantages: Mapping[Place, float],
    config: BatchConfig,
) -> dict[Place, float]:
    """The advantages of a batch with no user's share of it above the cap."""
    masses: dict[str, list[float]] = {}
    for session in sessions:
        pulled = [abs(advantages[turn.place]) * turn.tokens for turn in ledger.kept(session)]
        masses.setdefault(rewards.user(session), []).extend(pulled)
    scales = capped_scales({user: math.fsum(its) for user, its in masses.items()}, config.max_user_share)
    return {
        turn.place: advantages[turn.place] * scales[rewards.user(session)]
        for session in sessions
        for turn in ledger.kept(session)
    }


def _pulls(ledger: Ledger, own: OwnTurns, rewards: SessionRewards, batches: Sequence[PlannedBatch]) -> list[Pull]:
    found: list[Pull] = []
    for batch in batches:
        for session in batch.sessions:
            for turn in ledger.kept(session):
                mass = abs(batch.advantages[turn.place]) * turn.tokens
                found.append(Pull(rewards.user(session), own.exact_version(turn), mass))
    return found
