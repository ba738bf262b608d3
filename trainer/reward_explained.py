"""Which judgements of a session count, why others do not, and what reward they make: by the trainer's own rules."""

from collections import Counter
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from collector.records import Feedback, Reward
from trainer.batch.tenant_capture import CapturedSession, TenantCapture
from trainer.reward import RewardConfig, SessionEnd, close_rewards, standing, why_ignored, worth


class Verdict(NamedTuple):
    """What becomes of one judgement."""

    feedback: Feedback
    reason: str | None
    """Why it does not count: duplicate, superseded, late, kind_left_out, no_value or not_finite; None when it does."""
    by: str | None
    """For a superseded one: the feedback_id that replaces it."""
    worth: float | None
    """What it is worth by itself; judgements of one kind on one target are averaged, kinds are added."""


class Explanation(NamedTuple):
    """A session's judgements and rewards."""

    session_id: str
    closes_at: datetime
    """When its feedback window closes, or closed."""
    closed: bool
    verdicts: tuple[Verdict, ...]
    rewards: tuple[Reward, ...]
    """As they stand: those of an open window may still change."""


def explained(capture: TenantCapture, session: CapturedSession, config: RewardConfig, *, now: datetime) -> Explanation:
    """What the feedback of a tenant makes of one of its sessions."""
    turns = {turn.turn_id: session.session_id for turn in session.turns}
    closes_at = session.ended_at + timedelta(seconds=config.window_s)
    # All of the tenant's, since what supersedes a judgement may be on another session.
    verdicts = _verdicts(capture.feedback, session.session_id, turns.keys(), config, closes_at)
    ends = [SessionEnd(session.session_id, session.ended_at)]
    closed = close_rewards(ends, capture.feedback, turns, config, now=max(now, closes_at)).closed
    rewards = tuple(each for each in closed if each.value is not None)
    return Explanation(session.session_id, closes_at, closes_at <= now, tuple(verdicts), rewards)


def _verdicts(
    feedback: Sequence[Feedback], session_id: str, turn_ids: Collection[str], config: RewardConfig, closes_at: datetime
) -> list[Verdict]:
    stand = {id(judged) for judged in standing(feedback, Counter())}
    first: dict[str, Feedback] = {}
    for judged in feedback:
        first.setdefault(judged.feedback_id, judged)
    replaced = {judged.supersedes: judged.feedback_id for judged in first.values() if judged.supersedes is not None}
    found: list[Verdict] = []
    for judged in feedback:
        if not (judged.turn_id in turn_ids if judged.turn_id is not None else judged.session_id == session_id):
            continue
        if first[judged.feedback_id] is not judged:
            found.append(Verdict(judged, "duplicate", None, None))
        elif id(judged) not in stand:
            found.append(Verdict(judged, "superseded", replaced[judged.feedback_id], None))
        elif (reason := why_ignored(judged, closes_at, config)) is not None:
            found.append(Verdict(judged, reason, None, None))
        else:
            assert judged.value is not None
            found.append(Verdict(judged, None, None, worth(config.kinds[judged.kind], judged.value)))
    return found
