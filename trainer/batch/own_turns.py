"""Which captured turns are exact records of what one adapter sampled for its users, and why the others are not."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import PurePath

from trainer.batch.branches import with_descendants
from trainer.batch.lineage import Lineage
from trainer.batch.reasons import EVENT
from trainer.batch.tenant_capture import CapturedSession, DeclaredEvent, Place, TenantCapture, TurnFacts

TRAINED_PURPOSES = ("traffic", "canary")


class OwnTurns:
    """One adapter's view of its tenant's turns."""

    def __init__(
        self,
        lineage: Lineage,
        capture: TenantCapture,
        *,
        only_adapter: bool,
        base_model: str | None,
        untrained_events: Collection[str],
    ) -> None:
        """`only_adapter` is whether the tenant has no other, so that the base model's turns are its version 0's."""
        self.lineage = lineage
        self.capture = capture
        self._only = only_adapter
        self._base_model = base_model
        self._kept_out = _kept_out(capture, untrained_events)
        self._duplicates = _duplicates(capture.sessions)

    def is_own(self, turn: TurnFacts) -> bool:
        """Whether the adapter sampled the turn for a user, exactly recorded or not."""
        return turn.purpose in TRAINED_PURPOSES and self._not_ours(turn) is None

    def version(self, turn: TurnFacts) -> int | None:
        """The version that sampled an own turn: 0 where it was the bare base model."""
        return 0 if turn.adapter is None else turn.adapter_version

    def exact_version(self, turn: TurnFacts) -> int:
        """The version of a turn that there is no reason against."""
        version = self.version(turn)
        assert version is not None, f"{turn.turn_id} is exact, so the registry knows its version"
        return version

    def reason(self, turn: TurnFacts) -> str | None:
        """Why the turn is no exact record of the adapter's own; None if it is."""
        if turn.place in self._duplicates:
            return "duplicate"
        if turn.purpose not in TRAINED_PURPOSES:
            return f"purpose_{turn.purpose}"
        return self._not_ours(turn) or self._not_exact(turn)

    def _not_ours(self, turn: TurnFacts) -> str | None:
        if turn.adapter is None and not self._only:
            return "ambiguous_adapter"
        if turn.adapter not in (None, self.lineage.adapter):
            return "other_adapter"
        return "other_base_model" if _differ(turn.base_model, self._base_model) else None

    def _not_exact(self, turn: TurnFacts) -> str | None:
        if not turn.trainable:
            return turn.untrainable_reason or "untrainable"
        if not turn.tokens:
            return "empty"
        if turn.temperature is None:
            return "greedy"
        if turn.place in self._kept_out:
            return self._kept_out[turn.place]
        version = self.version(turn)
        return None if version is not None and self.lineage.knows(version) else "unknown_version"


def _differ(found: str | None, expected: str | None) -> bool:
    """Whether two names of base models are of two models; one may be a path, and one unknown."""
    return found is not None and expected is not None and PurePath(found).name != PurePath(expected).name


def _duplicates(sessions: Sequence[CapturedSession]) -> set[Place]:
    """Every turn whose turn_id stands earlier too."""
    first: dict[str, Place] = {}
    turns = [turn for session in sessions for turn in session.turns]
    return {turn.place for turn in turns if first.setdefault(turn.turn_id, turn.place) != turn.place}


def _kept_out(capture: TenantCapture, kinds: Collection[str]) -> Mapping[Place, str]:
    """Turns that an event keeps out, each with its reason."""
    found: dict[Place, str] = {}
    for session in capture.sessions:
        for event in capture.events.get(session.session_id, ()):
            if event.kind in kinds:
                for place in with_descendants(session.turns, _named(session, event)):
                    found.setdefault(place, EVENT + event.kind)
    return found


def _named(session: CapturedSession, event: DeclaredEvent) -> list[Place]:
    return [turn.place for turn in session.turns if event.turn in (None, turn.turn)]
