"""Claude Code sessions: the tree of messages in ~/.claude/projects, one turn for each reply of the API."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

import msgspec

from checks.readers.chat_call import usage_fields
from checks.readers.fields import Json, JsonObject, finish, mapping, text, when
from checks.readers.file_head import FileHead
from checks.readers.file_order import by_number, short
from checks.readers.format import Format, Unit
from checks.readers.json_outline import outline
from checks.readers.lines import json_objects
from checks.readers.messages import assistant_message, blocks, user_messages
from checks.readers.unreadable import UnreadableParts
from checks.rows import EventRow, Row, TurnRow

_SAID = ("user", "assistant")


def recognise(head: FileHead) -> str | None:
    """By a line's type, session and uuid, or by the summary that a session file may begin with."""
    keys = outline(head)
    if {"type", "sessionId"} <= keys and keys & {"uuid", "parentUuid", "message", "operation"}:
        return "lines with type, sessionId and uuid"
    if {"type", "summary", "leafUuid"} <= keys:
        return "lines with a summary and its leafUuid"
    snapshot = {"type", "messageId", "snapshot"} <= keys
    return "lines with a file-history-snapshot" if snapshot else None


def units(heads: Sequence[FileHead]) -> list[Unit]:
    """All files together, since a resumed session repeats the lines of the one before."""
    return [tuple(sorted((head.path for head in heads), key=by_number))]


def read(unit: Unit, unreadable: UnreadableParts) -> Iterator[Row]:
    """The replies and compactions of each file; a reply that an earlier file had is not given again."""
    seen: set[str] = set()
    turns: dict[str, int] = {}
    for path in unit:
        session = _Session(path, seen, turns)
        for number, line in json_objects(path, unreadable):
            try:
                session.add(line, number)
            except ValueError as error:
                unreadable.add(f"{path.name}:{number}", str(error))
        yield from session.rows(unreadable)


class _Reply:
    """One reply of the API, which the log splits over several lines."""

    def __init__(self, line: JsonObject, number: int, parent: str | None) -> None:
        self.first = line
        self.number = number
        self.parent = parent
        self.last = line
        self.parts: list[dict[str, Json]] = []

    def add(self, line: JsonObject) -> None:
        """One more line of it; what the last one counts holds."""
        self.last = line
        self.parts += blocks(mapping(line.get("message")).get("content"))


class _Session:
    """The lines of one file, as the tree they are."""

    def __init__(self, path: Path, seen: set[str], turns: dict[str, int]) -> None:
        self._path = path
        self._seen = seen
        self._nodes: dict[str, tuple[JsonObject, str | None]] = {}
        self._replies: dict[str, _Reply] = {}
        self._results: dict[str, JsonObject] = {}
        self._last: dict[str, str] = {}
        self._compactions: dict[str, JsonObject] = {}
        self._turns = turns
        self._order: list[_Reply | tuple[str, EventRow]] = []

    def add(self, line: JsonObject, number: int) -> None:
        """One line, placed below its parent: the one it names, else the one before it in its thread."""
        kind = line.get("type")
        thread = self._thread(line)
        if kind == "summary":
            # A title for the list of sessions, of a session that only its leaf names: nothing was compacted.
            self._order.append(("", EventRow(kind="summary", text=text(line.get("summary")))))
            return
        uuid = text(line.get("uuid")) or f"line {number}"
        parent = text(line.get("parentUuid")) if "parentUuid" in line else self._last.get(thread)
        self._nodes[uuid] = (line, parent)
        if kind in _SAID or kind == "system":
            self._last[thread] = uuid
        if kind == "assistant":
            self._add_reply(line, number, parent)
        elif kind == "user":
            for part in blocks(mapping(line.get("message")).get("content")):
                if part.get("type") == "tool_result" and isinstance(part.get("tool_use_id"), str):
                    self._results[part["tool_use_id"]] = part
        if _compacts(line) and not (parent is not None and _compacts(self._nodes.get(parent, ({}, None))[0])):
            self._order.append((thread, _compaction(line, thread)))

    def _thread(self, line: JsonObject) -> str:
        """The session, or the sub-agent's own one within it."""
        session = text(line.get("sessionId")) or self._path.stem
        if not line.get("isSidechain"):
            return session
        agent = text(line.get("agentId"))
        if agent is None:
            parent = self._nodes.get(text(line.get("parentUuid")) or "")
            if parent is not None:
                return self._thread(parent[0]) if parent[0].get("isSidechain") else session
            agent = text(line.get("uuid"))
        return f"{session}/agent-{agent}"

    def _add_reply(self, line: JsonObject, number: int, parent: str | None) -> None:
        message = mapping(line.get("message"))
        key = self._key(line, number)
        if message.get("model") == "<synthetic>" and not line.get("isApiErrorMessage"):
            return
        if key in self._replies:
            self._replies[key].add(line)
        elif key not in self._seen:
            self._replies[key] = _Reply(line, number, parent)
            self._replies[key].add(line)
            self._order.append(self._replies[key])

    def _key(self, line: JsonObject, number: int) -> str:
        named = text(mapping(line.get("message")).get("id")) or text(line.get("requestId"))
        return f"{self._path}:{number}" if named is None else f"{named} {text(line.get('requestId'))}"

    def rows(self, unreadable: UnreadableParts) -> Iterator[Row]:
        """The rows in the order of the file; an event is at the turn that comes next in its session."""
        waiting: dict[str, list[EventRow]] = {}
        for each in self._order:
            if not isinstance(each, _Reply):
                waiting.setdefault(each[0], []).append(each[1])
                continue
            try:
                row = self._turn(each)
            except ValueError as error:
                unreadable.add(f"{self._path.name}:{each.number}", str(error))
                continue
            for event in waiting.pop(row.session_id, []):
                yield msgspec.structs.replace(event, turn=row.turn)
            yield row
        for left in waiting.values():
            yield from left
        self._seen.update(self._replies)

    def _turn(self, reply: _Reply) -> TurnRow:
        message = mapping(reply.last.get("message"))
        session = self._thread(reply.first)
        failed = bool(reply.first.get("isApiErrorMessage"))
        self._turns[session] = self._turns.get(session, 0) + 1
        return TurnRow(
            session_id=session,
            turn=self._turns[session],
            turn_id=text(reply.first.get("uuid")),
            base_model=None if failed else text(message.get("model")),
            api="import:claude-code",
            client="claude-code",
            started_at=self._written(reply.parent),
            finished_at=when(reply.last.get("timestamp")),
            finish_reason="error" if failed else finish(message.get("stop_reason")),
            complete=False if failed else None,
            request={"messages": self._prompt(reply)},
            response=assistant_message(reply.parts),
            place=f"{short(self._path)}:{reply.number}",
            **usage_fields(mapping(message.get("usage"))),
        )

    def _written(self, uuid: str | None) -> datetime | None:
        """When the message that a reply answers was written: about when the call began."""
        node = None if uuid is None else self._nodes.get(uuid)
        return None if node is None else when(node[0].get("timestamp"))

    def _prompt(self, reply: _Reply) -> list[dict[str, Json]]:
        """What the model was sent after its system prompt: the path from the root, results at the calls they are of."""
        path: list[tuple[str, JsonObject]] = []
        uuid, passed = reply.parent, set[str]()
        while uuid is not None and uuid in self._nodes and uuid not in passed:
            passed.add(uuid)
            line, above = self._nodes[uuid]
            path.append((uuid, line))
            uuid = above
        messages: list[dict[str, Json]] = []
        given: set[str] = set()
        for _, line in reversed(path):
            if line.get("type") == "user":
                parts = blocks(mapping(line.get("message")).get("content"))
                messages += user_messages([each for each in parts if each.get("tool_use_id") not in given])
            elif line.get("type") == "assistant":
                messages += self._earlier(line, given)
        return messages

    def _earlier(self, line: JsonObject, given: set[str]) -> Iterator[dict[str, Json]]:
        """An earlier reply, once, and the results of its tools, which may stand beside the path in the tree."""
        named = text(mapping(line.get("message")).get("id")) or text(line.get("requestId"))
        reply = None if named is None else self._replies.get(f"{named} {text(line.get('requestId'))}")
        parts = blocks(mapping(line.get("message")).get("content")) if reply is None else reply.parts
        if reply is not None and named is not None:
            if f"reply {named}" in given:
                return
            given.add(f"reply {named}")
        yield assistant_message(parts)
        for part in parts:
            called = part.get("id")
            if part.get("type") == "tool_use" and isinstance(called, str) and called in self._results:
                given.add(called)
                yield from user_messages([self._results[called]])


def _compacts(line: JsonObject) -> bool:
    return line.get("subtype") == "compact_boundary" or bool(line.get("isCompactSummary"))


def _compaction(line: JsonObject, thread: str) -> EventRow:
    detail = mapping(line.get("compactMetadata"))
    return EventRow(kind="compaction", at=when(line.get("timestamp")), session_id=thread, detail=detail or None)


_NO_IDS = "Claude Code's sessions are text; put roundhouse collect in front of the model to record exact tokens"

CLAUDE_CODE = Format(
    name="claude-code",
    about="Claude Code session files (~/.claude/projects/**/*.jsonl): messages, usage, compactions",
    recognise=recognise,
    read=read,
    units=units,
    advice={
        **dict.fromkeys(("turns.prompt_ids", "turns.completion_ids", "turns.sampled_logprobs"), _NO_IDS),
        "turns.finish_reason": "Claude Code's older sessions leave stop_reason null; newer ones state it",
        "turns.reward": "Claude Code records no reward; roundhouse feedback or collect adds it",
        "turns.weight_versions": "Claude Code records the model's name, not the version of its weights",
    },
)
