"""What becomes of each turn that was captured for an adapter: it is kept, or left out for one reason."""

from collections.abc import Callable, Sequence

from trainer.batch.tenant_capture import CapturedSession, Place, TurnFacts


class Ledger:
    """The turns of a tenant as one adapter sees them. A turn that was left out stays out, for its first reason."""

    def __init__(self, sessions: Sequence[CapturedSession]) -> None:
        self.sessions = {session.session_id: session for session in sessions}
        self._reasons: dict[Place, str] = {}

    @property
    def turns(self) -> list[TurnFacts]:
        """Every turn, the oldest session first."""
        return [turn for session in self.sessions.values() for turn in session.turns]

    def reason(self, turn: TurnFacts) -> str | None:
        """Why the turn was left out; None while it is kept."""
        return self._reasons.get(turn.place)

    def kept(self, session: CapturedSession) -> list[TurnFacts]:
        """The turns of a session that are kept."""
        return [turn for turn in session.turns if turn.place not in self._reasons]

    def leave_out(self, turn: TurnFacts, reason: str) -> None:
        """Leaves a kept turn out."""
        assert turn.place not in self._reasons, f"{turn.turn_id} was left out for {self._reasons[turn.place]} already"
        self._reasons[turn.place] = reason

    def sift(self, reason_of: Callable[[TurnFacts], str | None]) -> None:
        """Leaves out every kept turn that there is a reason for."""
        for session in self.sessions.values():
            for turn in self.kept(session):
                reason = reason_of(turn)
                if reason is not None:
                    self.leave_out(turn, reason)
