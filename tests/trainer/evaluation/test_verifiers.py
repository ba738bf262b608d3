"""Verifiers: each kind, its limits, and the fault that is no verdict."""

import time
from pathlib import Path
from typing import Any

import pytest

from collector.conversation import Reply, ToolCall
from collector.errors import UserError
from trainer.evaluation import functions
from trainer.evaluation.functions import Fault
from trainer.evaluation.suite import CallShape, Suite, Task, Verifier
from trainer.evaluation.verifiers import Answered, Verifiers, same_json
from trainer.evaluation_config import EvaluationConfig, SandboxConfig

CONFIG = EvaluationConfig(verifier_time_limit_s=0.5, sandbox=SandboxConfig(program="no-sandbox-here"))
FUNCTIONS = """
import os, sys, time
def same(task, reply):
    print("chatter on standard output")
    return reply["content"] == task["task_id"]
def score(task, reply):
    return float(reply["content"])
def careful(task, reply):
    match reply["content"]:
        case "raise":
            raise RuntimeError("cannot judge\\nthis")
        case "hang":
            while True: pass
        case "sleep":
            time.sleep(1000)
        case "exit":
            os._exit(0)
        case "text":
            return "yes"
        case "none":
            return None
    return True
"""


def task(**verifier: Any) -> Task:
    return Task(task_id="42", prompt_ids=[1], verifier=Verifier(**verifier))


def call(name: str, arguments: str) -> Reply:
    return Reply(tool_calls=(ToolCall(id="c", name=name, arguments=arguments),))


def judge(folder: Path, given: Task, *replies: Reply | str) -> list[Any]:
    verifiers = Verifiers(Suite("s", folder, (given,)), CONFIG)
    return verifiers.judge([Answered(given, Reply(content=r) if isinstance(r, str) else r) for r in replies])


def test_exact_compares_the_visible_text(tmp_path: Path) -> None:
    thinking = Reply(content=" Paris\n", reasoning="Lyon?")
    assert judge(tmp_path, task(exact="Paris"), "Paris", thinking, "paris", "Paris.", "") == [1, 1, 0, 0, 0]


def test_a_regex_is_searched_and_may_be_anchored(tmp_path: Path) -> None:
    assert judge(tmp_path, task(regex=r"\b4\d\b"), "is 42.", "is 421", "") == [1, 0, 0]
    assert judge(tmp_path, task(regex=r"\A\d+\Z"), "42", "42 ") == [1, 0]


def test_a_regex_that_runs_away_is_a_fault_and_no_verdict(tmp_path: Path) -> None:
    found = judge(tmp_path, task(regex=r"(a|aa)+$"), "a" * 60 + "b", "aaa")
    assert found == [Fault("the regex searched a reply longer than 0.5 s"), 1]


def test_a_tool_call_is_one_call_with_these_arguments(tmp_path: Path) -> None:
    given = task(tool_call=CallShape(name="f", arguments={"x": 1, "tags": ["a"]}))
    good = call("f", '{"tags": ["a"], "x": 1.0}')
    twice = Reply(tool_calls=good.tool_calls * 2)
    others = [
        "f",
        call("g", '{"x": 1}'),
        call("f", '{"x": true, "tags": ["a"]}'),
        call("f", "{"),
        call("f", '{"x": 1}'),
    ]
    assert judge(tmp_path, given, good, twice, *others) == [1, 0, 0, 0, 0, 0, 0]
    assert judge(tmp_path, task(tool_call=CallShape(name="f")), call("f", '{"y": 2}'), "f") == [1, 0]


def test_json_is_the_same_by_value_and_type() -> None:
    assert same_json({"a": [1, None, "x"]}, {"a": [1.0, None, "x"]})
    for left, right in (
        (True, 1),
        (0, False),
        ([1], [1, 2]),
        ({"a": 1}, {"a": 1, "b": 2}),
        ("1", 1),
        (None, 0),
        ([], {}),
    ):
        assert not same_json(left, right)


def test_a_function_gets_task_and_reply_and_gives_bool_or_score(tmp_path: Path) -> None:
    (tmp_path / "judges.py").write_text(FUNCTIONS)
    assert judge(tmp_path, task(python="judges:same"), "42", "41", "42") == [1, 0, 1]
    found = judge(tmp_path, task(python="judges:score"), "0.25", "1", "1.5", "nan")
    assert found[:2] == [0.25, 1]
    assert [fault.text for fault in found[2:]] == [
        "judges:score: returned 1.5, expected a bool or a score from 0 to 1",
        "judges:score: returned nan, expected a bool or a score from 0 to 1",
    ]


def test_a_function_that_fails_on_one_reply_still_judges_the_others(tmp_path: Path) -> None:
    (tmp_path / "judges.py").write_text(FUNCTIONS)
    words = ["well", "raise", "well", "hang", "sleep", "exit", "text", "none", "well"]
    found = judge(tmp_path, task(python="judges:careful"), *words)
    assert [index for index, verdict in enumerate(found) if verdict == 1.0] == [0, 2, 8]
    texts = {word: verdict.text for word, verdict in zip(words, found, strict=True) if isinstance(verdict, Fault)}
    assert texts == {
        "raise": "judges:careful: this",
        "hang": "judges:careful: ran longer than 0.5 s",
        "sleep": "judges:careful: ran longer than 0.5 s",
        "exit": "judges:careful: its process ended with status 0",
        "text": "judges:careful: TypeError: returned 'yes', expected a bool or a score from 0 to 1",
        "none": "judges:careful: TypeError: returned None, expected a bool or a score from 0 to 1",
    }


def test_a_function_that_is_not_there_is_a_fault_for_every_reply(tmp_path: Path) -> None:
    found = judge(tmp_path, task(python="no_such_module:f"), "a", "b")
    assert found == [Fault("no_such_module:f: ModuleNotFoundError: No module named 'no_such_module'")] * 2


def test_a_suite_with_a_command_and_no_sandbox_is_refused_before_anything_is_sampled(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="commands run only in a sandbox, and there is no no-sandbox-here; install"):
        judge(tmp_path, task(command=["true"]))


def test_a_function_that_leaves_a_process_running_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "judges.py").write_text(
        "import subprocess\n\n"
        "def starts(task, reply):\n"
        "    started = subprocess.Popen(['sleep', '600'])\n"
        "    open('PID', 'a').write(f'{started.pid}\\n')\n"
        "    return reply['content'] == 'good'\n".replace("PID", str(tmp_path / "pids"))
    )
    assert judge(tmp_path, task(python="judges:starts"), "good", "bad") == [1, 0]
    for pid in (tmp_path / "pids").read_text().split():
        # Nothing of it is left: gone, or ended and not yet collected by whoever adopted it.
        stat, deadline = Path(f"/proc/{pid}/stat"), time.monotonic() + 30
        while stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z":
            assert time.monotonic() < deadline, "it runs on"
            time.sleep(0.01)


def test_a_function_with_an_alarm_of_its_own_is_ended_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(functions, "_SLACK_S", 0.1)
    (tmp_path / "judges.py").write_text(
        "import signal, time\n\n"
        "def disarms(task, reply):\n"
        "    signal.alarm(0)\n"
        "    while reply['content'] == 'hang':\n"
        "        time.sleep(0.1)\n"
        "    return True\n"
    )
    one, hung, last = judge(tmp_path, task(python="judges:disarms"), "a", "hang", "b")
    assert (one, last) == (1, 1)
    assert isinstance(hung, Fault)
    assert "ran longer than 0.5 s" in hung.text


def test_a_function_that_forks_and_comes_back_twice_gives_one_verdict(tmp_path: Path) -> None:
    (tmp_path / "judges.py").write_text(
        "import os\n\ndef forks(task, reply):\n    return os.fork() > 0 and reply['content'] == 'good'\n"
    )
    assert judge(tmp_path, task(python="judges:forks"), "good", "bad", "good") == [1, 0, 1]
