"""Tasks and openings: the same for a seed, different from each other, solvable by the shown calls."""

import json
from itertools import islice
from pathlib import Path

import pytest

from console.demo.agent import outcome
from console.demo.gate import ALLOWED, Gate
from console.demo.opening import EXAMPLES, TOOLS, opening, tool_call
from console.demo.task import FAMILIES, Family, Request, Task, tasks


def test_a_seed_gives_the_same_tasks_and_another_seed_others() -> None:
    first, again, other = (list(islice(tasks(seed), 30)) for seed in (0, 0, 1))
    assert first == again
    assert [task.requests for task in first] != [task.requests for task in other]
    assert len({task.task_id for task in first}) == 30
    assert len({task.requests for task in first}) == 30
    assert [task.family for task in first[:6]] == [*FAMILIES, *FAMILIES]


def test_the_right_calls_solve_every_task_and_no_call_does_not(tmp_path: Path) -> None:
    for task in islice(tasks(3), 30):
        folder = tmp_path / task.task_id
        folder.mkdir()
        for name, content in task.files.items():
            (folder / name).write_text(content)
        assert outcome(task, folder) == 0.0
        gate = Gate(folder)
        for request in task.requests:
            function = tool_call("x", request)["function"]
            assert gate.call(function["name"], function["arguments"]).tool == request.tool
        assert outcome(task, folder) == 1.0
        assert {path.name: path.read_text() for path in folder.iterdir()} == task.files | task.written


def test_files_are_compared_byte_by_byte(tmp_path: Path) -> None:
    task = Task("x", "write", {"s": "old"}, tuple(Request("", "write_file", name, "tea") for name in "abcd"))
    (tmp_path / "s").write_bytes(b"old")
    (tmp_path / "a").write_bytes(b"tea")
    (tmp_path / "b").write_bytes(b"tea\n")
    (tmp_path / "real").write_bytes(b"tea")
    (tmp_path / "c").symlink_to(tmp_path / "real")
    assert outcome(task, tmp_path) == 0.25
    (tmp_path / "s").write_bytes(b"tea")
    assert outcome(task, tmp_path) == 0.0


@pytest.mark.parametrize("family", FAMILIES)
def test_an_opening_is_a_valid_conversation_that_ends_with_the_request(family: Family) -> None:
    task = next(task for task in tasks(0) if task.family == family)
    messages = opening(family, task.requests[0])
    assert messages[-1]["role"] == "tool"
    assert messages[-1]["content"].endswith(f". {task.requests[0].text}")
    calls = [message["tool_calls"][0] for message in messages if message.get("tool_calls")]
    answers = [message["tool_call_id"] for message in messages if message["role"] == "tool"]
    assert [call["id"] for call in calls] == answers
    assert [call["function"]["name"] for call in calls] == [request.tool for request in EXAMPLES[family]]
    for call, request in zip(calls, EXAMPLES[family], strict=True):
        given = json.loads(call["function"]["arguments"])
        wanted = {"path": request.path, "content": request.content}
        assert given == {name: value for name, value in wanted.items() if value is not None}


def test_every_offered_tool_passes_the_gate() -> None:
    assert set(TOOLS) == set(ALLOWED)
    assert all(TOOLS[tool] for task in islice(tasks(0), 3) for tool in task.tools)
