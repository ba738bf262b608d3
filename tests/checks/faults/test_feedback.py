"""Feedback that comes twice, is replaced, contradicts itself, comes late or not at all."""

from typing import Any

from tests.checks.records import check

TURNS = [
    {"session_id": "a", "turn": 1, "turn_id": "a1", "finished_at": "2026-11-01T10:00:00Z"},
    {"session_id": "a", "turn": 2, "turn_id": "a2", "finished_at": "2026-11-01T10:01:00Z"},
    {"session_id": "b", "turn": 1, "turn_id": "b1", "finished_at": "2026-11-01T10:00:00Z"},
]


def judged(name: str, **fields: Any) -> dict[str, Any]:
    return {"feedback_id": name, "kind": "thumb", "value": 1.0, "at": "2026-11-01T10:03:00Z"} | fields


def kinds(feedback: list[dict[str, Any]]) -> list[tuple[str, str | None]]:
    found = check("feedback", turns=TURNS, feedback=feedback)
    return [((each.text or "").split(":")[0], each.status) for each in found.evidence]


def test_the_same_id_counts_once() -> None:
    found = check("feedback", turns=TURNS, feedback=[judged("f", session_id="a")] * 3)
    assert found.summary.startswith("1 of 3 judgements count, 1 of 2 sessions have none")
    assert [(each.value, each.detail["feedback_id"]) for each in found.evidence] == [(3, "f")]
    assert found.status == "info"


def test_a_superseded_judgement_counts_not_at_all() -> None:
    feedback = [judged("f", session_id="b"), judged("g", session_id="a", supersedes="f")]
    found = check("feedback", turns=TURNS, feedback=feedback)
    assert found.value == 0.5, "b has no feedback left"
    assert kinds(feedback) == [("superseded", "info")]


def test_every_fault_names_the_session_and_turn_it_is_about() -> None:
    feedback = [judged("f", turn_id="a2"), judged("f", turn_id="a2"), judged("g", turn_id="a2", supersedes="f")]
    found = check("feedback", turns=TURNS, feedback=feedback)
    assert [(each.session_id, each.turn) for each in found.evidence] == [("a", 2), ("a", 2)]


def test_a_chain_of_replacements_leaves_the_last() -> None:
    feedback = [judged("f", session_id="a"), judged("g", session_id="a", supersedes="f")]
    feedback.append(judged("h", session_id="a", supersedes="g"))
    assert check("feedback", turns=TURNS, feedback=feedback).summary.startswith("1 of 3 judgements count")


def test_feedback_on_a_turn_is_its_sessions() -> None:
    assert check("feedback", turns=TURNS, feedback=[judged("f", turn_id="a1")]).value == 0.5


def test_missing_is_missing_and_not_zero() -> None:
    found = check("feedback", turns=TURNS, feedback=[judged("f", session_id="a"), judged("g", session_id="b")])
    assert (found.status, found.value, found.evidence) == ("ok", 0.0, ())


def test_the_same_id_with_another_value_is_contradictory() -> None:
    assert kinds([judged("f", session_id="a"), judged("f", session_id="a", value=-1.0)]) == [("contradictory", "warn")]


def test_one_users_two_answers_on_one_turn_are_contradictory() -> None:
    feedback = [judged("f", turn_id="a2", user_hash="u"), judged("g", turn_id="a2", user_hash="u", value=-1.0)]
    assert kinds(feedback) == [("contradictory", "warn")]
    assert kinds([feedback[0], feedback[1] | {"user_hash": "v"}]) == [], "two users may differ"
    assert kinds([feedback[0], feedback[1] | {"turn_id": "a1"}]) == [], "two turns may differ"


def test_feedback_on_what_the_log_does_not_hold_is_said() -> None:
    assert kinds([judged("f", session_id="a"), judged("g", turn_id="z9")]) == [("unknown", "warn")]


def test_delay_is_from_the_end_of_the_turn_or_of_the_session() -> None:
    feedback = [
        judged("f", turn_id="a1"),
        judged("g", session_id="a"),
        judged("h", session_id="b", at="2026-11-01T09:59:50Z"),
    ]
    (delays,) = check("feedback", turns=TURNS, feedback=feedback).breakdown
    assert delays == {"delays": 3, "delay_median_s": 120, "delay_p95_s": 174, "before_the_end": 1}, "-10, 120, 180"


def test_nearly_no_feedback_warns() -> None:
    turns = [{"session_id": str(at)} for at in range(100)]
    assert check("feedback", turns=turns, feedback=[judged("f", session_id="1")]).status == "warn"
    assert check("feedback", turns=TURNS, feedback=[]).status == "no_data"
