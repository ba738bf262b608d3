"""Judges replies: exact, regex, tool call, command in the sandbox, Python function."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple, cast

import msgspec
import regex

from collector.conversation import Reply
from trainer.evaluation.functions import Fault, Judged, call_function
from trainer.evaluation.sandbox import Sandbox, open_sandbox
from trainer.evaluation.suite import CallShape, Suite, Task
from trainer.evaluation_config import EvaluationConfig

_COMMANDS_AT_A_TIME = 4
Verdict = float | Fault
"""A score from 0 to 1, or why there is none."""


class Answered(NamedTuple):
    """A reply to a task."""

    task: Task
    reply: Reply


class Verifiers:
    """Judges the replies to one suite. Made before anything is sampled: a missing sandbox is found at once."""

    def __init__(self, suite: Suite, config: EvaluationConfig, *, sandbox: Callable[[], Sandbox] | None = None) -> None:
        """`sandbox` opens one where a task runs a command; the configured one is opened by default."""
        self._suite = suite
        self._time_limit_s = config.verifier_time_limit_s
        commands = any(task.verifier.command is not None for task in suite.tasks)
        self._sandbox = (sandbox or partial(open_sandbox, config.sandbox))() if commands else None

    def judge(self, answered: Sequence[Answered]) -> list[Verdict]:
        """The verdict on each reply, in their order."""
        functions: dict[str, list[int]] = {}
        for index, each in enumerate(answered):
            if each.task.verifier.python is not None:
                functions.setdefault(each.task.verifier.python, []).append(index)
        verdicts = dict[int, Verdict]()
        for function, indices in functions.items():
            judged = [Judged(msgspec.to_builtins(each.task), each.reply.message()) for each in _some(answered, indices)]
            found = call_function(function, judged, folder=self._suite.folder, time_limit_s=self._time_limit_s)
            verdicts |= zip(indices, found, strict=True)
        rest = [index for index in range(len(answered)) if index not in verdicts]
        with ThreadPoolExecutor(_COMMANDS_AT_A_TIME, "verify") as threads:
            verdicts |= zip(rest, threads.map(self._one, _some(answered, rest)), strict=True)
        return [verdicts[index] for index in range(len(answered))]

    def _one(self, answered: Answered) -> Verdict:
        verifier, reply = answered.task.verifier, answered.reply
        if verifier.exact is not None:
            return float(reply.content.strip() == verifier.exact.strip())
        if verifier.tool_call is not None:
            return float(calls_as(reply, verifier.tool_call))
        if verifier.regex is not None:
            try:
                return float(regex.search(verifier.regex, reply.content, timeout=self._time_limit_s) is not None)
            except TimeoutError:
                return Fault(f"the regex searched a reply longer than {self._time_limit_s:g} s")
        assert verifier.command is not None
        return self._command(verifier.command, answered)

    def _command(self, command: Sequence[str], answered: Answered) -> Verdict:
        assert self._sandbox is not None
        task = msgspec.structs.replace(answered.task, known_good=[], known_bad=[])
        done = self._sandbox.run(
            command,
            stdin=answered.reply.content.encode(errors="replace"),
            files={"reply.json": msgspec.json.encode(answered.reply.message()), "task.json": msgspec.json.encode(task)},
            suite=self._suite.shown,
        )
        if done.outcome == "never_ran":
            return Fault(f"{command[0]} could not run in the sandbox: {' '.join(done.output.split())[-300:]}")
        return float(done.outcome == "passed")


def calls_as(reply: Reply, shape: CallShape) -> bool:
    """Whether a reply makes exactly the one call."""
    if len(reply.tool_calls) != 1 or reply.tool_calls[0].name != shape.name:
        return False
    if shape.arguments is None:
        return True
    try:
        return same_json(msgspec.json.decode(reply.tool_calls[0].arguments), shape.arguments)
    except msgspec.DecodeError:
        return False


def same_json(left: object, right: object) -> bool:
    """Whether two JSON values are the same: 1 is 1.0, but true is not 1."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        ours, theirs = cast("Mapping[str, object]", left), cast("Mapping[str, object]", right)
        return ours.keys() == theirs.keys() and all(same_json(ours[name], theirs[name]) for name in ours)
    if isinstance(left, list) and isinstance(right, list):
        pairs = zip(cast("list[object]", left), cast("list[object]", right), strict=False)
        return len(left) == len(right) and all(same_json(one, other) for one, other in pairs)  # pyright: ignore[reportUnknownArgumentType]
    return left == right


def _some(answered: Sequence[Answered], indices: Sequence[int]) -> list[Answered]:
    return [answered[index] for index in indices]
