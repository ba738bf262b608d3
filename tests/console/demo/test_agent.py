"""The agent against a scripted server: what it sends, what it does with calls, and what it posts."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from openai import OpenAI

from console.demo.agent import SessionResult, Steering, TurnResult, run_session
from console.demo.opening import opening
from console.demo.task import Task, make_task
from tests.console.demo.scripted_server import Call, Script, scripted_server


@pytest.fixture
def script() -> Iterator[Script]:
    with scripted_server() as script:
        yield script


def work(script: Script, task: Task, folder: Path, *, turns: int = 100) -> SessionResult:
    left = iter(range(turns))
    steering = Steering(lambda: next(left, None) is not None, lambda _: None)
    with OpenAI(base_url=script.url, api_key="k", max_retries=0) as client:
        return run_session(client, "m", task, session_id="s", folder=folder, steering=steering)


def right_call(task: Task, number: int) -> list[Call]:
    request = task.requests[number]
    given = {"path": request.path, "content": request.content}
    return [(request.tool, {name: value for name, value in given.items() if value is not None})]


def test_right_calls_solve_a_task_in_one_turn_a_request(script: Script, tmp_path: Path) -> None:
    task = make_task("copy", "copy-1", random.Random(0))
    script.replies = [right_call(task, number) for number in range(3)]
    result = work(script, task, tmp_path)
    turns = [TurnResult(f"chatcmpl-{number}", well_formed=True, right=True) for number in (1, 2, 3)]
    assert (result.score, result.turns) == (1.0, turns)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == task.files | task.written
    source = task.requests[0].path
    said = f'{source} says "{task.files[str(source)]}". {task.requests[1].text}'
    assert script.requests[1]["messages"][-1] == {"role": "tool", "tool_call_id": "call1-0", "content": said}
    assert script.requests[2]["messages"][-1]["content"] == f"ok. {task.requests[2].text}"
    assert script.feedback == [
        *(
            {"response_id": f"chatcmpl-{number}", "kind": "accept", "value": 1.0}
            | {"feedback_id": f"chatcmpl-{number}-accept", "source": "roundhouse demo"}
            for number in (1, 2, 3)
        ),
        {"session_id": "s", "kind": "outcome", "value": 1.0}
        | {"feedback_id": "s-outcome", "source": "roundhouse demo"},
    ]


def test_every_call_is_trainable_names_its_session_and_extends_the_one_before(script: Script, tmp_path: Path) -> None:
    task = make_task("write", "write-1", random.Random(0))
    script.replies = [right_call(task, 0), "hm", *[right_call(task, number) for number in (1, 2)]]
    work(script, task, tmp_path)
    assert script.requests[0]["messages"] == opening("write", task.requests[0])
    for before, after in zip(script.requests, script.requests[1:], strict=False):
        assert after["messages"][: len(before["messages"])] == before["messages"]
    for request, headers in zip(script.requests, script.headers, strict=True):
        assert request["temperature"] > 0
        assert not {"top_p", "presence_penalty", "frequency_penalty", "logit_bias"} & request.keys()
        assert [tool["function"]["name"] for tool in request["tools"]] == ["write_file"]
        assert headers["x-session-id"] == "s"
        assert (headers["x-roundhouse-task"], headers["x-roundhouse-group"]) == ("write-1", "write-1")


def test_a_reply_without_a_call_gets_an_error_and_one_more_try(script: Script, tmp_path: Path) -> None:
    task = make_task("write", "write-1", random.Random(0))
    script.replies = ["I wrote it.", "", right_call(task, 1), right_call(task, 2)]
    result = work(script, task, tmp_path)
    assert [turn.right for turn in result.turns] == [False, False, True, True]
    assert result.score == pytest.approx(2 / 3)
    first, second = task.requests[0].text, task.requests[1].text
    assert script.requests[1]["messages"][-2:] == [
        {"role": "assistant", "content": "I wrote it."},
        {"role": "user", "content": f"error: no tool call. {first}"},
    ]
    assert script.requests[2]["messages"][-2:] == [
        {"role": "assistant", "content": ""},
        {"role": "user", "content": f"error: no tool call. {second}"},
    ]
    assert [judgement["value"] for judgement in script.feedback] == [0.0, 0.0, 1.0, 1.0, pytest.approx(2 / 3)]


def test_a_wrong_file_is_not_taken_for_the_right_one(script: Script, tmp_path: Path) -> None:
    task = make_task("write", "write-1", random.Random(0))
    path = str(task.requests[0].path)
    wrong: list[list[Call]] = [[("write_file", {"path": path, "content": "other"})], [("read_file", {"path": path})]]
    script.replies = [*wrong, right_call(task, 1), right_call(task, 2)]
    result = work(script, task, tmp_path)
    assert [(turn.well_formed, turn.right) for turn in result.turns[:2]] == [(True, False), (True, False)]
    assert script.requests[1]["messages"][-1]["content"] == f"ok. {task.requests[0].text}"
    assert result.score == pytest.approx(2 / 3)


def test_every_call_of_a_reply_is_run_and_answered(script: Script, tmp_path: Path) -> None:
    task = make_task("write", "write-1", random.Random(0))
    bad: Call = ("run_shell", {"command": "touch x"})
    script.replies = [[bad, *right_call(task, 0)], right_call(task, 1), right_call(task, 2)]
    result = work(script, task, tmp_path)
    assert result.score == 1.0
    assert [message["content"] for message in script.requests[1]["messages"][-2:]] == [
        "error: no such tool",
        f"ok. {task.requests[1].text}",
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(task.written)


def test_a_session_cut_off_by_the_budget_posts_no_outcome(script: Script, tmp_path: Path) -> None:
    task = make_task("write", "write-1", random.Random(0))
    script.replies = [right_call(task, 0)]
    result = work(script, task, tmp_path, turns=1)
    assert (result.score, len(result.turns)) == (None, 1)
    assert [judgement["kind"] for judgement in script.feedback] == ["accept"]
