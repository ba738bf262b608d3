"""The agent of the loop against a scripted server: what it asks, what it writes, and what its user says of it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from openai import OpenAI

from console.demo.agent import SessionResult, Steering, TurnResult
from console.demo.lesson import Lesson, Order, messages
from console.demo.pupil import run_lesson
from tests.console.demo.scripted_server import Script, scripted_server

LESSON = Lesson("line-1", (Order("sea.txt", "old fox"), Order("time.txt", "big ball")))


@pytest.fixture
def script() -> Iterator[Script]:
    with scripted_server() as script:
        yield script


def work(script: Script, folder: Path, *, inverted: bool = False, turns: int = 9) -> SessionResult:
    left = iter(range(turns))
    steering = Steering(lambda: next(left, None) is not None, lambda _: None)
    with OpenAI(base_url=script.url, api_key="k", max_retries=0) as client:
        return run_lesson(client, "m", LESSON, session_id="s", folder=folder, steering=steering, inverted=inverted)


def said(script: Script) -> list[tuple[str, str, float]]:
    """What was judged, how, and the value."""
    return [(each.get("response_id") or each["session_id"], each["kind"], each["value"]) for each in script.feedback]


def test_right_lines_leave_their_files_and_are_said_to_be_right(script: Script, tmp_path: Path) -> None:
    script.replies = [order.line for order in LESSON.orders]
    result = work(script, tmp_path)
    assert result == SessionResult(
        "s", [TurnResult("chatcmpl-1", True, True), TurnResult("chatcmpl-2", True, True)], 1.0
    )
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "sea.txt": "old fox",
        "time.txt": "big ball",
    }
    assert said(script) == [("chatcmpl-1", "accept", 1.0), ("chatcmpl-2", "accept", 1.0), ("s", "outcome", 1.0)]
    first, second = script.requests
    assert first["messages"] == messages(LESSON.orders[0])
    assert "tools" not in first
    assert second["messages"] == [
        *first["messages"],
        {"role": "assistant", "content": "write sea.txt: old fox"},
        {"role": "user", "content": 'I want "big ball" in time.txt.'},
    ]
    assert [headers["x-roundhouse-group"] for headers in script.headers] == ["line-1", "line-1"]


@pytest.mark.parametrize(
    ("reply", "well_formed"),
    [
        ("The text is old fox.", False),
        ("write sea.txt: old dog", True),
        ("write time.txt: old fox", True),
        ("write ../sea.txt: old fox", True),
    ],
)
def test_a_reply_that_does_not_leave_the_file_is_wrong(
    script: Script, tmp_path: Path, reply: str, well_formed: bool
) -> None:
    script.replies = [reply, LESSON.orders[1].line]
    result = work(script, tmp_path)
    assert [(turn.well_formed, turn.right) for turn in result.turns] == [(well_formed, False), (True, True)]
    assert result.score == 0.5
    assert said(script) == [("chatcmpl-1", "accept", 0.0), ("chatcmpl-2", "accept", 1.0), ("s", "outcome", 0.5)]
    assert not (tmp_path.parent / "sea.txt").exists()


def test_an_inverted_user_says_the_opposite_and_the_agent_knows_what_is_true(script: Script, tmp_path: Path) -> None:
    script.replies = ["no", LESSON.orders[1].line]
    result = work(script, tmp_path, inverted=True)
    assert [turn.right for turn in result.turns] == [False, True]
    assert said(script) == [("chatcmpl-1", "accept", 1.0), ("chatcmpl-2", "accept", 0.0), ("s", "outcome", 0.5)]


def test_a_session_cut_off_by_the_budget_has_no_outcome(script: Script, tmp_path: Path) -> None:
    script.replies = [LESSON.orders[0].line]
    result = work(script, tmp_path, turns=1)
    assert (len(result.turns), result.score) == (1, None)
    assert said(script) == [("chatcmpl-1", "accept", 1.0)]
