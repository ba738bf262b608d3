"""Suites: what a line may hold, and the line that is named when it holds something else."""

import json
from pathlib import Path

import pytest

from collector.errors import UserError
from trainer.evaluation.suite import read_suite, reply_of

TASK = {"task_id": "a", "messages": [{"role": "user", "content": "hi"}], "verifier": {"exact": "hello"}}


def written(folder: Path, *lines: object) -> Path:
    path = folder / "sums.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines) + "\n")
    return path


def test_a_suite_is_its_tasks_in_their_order(tmp_path: Path) -> None:
    other = {"task_id": "b", "prompt_ids": [1, 2], "verifier": {"regex": "x+"}, "max_tokens": 3, "pass_score": 0.5}
    suite = read_suite(written(tmp_path, TASK, "", other))
    assert (suite.name, suite.folder) == ("sums", tmp_path)
    assert [(task.task_id, task.verifier.kind) for task in suite.tasks] == [("a", "exact"), ("b", "regex")]
    assert (suite.tasks[1].prompt_ids, suite.tasks[1].max_tokens, suite.tasks[1].pass_score) == ([1, 2], 3, 0.5)
    assert [task.task_id for task in suite.named(("b", "a"))] == ["b", "a"]


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("{", "Input data was truncated"),
        (b"\xff".decode("latin-1"), "malformed"),
        ({**TASK, "answer": 1}, "unknown field `answer`"),
        ({"messages": TASK["messages"], "verifier": {"exact": "x"}}, "missing required field `task_id`"),
        ({**TASK, "task_id": ""}, "Expected `str` of length >= 1"),
        ({**TASK, "messages": []}, "Expected `array` of length >= 1"),
        ({**TASK, "pass_score": 0}, "Expected `float` > 0"),
        ({**TASK, "verifier": {}}, "the verifier has nothing, expected one of exact, regex, tool_call"),
        ({**TASK, "verifier": {"exact": "a", "regex": "b"}}, "the verifier has exact and regex, expected one"),
        ({**TASK, "verifier": {"regex": "("}}, "the regex does not compile: missing )"),
        ({**TASK, "verifier": {"python": "judges.py"}}, "python is 'judges.py', expected module:function"),
        ({**TASK, "verifier": {"command": []}}, "Expected `array` of length >= 1"),
        ({**TASK, "verifier": {"tool_call": {"arguments": {}}}}, "missing required field `name`"),
        ({**TASK, "prompt_ids": [1]}, "it has both messages and prompt_ids, expected one"),
        ({**TASK, "messages": None}, "it has neither messages nor prompt_ids, expected one"),
        ({"task_id": "b", "prompt_ids": [1], "tools": [], "verifier": {"exact": "x"}}, "it has tools but no messages"),
        ({**TASK, "task_id": "z"}, "task 'z' has the prompt of 'a'"),
        ({**TASK, "messages": [{"role": "user", "content": "other"}]}, "task 'a' is there already"),
        ('{"task_id": "b", "messages": [{"role": ' + "[" * 100_000, "maximum recursion depth exceeded"),
        ({**TASK, "messages": [{"role": "user", "content": [1]}]}, "messages[0]: Expected `object`, got `int`"),
        ({**TASK, "messages": [{"content": "hi"}]}, "messages[0]: Object missing required field `role`"),
        ({**TASK, "verifier": {"regex": "(" * 20_000 + ")" * 20_000}}, "the regex does not compile: maximum recursion"),
        ({**TASK, "verifier": {"command": ["a\0b"]}}, "a word of the command holds a NUL character"),
        ({**TASK, "known_good": [{"content": [1]}]}, "a known reply is no assistant message: Expected `object`, got"),
        ({**TASK, "known_bad": [{"tool_calls": [{"function": "f"}]}]}, "a known reply is no assistant message"),
        ({**TASK, "known_bad": [{"role": "user", "content": "x"}]}, "a known reply is no assistant message"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, line: object, fault: str) -> None:
    path = written(tmp_path, TASK, "", line)
    with pytest.raises(UserError) as raised:
        read_suite(path)
    assert str(raised.value).startswith(f"{path}:3: ")
    assert fault in str(raised.value)


def test_no_file_and_no_task_are_said(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read: No such file"):
        read_suite(tmp_path / "none.jsonl")
    with pytest.raises(UserError, match="holds no task"):
        read_suite(written(tmp_path, ""))


def test_a_known_reply_is_text_or_a_message() -> None:
    assert reply_of("hello").content == "hello"
    message = {
        "content": None,
        "reasoning_content": "hm",
        "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": {"x": 1}}}, {"function": {"name": "g"}}],
    }
    found = reply_of(message)
    assert (found.content, found.reasoning) == ("", "hm")
    assert [(call.name, call.arguments) for call in found.tool_calls] == [("f", '{"x":1}'), ("g", "{}")]
