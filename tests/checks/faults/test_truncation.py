"""Truncation: the share of cut turns, and what stands in for it where turns do not say why they ended."""

import pytest

from checks.finding import Finding
from tests.checks.records import check


def truncation(*reasons: str | None, shares: tuple[float | None, ...] = ()) -> Finding:
    turns = [
        {"session_id": f"s{index}", "turn": 1, "completion_ids": [7] * (index + 1), "finish_reason": reason}
        for index, reason in enumerate(reasons)
    ]
    steps = [{"step": step, "truncated_share": share} for step, share in enumerate(shares, start=1)]
    return check("truncation", turns=turns, steps=steps)


def test_one_turn_of_four_is_a_quarter_and_one_entry() -> None:
    found = truncation("stop", "length", "stop", "abort")
    assert (found.value, found.status, found.metrics) == (0.25, "warn", {"truncated_share": 0.25})
    assert [(each.session_id, each.turn, each.value) for each in found.evidence] == [("s1", 1, 2)]


def test_more_than_a_quarter_fails() -> None:
    assert truncation("length", "stop", "stop").status == "fail"


def test_turns_without_a_reason_enter_no_share() -> None:
    assert truncation("length", None, None).value == 1.0


def test_words_that_are_no_reason_of_a_native_log_are_counted_and_not_judged() -> None:
    found = truncation("stop", "max_tokens")
    assert (found.value, found.status) == (0.0, "ok")
    assert "1 give a reason that is none of stop, length, abort, client_gone, error" in found.summary
    alone = truncation("max_tokens")
    assert (alone.status, "1 give a reason" in alone.summary) == ("no_data", True)


def test_a_share_that_the_trainer_logged_stands_in_for_turns() -> None:
    found = truncation(shares=(0.25, None, 0.35))
    assert (found.value, found.status) == (pytest.approx(0.3), "fail")
    assert "as the trainer logged it: 30.0% of the turns of 2 steps" in found.summary


def test_turns_come_before_what_was_logged() -> None:
    assert truncation("stop", shares=(0.9,)).value == 0.0
