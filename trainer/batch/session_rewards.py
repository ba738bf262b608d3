"""The closed rewards of a tenant's sessions, and who gave them."""

from collections.abc import Mapping
from datetime import datetime

from collector.records import Reward
from trainer.advantage import RewardedSession
from trainer.batch.batch_config import SessionRewardTo
from trainer.batch.branches import rewarded_places
from trainer.batch.tenant_capture import CapturedSession, Place, TenantCapture, TurnFacts
from trainer.reward import RewardConfig, SessionEnd, close_rewards


class SessionRewards:
    """Rewards as of one moment, by session and by turn."""

    def __init__(self, capture: TenantCapture, config: RewardConfig, *, now: datetime) -> None:
        session_of_turn = {turn.turn_id: turn.session_id for session in capture.sessions for turn in session.turns}
        ends = [SessionEnd(session.session_id, session.ended_at) for session in capture.sessions]
        rewards = close_rewards(ends, capture.feedback, session_of_turn, config, now=now)
        self.ignored = rewards.ignored
        """Feedback that does not count, by reason."""
        self.counted = rewards.counted
        """Closed session to how many judgements count."""
        self._by_session: dict[str, list[Reward]] = {}
        for reward in rewards.closed:
            self._by_session.setdefault(reward.session_id, []).append(reward)
        self._session = {each.session_id: each.value for each in rewards.closed if each.turn_id is None}
        self._turn = {each.turn_id: each.value for each in rewards.closed if each.turn_id is not None}
        self._users = _users(capture, session_of_turn)

    def is_closed(self, session: CapturedSession) -> bool:
        """Whether its feedback window has closed."""
        return session.session_id in self._session

    def is_answered(self, session: CapturedSession) -> bool:
        """Whether feedback counts on it or on one of its turns."""
        return any(reward.value is not None for reward in self._by_session.get(session.session_id, ()))

    def rewarded(self, session: CapturedSession) -> RewardedSession:
        """The session with its own reward."""
        return RewardedSession(session.session_id, session.group_id, self._session.get(session.session_id))

    def of_turn(self, turn: TurnFacts) -> float | None:
        """A turn's own reward."""
        return self._turn.get(turn.turn_id)

    def records(self, session: CapturedSession) -> list[Reward]:
        """The session's rewards, its own and its turns', that were given."""
        return [reward for reward in self._by_session.get(session.session_id, ()) if reward.value is not None]

    def user(self, session: CapturedSession) -> str:
        """Whose session it is: the user who judged it first, else nobody's but its own."""
        return self._users.get(session.session_id, f"session {session.session_id}")


def reward_gaps(capture: TenantCapture, rewards: SessionRewards, rule: SessionRewardTo) -> dict[Place, str]:
    """Every turn that no reward goes to, with the reason."""
    found: dict[Place, str] = {}
    for session in capture.sessions:
        if not rewards.is_closed(session):
            found |= {turn.place: "open_session" for turn in session.turns}
            continue
        judged = rewards.rewarded(session).reward is not None
        reached = rewarded_places(session, capture.events.get(session.session_id, ()), rule) if judged else set[Place]()
        for turn in session.turns:
            if turn.place not in reached and rewards.of_turn(turn) is None:
                found[turn.place] = "other_branch" if judged else "no_reward"
    return found


def _users(capture: TenantCapture, session_of_turn: Mapping[str, str]) -> dict[str, str]:
    """Session to the user who judged it first, where a user is known."""
    found: dict[str, str] = {}
    for judged in sorted(capture.feedback, key=lambda judged: judged.at):
        session = judged.session_id if judged.turn_id is None else session_of_turn.get(judged.turn_id)
        if session is not None and judged.user_hash is not None:
            found.setdefault(session, judged.user_hash)
    return found
