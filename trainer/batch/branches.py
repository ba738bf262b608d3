"""The branches of a session: which turns its reward goes to, and what a declared event reaches."""

from collections.abc import Collection, Sequence

from trainer.batch.batch_config import SessionRewardTo
from trainer.batch.tenant_capture import CapturedSession, DeclaredEvent, Place, TurnFacts

_BRANCHES = ("compaction", "subagent")


def rewarded_places(session: CapturedSession, events: Sequence[DeclaredEvent], rule: SessionRewardTo) -> set[Place]:
    """The turns that the session's reward goes to."""
    if rule == "all":
        return {turn.place for turn in session.turns}
    if rule == "last_branch":
        return _line_of_last(session.turns)
    declared = {event.turn: event.kind for event in events if event.kind in _BRANCHES}
    roots = {turn.place for turn in session.turns if declared.get(turn.turn, turn.link) == "subagent"}
    return {turn.place for turn in session.turns} - with_descendants(session.turns, roots)


def with_descendants(turns: Sequence[TurnFacts], roots: Collection[Place]) -> set[Place]:
    """The roots and every turn that extends one of them."""
    reached = set(roots)
    names = {turn.turn_id for turn in turns if turn.place in reached}
    # A parent stands before its children.
    for turn in turns:
        if turn.place in reached or turn.parent_turn_id in names:
            reached.add(turn.place)
            names.add(turn.turn_id)
    return reached


def _line_of_last(turns: Sequence[TurnFacts]) -> set[Place]:
    line = {turns[-1].place}
    wanted = turns[-1].parent_turn_id
    for turn in reversed(turns[:-1]):
        if turn.turn_id == wanted:
            line.add(turn.place)
            wanted = turn.parent_turn_id
    return line
