"""The native log in one file: a record per line, `"record": "turn"` unless it says otherwise."""

from collections.abc import Iterator
from typing import Any

import msgspec

from checks.readers.file_head import FileHead
from checks.readers.format import Format, Unit
from checks.readers.lines import json_objects
from checks.readers.unreadable import UnreadableParts
from checks.rows import EvalRow, EventRow, FeedbackRow, RewardRow, Row, RunRow, SpanRow, StepRow, TurnRow, VersionRow

_RECORDS: dict[str, type[Row]] = {
    "turn": TurnRow,
    "step": StepRow,
    "eval": EvalRow,
    "span": SpanRow,
    "reward": RewardRow,
    "feedback": FeedbackRow,
    "event": EventRow,
    "version": VersionRow,
    "run": RunRow,
}


def recognise(head: FileHead) -> str | None:
    """By the required fields of a turn, or by the word `record`."""
    if {"session_id", "prompt_ids", "completion_ids"} <= head.keys:
        return "lines with session_id, prompt_ids and completion_ids"
    value = head.first_json
    if isinstance(value, dict) and value.get("record") in _RECORDS:  # pyright: ignore[reportUnknownMemberType]
        return f'lines with "record": "{value["record"]}"'
    return None


def read(unit: Unit, unreadable: UnreadableParts) -> Iterator[Row]:
    """The rows of one file, in its order."""
    for path in unit:
        for number, line in json_objects(path, unreadable):
            kind = _RECORDS.get(line.get("record", "turn"))
            if kind is None:
                continue
            try:
                yield _row(kind, line, f"{path.name}:{number}")
            except msgspec.ValidationError as error:
                unreadable.add(f"{path.name}:{number}", str(error))


# Any: a JSON object before it is converted.
def _row(kind: type[Row], line: dict[str, Any], place: str) -> Row:
    fields = {("from_" if name == "from" else name): value for name, value in line.items()}
    return msgspec.convert(fields | {"place": place} if kind is TurnRow else fields, kind, strict=False)


NATIVE_JSON = Format(name="native", about="Roundhouse's own log as lines of JSON", recognise=recognise, read=read)
