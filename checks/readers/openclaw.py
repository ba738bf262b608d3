"""OpenClaw-RL: records of turns as text, and the judgements of its process reward model beside them."""

from collections.abc import Iterator

from checks.readers.fields import Json, JsonObject, number, objects, text, when, whole
from checks.readers.file_head import FileHead
from checks.readers.file_order import in_order
from checks.readers.format import Format, Unit
from checks.readers.json_outline import outline
from checks.readers.lines import json_objects
from checks.readers.unreadable import UnreadableParts
from checks.rows import RewardRow, Row, TurnRow


def recognise(head: FileHead) -> str | None:
    """By the texts of a record, or by the votes on a turn."""
    keys = outline(head)
    if {"session_id", "turn", "prompt_text", "response_text"} <= keys:
        return "lines with session_id, turn, prompt_text and response_text"
    if {"session_id", "turn", "score", "votes"} <= keys:
        return "lines with session_id, turn, score and votes"
    return None


def read(unit: Unit, unreadable: UnreadableParts) -> Iterator[Row]:
    """The records of a file as turns, or its judgements as rewards of turns."""
    for path in unit:
        for line_number, line in json_objects(path, unreadable):
            place = f"{path.name}:{line_number}"
            try:
                yield _judgement(line) if "votes" in line else _turn(line, place)
            except ValueError as error:
                unreadable.add(place, str(error))


def _turn(line: JsonObject, place: str) -> TurnRow:
    session, turn = _key(line)
    reply: dict[str, Json] | None = None
    if line.get("tool_calls"):
        reply = {"role": "assistant", "content": line.get("response_text"), "tool_calls": line["tool_calls"]}
    messages = objects(line.get("messages"), "messages")
    return TurnRow(
        session_id=session,
        turn=turn,
        turn_id=f"{session}/{turn}",
        api="import:openclaw-rl",
        # Local time without a zone: only differences say anything.
        finished_at=when(line.get("timestamp")),
        request={"messages": messages} if messages else None,
        response=reply,
        prompt_text=text(line.get("prompt_text")),
        completion_text=text(line.get("response_text")),
        place=place,
    )


def _judgement(line: JsonObject) -> RewardRow:
    session, turn = _key(line)
    return RewardRow(session_id=session, turn_id=f"{session}/{turn}", value=number(line.get("score"), "score"))


def _key(line: JsonObject) -> tuple[str, int]:
    session, turn = text(line.get("session_id")), whole(line.get("turn"), "turn")
    if session is None or turn is None:
        raise ValueError("no session_id or no turn, expected both")
    return session, turn


_TOKENS = "OpenClaw-RL's records are text; its tokens are in slime's --save-debug-rollout-data of the same run"

OPENCLAW = Format(
    name="openclaw-rl",
    about="OpenClaw-RL records (OPENCLAW_RECORD_FILE) and its reward model's votes (*_prm.jsonl)",
    recognise=recognise,
    read=read,
    units=in_order,
    alone=(TurnRow, RewardRow),
    advice={
        **dict.fromkeys(("turns.prompt_ids", "turns.completion_ids", "turns.sampled_logprobs"), _TOKENS),
        "turns.trainer_logprobs": "OpenClaw-RL: slime's --save-debug-train-data of the same run",
        "scores.trainer_logprobs": "OpenClaw-RL: slime's --save-debug-train-data of the same run",
        "turns.reward": "OpenClaw-RL: give the _prm.jsonl beside the records (needs prm_enable)",
        "rewards.value": "OpenClaw-RL: give the _prm.jsonl beside the records (needs prm_enable)",
        "turns.finish_reason": "OpenClaw-RL's records have no finish reason",
    },
)
