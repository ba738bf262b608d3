"""Graders: a dead one is found before it judges, and the sample suite is as it says."""

import json
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from collector.conversation import Reply
from collector.errors import UserError
from trainer.evaluation.graders import Graders
from trainer.evaluation.sandbox import Finished, Sandbox, open_sandbox
from trainer.evaluation.suite import Suite, Task, Verifier, read_suite
from trainer.evaluation.verifiers import Answered
from trainer.evaluation_config import EvaluationConfig, SandboxConfig

CONFIG = EvaluationConfig()
SAMPLES = Path(__file__).parents[3] / "samples" / "evaluation"


class ScriptedSandbox(Sandbox):
    """Ends every command as told."""

    def __init__(self, outcome: Any, output: str = "") -> None:
        super().__init__(SandboxConfig(), "none")
        self.finished = Finished(outcome, output)

        self.given: dict[str, Any] = {}

    def run(self, command: Sequence[str], **given: Any) -> Finished:
        self.given = {"command": list(command), **given}
        return self.finished


def task(known_good: list[Any] | None = None, known_bad: list[Any] | None = None, **verifier: Any) -> Task:
    return Task(
        task_id="sum",
        prompt_ids=[1],
        verifier=Verifier(**verifier),
        known_good=known_good or [],
        known_bad=known_bad or [],
    )


def check(folder: Path, given: Task, *, sandbox: Sandbox | None = None) -> None:
    opened = None if sandbox is None else lambda: sandbox
    Graders(Suite("sums", folder, (given,)), CONFIG, sandbox=opened).check([given])


def test_a_living_grader_passes_its_trial(tmp_path: Path) -> None:
    check(tmp_path, task(exact="4"))
    check(tmp_path, task(regex="4", known_good=["is 4"], known_bad=["is 5"]))
    check(tmp_path, task(regex=r"\A(?!.*secret)", known_bad=["the secret"]))


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        (task(regex=".*"), r"its verifier (regex) passes an empty reply; if that is right, name another one"),
        (task(exact=""), r"its verifier (exact) passes an empty reply"),
        (task(regex="4", known_bad=["14"]), "passes '14', a reply known to be bad"),
        (task(regex="four", known_good=["4"]), "fails '4', a reply known to be good"),
        (task(exact="4", known_good=["four"]), "fails 'four', a reply known to be good"),
    ],
)
def test_a_dead_grader_is_named_with_its_task(tmp_path: Path, given: Task, fault: str) -> None:
    with pytest.raises(UserError) as raised:
        check(tmp_path, given)
    assert str(raised.value).startswith("suite sums, task 'sum': its verifier (")
    assert fault in str(raised.value)


@pytest.mark.parametrize(
    ("outcome", "fault"),
    [("passed", "passes an empty reply"), ("failed", "fails 'good', a reply"), ("never_ran", "no verdict on a known")],
)
def test_a_command_that_always_says_the_same_is_found(tmp_path: Path, outcome: str, fault: str) -> None:
    with pytest.raises(UserError, match=fault):
        check(
            tmp_path, task(command=["check"], known_good=["good"]), sandbox=ScriptedSandbox(outcome, "sh: check: nope")
        )


def test_a_function_that_crashes_is_found(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("def judge(task, reply):\n    return reply['text'] == '4'\n")
    with pytest.raises(UserError, match="gives no verdict on a known reply: broken:judge: KeyError: 'text'"):
        check(tmp_path, task(python="broken:judge"))


def test_nothing_is_judged_by_a_grader_that_was_not_tried(tmp_path: Path) -> None:
    dead = task(regex=".*")
    graders = Graders(Suite("sums", tmp_path, (dead,)), CONFIG)
    with pytest.raises(UserError, match="passes an empty reply"):
        graders.judge([Answered(dead, Reply(content="anything"))])


def test_a_grader_is_tried_once(tmp_path: Path) -> None:
    (tmp_path / "counted.py").write_text(
        "def judge(task, reply):\n    open(__file__ + '.calls', 'a').write('x')\n    return bool(reply['content'])\n"
    )
    given = task(python="counted:judge")
    graders = Graders(Suite("sums", tmp_path, (given,)), CONFIG)
    graders.check([given])
    assert graders.judge([Answered(given, Reply(content="a"))] * 2) == [1, 1]
    assert (tmp_path / "counted.py.calls").read_text() == "xxx"


def test_a_command_that_cannot_run_is_a_fault_with_what_it_said(tmp_path: Path) -> None:
    given = task(command=["check"], known_bad=["bad"])
    graders = Graders(Suite("sums", tmp_path, (given,)), CONFIG, sandbox=lambda: ScriptedSandbox("failed"))
    graders.check([given])
    dying = Graders(Suite("sums", tmp_path, (given,)), CONFIG, sandbox=lambda: ScriptedSandbox("never_ran", "gone\n"))
    with pytest.raises(UserError, match="check could not run in the sandbox: gone"):
        dying.judge([Answered(given, Reply(content="a"))])


def test_a_command_sees_the_reply_and_the_task_but_no_known_answer(tmp_path: Path) -> None:
    (tmp_path / "sums").mkdir()
    given = task(command=["check", "it"], known_bad=["the bad one"])
    sandbox = ScriptedSandbox("failed")
    Graders(Suite("sums", tmp_path, (given,)), CONFIG, sandbox=lambda: sandbox).check([given])
    assert (sandbox.given["command"], sandbox.given["stdin"]) == (["check", "it"], b"the bad one")
    assert sandbox.given["suite"] == tmp_path / "sums"
    assert json.loads(sandbox.given["files"]["reply.json"]) == {"role": "assistant", "content": "the bad one"}
    assert set(json.loads(sandbox.given["files"]["task.json"])) == {"task_id", "prompt_ids", "verifier"}


def test_the_sample_suite_is_sound() -> None:
    """Its commands need a real sandbox; everything else is tried without."""
    suite = read_suite(SAMPLES / "support.jsonl")
    assert {each.verifier.kind for each in suite.tasks} == set(Verifier.__struct_fields__)
    plain = tuple(each for each in suite.tasks if each.verifier.command is None)
    Graders(suite._replace(tasks=plain), CONFIG).check(plain)


def test_the_sample_suite_runs_its_code_in_the_sandbox() -> None:
    try:
        open_sandbox(CONFIG.sandbox)
    except UserError as error:
        pytest.skip(f"no sandbox here: {error}")
    with tempfile.TemporaryDirectory() as made:
        shutil.copytree(SAMPLES, made, dirs_exist_ok=True)
        Path(made).chmod(0o755)
        suite = read_suite(Path(made) / "support.jsonl")
        Graders(suite, CONFIG).check(suite.tasks)
