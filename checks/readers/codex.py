"""Codex rollouts: ~/.codex/sessions/**/rollout-*.jsonl, also compressed, one turn for each reply of the model."""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from checks.readers.fields import Json, JsonObject, mapping, objects, text, when, whole
from checks.readers.file_head import FileHead
from checks.readers.file_order import in_order, short
from checks.readers.format import Format, Unit
from checks.readers.json_outline import outline
from checks.readers.lines import json_objects
from checks.readers.messages import chat_messages, is_model_item, item_message
from checks.readers.unreadable import UnreadableParts
from checks.rows import EventRow, Row, TurnRow

_KINDS = (b'"session_meta"', b'"response_item"', b'"turn_context"', b'"event_msg"')
_ABORTED = ("turn_aborted", "task_aborted")


def recognise(head: FileHead) -> str | None:
    """By a line's timestamp, type and payload, or by the first line of an old rollout."""
    keys = outline(head)
    if {"timestamp", "type", "payload"} <= keys and any(kind in head.start for kind in _KINDS):
        return "lines with timestamp, type and payload"
    old = head.path.name.startswith("rollout-") and {"id", "timestamp", "instructions"} <= keys
    return "a rollout that begins with id, timestamp and instructions" if old else None


def read(unit: Unit, unreadable: UnreadableParts) -> Iterator[Row]:
    """The replies and compactions of each rollout."""
    for path in unit:
        rollout = _Rollout(path)
        for number, line in json_objects(path, unreadable):
            try:
                yield from rollout.add(line, f"{short(path)}:{number}")
            except ValueError as error:
                unreadable.add(f"{path.name}:{number}", str(error))
        yield from rollout.rest()


class _Rollout:
    """The conversation so far, the reply being written, and the last turn, which may yet get its usage."""

    def __init__(self, path: Path) -> None:
        self._session = path.name.split(".")[0]
        self._named = False
        self._model: str | None = None
        self._history: list[dict[str, Json]] | None = []
        self._asked: list[JsonObject] = []
        self._reply: list[JsonObject] = []
        self._turn = 0
        self._pending: TurnRow | None = None
        self._waiting: list[EventRow] = []
        self._total: Json = None
        self._place = ""
        self._began: Json = None
        self._written: Json = None

    def add(self, line: JsonObject, place: str) -> Iterator[Row]:
        """What one line completes."""
        kind = line.get("type")
        payload = mapping(line.get("payload"))
        if kind == "session_meta" or (kind is None and "instructions" in line):
            self._name(payload or line)
        elif kind == "turn_context":
            self._model = text(payload.get("model")) or self._model
        elif kind == "compacted":
            yield from self._compacted(payload, line)
        elif kind == "event_msg":
            yield from self._event(payload, line)
        elif kind == "response_item" or (kind is not None and "payload" not in line):
            yield from self._item(payload or line, line, place)

    def rest(self) -> Iterator[Row]:
        """What the end of the file completes."""
        yield from self._close()
        yield from self._flush()
        yield from self._waiting

    def _name(self, meta: JsonObject) -> None:
        """The session's id: the first, since a fork repeats the lines of what it was forked from."""
        found = text(meta.get("id"))
        if found is not None and not self._named:
            self._session, self._named = found, True

    def _item(self, item: JsonObject, line: JsonObject, place: str) -> Iterator[Row]:
        if is_model_item(item):
            if not self._reply:
                yield from self._flush()
                self._place, self._began = place, self._written
            self._reply.append(item)
        else:
            yield from self._close()
            self._asked.append(item)
        self._written = line.get("timestamp")

    def _close(self, reason: str | None = None) -> Iterator[Row]:
        """Makes a turn of the reply being written."""
        if not self._reply:
            return
        yield from self._flush()
        if self._history is not None:
            self._history += chat_messages(self._asked)
        self._turn += 1
        reply = item_message(self._reply)
        self._pending = TurnRow(
            session_id=self._session,
            turn=self._turn,
            base_model=self._model,
            api="import:codex",
            client="codex",
            started_at=when(self._began),
            finished_at=when(self._written),
            finish_reason=reason,
            complete=False if reason else None,
            request=None if self._history is None else {"messages": list(self._history)},
            response=reply,
            place=self._place,
        )
        self._asked, self._reply = [], []
        if self._history is not None:
            self._history.append(reply)

    def _flush(self) -> Iterator[Row]:
        if self._pending is not None:
            for event in self._waiting:
                yield msgspec.structs.replace(event, turn=self._pending.turn)
            yield self._pending
            self._pending, self._waiting = None, []

    def _event(self, payload: JsonObject, line: JsonObject) -> Iterator[Row]:
        kind = payload.get("type")
        if kind == "token_count":
            yield from self._close()
            self._count(mapping(payload.get("info")))
        elif kind in _ABORTED:
            yield from self._close("abort")
        elif kind == "thread_rolled_back":
            yield from self._rewritten(EventRow(kind="rollback", at=when(line.get("timestamp"))), None)

    def _count(self, info: JsonObject) -> None:
        """The usage of the last reply; the same total again is the same count said again."""
        total = mapping(info.get("total_token_usage")) or None
        usage = mapping(info.get("last_token_usage"))
        if self._pending is None or not usage or (total is not None and total == self._total):
            return
        self._total = total
        if self._pending.stated_prompt_tokens is None:
            self._pending = msgspec.structs.replace(
                self._pending,
                stated_prompt_tokens=whole(usage.get("input_tokens"), "input_tokens"),
                stated_completion_tokens=whole(usage.get("output_tokens"), "output_tokens"),
                cached_tokens=whole(usage.get("cached_input_tokens"), "cached_input_tokens"),
            )

    def _compacted(self, payload: JsonObject, line: JsonObject) -> Iterator[Row]:
        """What was replaced is known where the line has it; else the messages are no longer."""
        kept = payload.get("replacement_history")
        history = None if kept is None else list(chat_messages(objects(kept, "replacement_history")))
        event = EventRow(kind="compaction", at=when(line.get("timestamp")), text=text(payload.get("message")) or None)
        yield from self._rewritten(event, history)

    def _rewritten(self, event: EventRow, history: list[dict[str, Json]] | None) -> Iterator[Row]:
        yield from self._close()
        yield from self._flush()
        self._waiting.append(msgspec.structs.replace(event, session_id=self._session))
        self._history, self._asked = history, []


_NO_IDS = "Codex's rollouts are text; put roundhouse collect in front of the model to record exact tokens"

CODEX = Format(
    name="codex",
    about="Codex rollouts (~/.codex/sessions/**/rollout-*.jsonl and .jsonl.zst): messages, usage, compactions",
    recognise=recognise,
    read=read,
    units=in_order,
    advice={
        **dict.fromkeys(("turns.prompt_ids", "turns.completion_ids", "turns.sampled_logprobs"), _NO_IDS),
        "turns.finish_reason": "Codex's rollouts say only of an aborted turn how it ended",
        "turns.reward": "Codex records no reward; roundhouse feedback or collect adds it",
        "turns.weight_versions": "Codex records the model's name, not the version of its weights",
    },
)
