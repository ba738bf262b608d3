"""The demo's coding agent: an ordinary `openai` client in a loop of calls, tools and checks of the files."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

from openai import OpenAI
from openai.types.chat import ChatCompletionChunk

from console.demo.gate import Done, Gate
from console.demo.opening import ERROR, TOOLS, opening
from console.demo.task import Request, Task

MAX_TOKENS = 48
TEMPERATURE = 0.8
"""Neither greedy nor cut by top-p, so that every turn can be trained on."""
TRIES = 2
"""Attempts at one request before the agent goes on to the next."""


class Reply(NamedTuple):
    """One streamed reply, put together."""

    response_id: str
    message: dict[str, Any]
    """The assistant message as the client received it and sends it back."""
    calls: list[tuple[str, str, str]]
    """Id, name and arguments of each tool call."""


class TurnResult(NamedTuple):
    """What one turn of the agent came to."""

    response_id: str
    well_formed: bool
    """Whether a tool call could be read."""
    right: bool
    """Whether it did what was asked."""


class Steering(NamedTuple):
    """How the demo holds on to an agent."""

    take_turn: Callable[[], bool]
    """Takes one turn out of the budget; False when it is spent."""
    on_turn: Callable[[TurnResult], None]
    """Told after every turn."""


class SessionResult(NamedTuple):
    """What one session of the agent came to."""

    session_id: str
    turns: list[TurnResult]
    score: float | None
    """Its outcome, 0 to 1; None when the budget cut the session off."""


def run_session(
    client: OpenAI, model: str, task: Task, *, session_id: str, folder: Path, steering: Steering
) -> SessionResult:
    """Works through a task and posts what came of it as feedback."""
    for name, content in task.files.items():
        (folder / name).write_text(content, encoding="utf-8")
    session = _Session(client, model, task, session_id=session_id, folder=folder, steering=steering)
    finished = session.work()
    score = outcome(task, folder) if finished else None
    if score is not None:
        post(client, f"{session_id}-outcome", {"session_id": session_id, "kind": "outcome", "value": score})
    return SessionResult(session_id, session.turns, score)


def outcome(task: Task, folder: Path) -> float:
    """Share of the files to write whose bytes are exactly right; 0 when one to keep is not as it was."""
    kept = {name: content for name, content in task.files.items() if name not in task.written}
    if not all(_holds(folder / name, content) for name, content in kept.items()):
        return 0.0
    right = sum(_holds(folder / name, content) for name, content in task.written.items())
    return right / len(task.written)


class _Session:
    """The conversation of one agent run."""

    def __init__(
        self, client: OpenAI, model: str, task: Task, *, session_id: str, folder: Path, steering: Steering
    ) -> None:
        self._client = client
        self._model = model
        self._task = task
        self._folder = folder
        self._gate = Gate(folder)
        self._steering = steering
        self._messages = opening(task.family, task.requests[0])
        self._headers = {
            "x-session-id": session_id,
            "x-roundhouse-task": task.task_id,
            "x-roundhouse-group": task.task_id,
        }
        self.turns: list[TurnResult] = []

    def work(self) -> bool:
        """Goes through the requests; False when the budget ran out before the end."""
        for number, request in enumerate(self._task.requests):
            following = self._task.requests[number + 1] if number + 1 < len(self._task.requests) else None
            for attempt in range(TRIES):
                if not self._steering.take_turn():
                    return False
                right = self._turn(request, following, last_try=attempt + 1 == TRIES)
                if right:
                    break
        return True

    def _turn(self, request: Request, following: Request | None, *, last_try: bool) -> bool:
        reply = self._ask()
        done = [self._gate.call(name, arguments) for _, name, arguments in reply.calls]
        right = any(self._did(request, one) for one in done)
        upcoming = following if right or last_try else request
        text = "" if upcoming is None else f" {upcoming.text}"
        self._messages.append(reply.message)
        if not reply.calls:
            self._messages.append({"role": "user", "content": f"{ERROR}{text}"})
        for index, ((call_id, _, _), one) in enumerate(zip(reply.calls, done, strict=True)):
            said = f"{one.result}.{text}" if index + 1 == len(done) else one.result
            self._messages.append({"role": "tool", "tool_call_id": call_id, "content": said})
        judgement = {"response_id": reply.response_id, "kind": "accept", "value": float(right)}
        post(self._client, f"{reply.response_id}-accept", judgement)
        self.turns.append(TurnResult(reply.response_id, bool(reply.calls), right))
        self._steering.on_turn(self.turns[-1])
        return right

    def _did(self, request: Request, done: Done) -> bool:
        if done.tool != request.tool or done.path != request.path:
            return False
        return request.content is None or _holds(self._folder / str(request.path), request.content)

    def _ask(self) -> Reply:
        # The casts: plain dicts in the wire shape, where the client types one class a role.
        chunks = self._client.chat.completions.create(
            model=self._model,
            messages=cast(Any, self._messages),
            tools=cast(Any, [TOOLS[name] for name in self._task.tools]),
            temperature=TEMPERATURE,
            max_tokens=MAX_TOKENS,
            stream=True,
            extra_headers=self._headers,
        )
        return gather(chunks)


def gather(chunks: Iterable[ChatCompletionChunk]) -> Reply:
    """The reply that a stream of chunks makes up."""
    response_id, text = "", ""
    calls: dict[int, list[str]] = {}
    for chunk in chunks:
        response_id = chunk.id or response_id
        for choice in chunk.choices:
            text += choice.delta.content or ""
            for call in choice.delta.tool_calls or []:
                known = calls.setdefault(call.index, ["", "", ""])
                known[0] += call.id or ""
                known[1] += (call.function and call.function.name) or ""
                known[2] += (call.function and call.function.arguments) or ""
    made = [(identity, name, arguments) for identity, name, arguments in calls.values()]
    message: dict[str, Any] = {"role": "assistant", "content": text or None}
    if made:
        message["tool_calls"] = [
            {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}
            for identity, name, arguments in made
        ]
    elif not text:
        message["content"] = ""
    return Reply(response_id, message, made)


def _holds(path: Path, content: str) -> bool:
    return path.is_file() and not path.is_symlink() and path.read_bytes() == content.encode()


def post(client: OpenAI, feedback_id: str, judgement: Mapping[str, object]) -> None:
    """Posts feedback on a turn or a session."""
    body = {**judgement, "feedback_id": feedback_id, "source": "roundhouse demo"}
    client.post("/feedback", cast_to=object, body=body)
