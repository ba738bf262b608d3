"""SWE-agent trajectories: .traj files, and those of mini-swe-agent."""

from collections.abc import Iterator
from pathlib import Path

from checks.readers.fields import Json, JsonObject, mapping, objects, text, whole
from checks.readers.file_head import FileHead
from checks.readers.file_order import in_order, short
from checks.readers.format import Format, Unit
from checks.readers.json_document import document
from checks.readers.json_outline import outline
from checks.readers.unreadable import UnreadableParts
from checks.rows import Row, TurnRow

_OURS = frozenset({"role", "content", "tool_calls", "tool_call_id", "name", "reasoning_content"})
_ENDS = {"submitted": "stop", "Submitted": "stop", "exit_context": "length", "exit_error": "error", "exit_api": "error"}
"""How a run's exit status begins, and how its last reply ended."""


def recognise(head: FileHead) -> str | None:
    """By the steps of a trajectory, or by a history with the agent's name in it."""
    keys = outline(head)
    if {"trajectory.[].action", "trajectory.[].observation"} <= keys:
        return "a trajectory of actions and observations"
    if {"history", "history.[].role", "history.[].agent"} <= keys:
        return "a history of messages of an agent"
    mini = b'"mini-swe-agent' in head.start and {"messages", "info"} & keys
    return "a trajectory_format of mini-swe-agent" if mini else None


def read(unit: Unit, unreadable: UnreadableParts) -> Iterator[Row]:
    """One turn for each reply of the model: from the steps where they hold its requests, else from the history."""
    for path in unit:
        run = mapping(document(path, unreadable))
        if not run:
            continue
        try:
            turns = list(_steps(run)) or list(_history(run))
        except ValueError as error:
            unreadable.add(path.name, str(error))
            continue
        if not turns:
            unreadable.add(path.name, "no reply of a model, expected trajectory, history or messages with some")
        info = mapping(run.get("info"))
        for turn, fields in enumerate(turns, start=1):
            last = turn == len(turns)
            yield TurnRow(
                session_id=short(path),
                turn=turn,
                task_id=_task(path),
                api="import:swe-agent",
                client="swe-agent",
                finish_reason=_end(info) if last else None,
                place=f"{short(path)}[{turn - 1}]",
                **(_only(info) if len(turns) == 1 else {}),
                **fields,
            )


def _task(path: Path) -> str:
    """The instance, which the file is named for."""
    return path.name.removesuffix(".json").removesuffix(".traj")


def _steps(run: JsonObject) -> Iterator[dict[str, Json]]:
    for step in objects(run.get("trajectory"), "trajectory"):
        asked = step.get("query") or step.get("messages")
        if step.get("response") is None or not asked:
            # Older steps do not hold what was asked: the history does.
            return
        reply: dict[str, Json] = {"role": "assistant", "content": text(step.get("response"))}
        if step.get("tool_calls"):
            reply["tool_calls"] = step["tool_calls"]
        yield {"request": {"messages": [_message(each) for each in objects(asked, "query")]}, "response": reply}


def _history(run: JsonObject) -> Iterator[dict[str, Json]]:
    """Each message of the assistant is a reply to those before it."""
    before: list[dict[str, Json]] = []
    for message in objects(run.get("history") or run.get("messages"), "history"):
        kept = _message(message)
        if message.get("role") == "assistant" and not message.get("is_demo"):
            yield {"request": {"messages": list(before)}, "response": kept}
        before.append(kept)


def _message(message: JsonObject) -> dict[str, Json]:
    """A message without what SWE-agent notes beside it."""
    kept = {name: value for name, value in message.items() if name in _OURS and value is not None}
    called = message.get("tool_call_ids")
    return kept | ({"tool_call_id": called[0]} if isinstance(called, list) and called else {})


def _end(info: JsonObject) -> str | None:
    status = text(info.get("exit_status")) or ""
    return next((end for begin, end in _ENDS.items() if status.startswith(begin)), None)


def _only(info: JsonObject) -> dict[str, Json]:
    """The run's own counts, which are of all calls together and so say something of one call alone."""
    stats = mapping(info.get("model_stats"))
    return {
        "stated_prompt_tokens": whole(stats.get("tokens_sent"), "tokens_sent"),
        "stated_completion_tokens": whole(stats.get("tokens_received"), "tokens_received"),
    }


_NO_IDS = "SWE-agent's trajectories are text; put roundhouse collect in front of the model to record exact tokens"

SWE_AGENT = Format(
    name="swe-agent",
    about="SWE-agent .traj files and mini-swe-agent's trajectories",
    recognise=recognise,
    read=read,
    units=in_order,
    advice={
        **dict.fromkeys(("turns.prompt_ids", "turns.completion_ids", "turns.sampled_logprobs"), _NO_IDS),
        "turns.finish_reason": "SWE-agent's trajectories say only how a run ended, not each reply",
        "turns.reward": "SWE-agent records no reward; the benchmark's report has the outcome",
    },
)
