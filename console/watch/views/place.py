"""Where a fault is."""

import msgspec

from checks.finding import Evidence


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where a fault is; what does not apply is None."""

    session_id: str | None = None
    turn: int | None = None
    token_index: int | None = None
    group_id: str | None = None
    step: int | None = None
    """Of a token where the trainer stood in the scoring that the fault is of."""
    adapter: str | None = None
    kind: str | None = None
    value: float | None = None


def place_of_evidence(evidence: Evidence) -> Place:
    """The place of a piece of evidence."""
    place = Place(**{name: getattr(evidence, name) for name in Place.__struct_fields__})
    return msgspec.structs.replace(place, step=evidence.trainer_step)


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """One piece of evidence."""

    place: Place
    text: str | None
    """What is said of it. Text of models in it is as it was logged."""
    lag: int | None = None


def fault_of(evidence: Evidence) -> Fault:
    """What a piece of evidence says, and where."""
    lag = evidence.detail.get("lag")
    return Fault(place=place_of_evidence(evidence), text=evidence.text, lag=lag if isinstance(lag, int) else None)


WHOLE, TAIL = 10, 8
"""A session's name up to the first length is shown whole; of a longer one so many letters of its end, which differs."""


def session_text(session_id: str) -> str:
    """A session's name where there is little room."""
    return session_id if len(session_id) <= WHOLE else "…" + session_id[-TAIL:]


def place_text(place: Place | None, *, short: bool = True) -> str:
    """Session, turn and token with dots between, as they are typed to go there; else the group or the step."""
    if place is None:
        return "–"
    if place.session_id is not None:
        session = session_text(place.session_id) if short else place.session_id
        parts = [session, *(str(each) for each in (place.turn, place.token_index) if each is not None)]
        return "·".join(parts)
    if place.group_id is not None:
        return f"group {session_text(place.group_id) if short else place.group_id}"
    return "–" if place.step is None else f"step {place.step}"
