"""Suites of held-out tasks: JSONL, one task a line, each with the verifier that judges its replies."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, cast

import msgspec
import regex

from collector.conversation import Reply, ToolCall, content_text, reasoning_of, tool_calls_of, visible_text
from collector.engine.wire import TokenId
from collector.errors import UserError
from collector.records import ChatRequest

_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
Text = Annotated[str, msgspec.Meta(min_length=1)]
KnownReply = str | dict[str, object]
"""The text of a reply, or an assistant message in chat form."""


class CallShape(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The tool call that a reply must be."""

    name: Text
    """The tool."""
    arguments: dict[str, object] | None = None
    """Exactly these arguments, compared as JSON; None takes any."""


class Verifier(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """How a reply is judged: one of these."""

    exact: str | None = None
    """The visible text, white space at both ends aside."""
    regex: str | None = None
    """A pattern that the visible text must hold somewhere; anchor it with \\A and \\Z for the whole."""
    tool_call: CallShape | None = None
    """The one tool call that the reply must make."""
    command: Annotated[list[str], msgspec.Meta(min_length=1)] | None = None
    """Run in the sandbox with the visible text on its standard input and /task/reply.json, /task/task.json (less the
    known replies) beside; the folder named like the suite, less `.jsonl`, is /suite. Exit status 0 passes, 126 and 127
    say that it could not run, any other fails."""
    python: str | None = None
    """`module:function`, found in the suite's folder or on the path, called with task and reply as dicts; it returns
    a bool or a score from 0 to 1. Your own code: it runs in a process of its own, not in the sandbox."""

    @property
    def kind(self) -> str:
        """Which of them it is."""
        return next(name for name in self.__struct_fields__ if getattr(self, name) is not None)


class Task(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One line of a suite."""

    task_id: Text
    """Its name, unique in the suite."""
    verifier: Verifier
    """Judges the replies."""
    messages: Annotated[list[dict[str, object]], msgspec.Meta(min_length=1)] | None = None
    """The conversation to reply to, in chat form; or"""
    prompt_ids: Annotated[list[TokenId], msgspec.Meta(min_length=1)] | None = None
    """the exact prompt."""
    tools: list[dict[str, object]] | None = None
    """Tool definitions; with them sampled tool calls are read as such."""
    max_tokens: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """Limit on a reply; None takes the configured one."""
    pass_score: Annotated[float, msgspec.Meta(gt=0, le=1)] = 1.0
    """The score from which a reply counts as solved."""
    known_good: list[KnownReply] = []
    """Replies that must pass: the verifier is tried on them before it is used."""
    known_bad: list[KnownReply] = []
    """Replies that must not; where none is given, an empty one must not."""

    def chat(self) -> ChatRequest | None:
        """The conversation; None where the task gives ids."""
        return None if self.messages is None else ChatRequest(messages=self.messages, tools=self.tools)


class _Asked(msgspec.Struct, frozen=True):
    """What of a task's message every template reads."""

    role: Text
    content: str | list[dict[str, object]] | None = None
    tool_calls: list[dict[str, object]] | None = None


class _Function(msgspec.Struct, frozen=True):
    name: str
    arguments: str | dict[str, object] = {}


class _Call(msgspec.Struct, frozen=True):
    function: _Function
    id: str = ""


class _Message(msgspec.Struct, frozen=True):
    """What of a known reply is read."""

    content: str | list[dict[str, object]] | None = None
    tool_calls: list[_Call] | None = None
    role: Literal["assistant"] = "assistant"


class Suite(NamedTuple):
    """The tasks of one file, in its order."""

    name: str
    """The file's name less `.jsonl`."""
    folder: Path
    """Where it lies: modules of Python verifiers are found here."""
    tasks: tuple[Task, ...]

    @property
    def shown(self) -> Path | None:
        """The folder that commands see as /suite; what a reply's code may not read lies elsewhere."""
        shown = self.folder / self.name
        return shown if shown.is_dir() else None

    def named(self, task_ids: tuple[str, ...]) -> tuple[Task, ...]:
        """Some of the tasks, in the order asked for."""
        by_id = {task.task_id: task for task in self.tasks}
        return tuple(by_id[task_id] for task_id in task_ids)


def read_suite(path: Path) -> Suite:
    """Reads a suite; the first thing that is wrong is named with its line."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}; give the path of a suite, a JSONL file") from error
    tasks: dict[str, Task] = {}
    prompts: dict[bytes, str] = {}
    for place, task in _tasks(path, lines):
        if task.task_id in tasks:
            raise UserError(f"{place}: task {task.task_id!r} is there already; give each task an id of its own")
        prompt = msgspec.json.encode((task.messages, task.prompt_ids, task.tools), order="sorted")
        twin = prompts.setdefault(prompt, task.task_id)
        if twin != task.task_id:
            raise UserError(f"{place}: task {task.task_id!r} has the prompt of {twin!r}; one task would count twice")
        tasks[task.task_id] = task
    if not tasks:
        raise UserError(f"{path} holds no task, expected one JSON object a line")
    return Suite(path.name.removesuffix(".jsonl"), path.parent, tuple(tasks.values()))


def reply_of(known: KnownReply) -> Reply:
    """A written reply as the parser would have read it."""
    if isinstance(known, str):
        return Reply(content=known)
    calls = [(call, cast("dict[str, object]", call.get("function") or {})) for call in tool_calls_of(known)]
    return Reply(
        content=visible_text(known) if content_text(known) else "",
        reasoning=reasoning_of(known),
        tool_calls=tuple(
            ToolCall(id=str(call.get("id", "")), name=str(function.get("name")), arguments=_arguments(function))
            for call, function in calls
        ),
    )


def _arguments(function: dict[str, object]) -> str:
    given = function.get("arguments", {})
    return given if isinstance(given, str) else msgspec.json.encode(given).decode()


def _tasks(path: Path, lines: list[bytes]) -> Iterator[tuple[str, Task]]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        place = f"{path}:{number}"
        try:
            task = msgspec.json.decode(line, type=Task)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise UserError(f"{place}: {error}; expected a task as samples/evaluation/README.md describes") from error
        if fault := _fault(task):
            raise UserError(f"{place}: task {task.task_id!r}: {fault}")
        yield place, task


def _fault(task: Task) -> str | None:
    """What is wrong with a task that decodes."""
    verifier = task.verifier
    given = [name for name in verifier.__struct_fields__ if getattr(verifier, name) is not None]
    if len(given) != 1:
        expected = ", ".join(verifier.__struct_fields__)
        return f"the verifier has {' and '.join(given) or 'nothing'}, expected one of {expected}"
    if (task.messages is None) == (task.prompt_ids is None):
        found = "neither messages nor prompt_ids" if task.messages is None else "both messages and prompt_ids"
        return f"it has {found}, expected one of them"
    if task.tools is not None and task.messages is None:
        return "it has tools but no messages; write the tools into the prompt's ids, or give messages"
    for index, message in enumerate(task.messages or ()):
        if wrong := _convert_fault(message, _Asked):
            return f"messages[{index}]: {wrong}; expected a message in chat form"
    if verifier.regex is not None and (wrong := _regex_fault(verifier.regex)):
        return wrong
    if any("\0" in word for word in verifier.command or ()):
        return "a word of the command holds a NUL character, which no program can be given; take it out"
    for known in (*task.known_good, *task.known_bad):
        if not isinstance(known, str) and (wrong := _convert_fault(known, _Message)):
            return (
                f"a known reply is no assistant message: {wrong}; give its text, or content and tool_calls in chat form"
            )
    if verifier.python is not None and not _FUNCTION.fullmatch(verifier.python):
        return f"python is {verifier.python!r}, expected module:function"
    return None


def _convert_fault(message: dict[str, object], expected: type[msgspec.Struct]) -> str | None:
    """Why a message is not of the form expected."""
    try:
        msgspec.convert(message, expected)
    except msgspec.ValidationError as error:
        return str(error)
    return None


def _regex_fault(pattern: str) -> str | None:
    try:
        regex.compile(pattern)
    except (regex.error, RecursionError, OverflowError) as error:
        return f"the regex does not compile: {error}"
    return None
