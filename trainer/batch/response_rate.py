"""Who answers: how many closed sessions got feedback, by kind, and weights that undo it. Who answers is not random."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from trainer.batch.batch_config import BatchConfig
from trainer.batch.tenant_capture import CapturedSession


class Answer(NamedTuple):
    """A closed session of an adapter's own, and whether it was answered."""

    session_id: str
    tenant: str
    version: str
    """The version that sampled its last turn."""
    outcome: str
    """How its last turn ended: finish_reason. It is known of every session, answered or not."""
    turns: str
    """How many turns it has, in powers of two."""
    answered: bool


class ResponseRate(msgspec.Struct, frozen=True, kw_only=True):
    """Closed sessions of one kind."""

    sessions: int
    answered: int
    rate: float
    """answered / sessions."""


class ResponseRates(msgspec.Struct, frozen=True, kw_only=True):
    """Response rates of one adapter's closed sessions, each by value."""

    tenant: dict[str, ResponseRate]
    version: dict[str, ResponseRate]
    outcome: dict[str, ResponseRate]
    turns: dict[str, ResponseRate]


def answer(session: CapturedSession, version: int | None, *, answered: bool) -> Answer:
    """What is known of a closed session without its feedback, and whether there is any."""
    last = session.turns[-1]
    return Answer(
        session_id=session.session_id,
        tenant=last.tenant,
        version="unknown" if version is None else str(version),
        outcome=last.finish_reason or "unknown",
        turns=length_bucket(len(session.turns)),
        answered=answered,
    )


def length_bucket(turns: int) -> str:
    """1, 2-3, 4-7, 8-15 and so on."""
    low = 1 << (turns.bit_length() - 1)
    return "1" if low == 1 else f"{low}-{2 * low - 1}"


def response_rates(answers: Sequence[Answer]) -> ResponseRates:
    """How often sessions are answered, by each of their traits."""
    return ResponseRates(
        tenant=_by_value((each.tenant, each.answered) for each in answers),
        version=_by_value((each.version, each.answered) for each in answers),
        outcome=_by_value((each.outcome, each.answered) for each in answers),
        turns=_by_value((each.turns, each.answered) for each in answers),
    )


def propensity_weights(answers: Sequence[Answer], config: BatchConfig) -> dict[str, float]:
    """Session to the response rate of all over that of its kind, clipped; 1 where its kind is too rare to tell.

    An answered session then stands for the unanswered ones of its kind. Only answered sessions have a weight.
    """
    kinds = {each.session_id: (each.version, each.outcome, each.turns) for each in answers}
    sessions = Counter(kinds[each.session_id] for each in answers)
    answered = Counter(kinds[each.session_id] for each in answers if each.answered)
    overall = answered.total() / len(answers) if answers else 0.0
    weights: dict[str, float] = {}
    for each in answers:
        kind = kinds[each.session_id]
        if each.answered:
            weight = (
                overall * sessions[kind] / answered[kind] if sessions[kind] >= config.propensity_min_sessions else 1.0
            )
            weights[each.session_id] = min(max(weight, 1 / config.propensity_clip), config.propensity_clip)
    return weights


def _by_value(answers: Iterable[tuple[str, bool]]) -> dict[str, ResponseRate]:
    sessions: Counter[str] = Counter()
    answered: Counter[str] = Counter()
    for value, is_answered in answers:
        sessions[value] += 1
        answered[value] += is_answered
    return {
        value: ResponseRate(sessions=count, answered=answered[value], rate=answered[value] / count)
        for value, count in sorted(sessions.items(), key=lambda each: (len(each[0]), each[0]))
    }
