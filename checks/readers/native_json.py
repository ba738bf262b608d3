"""The native log as lines of JSON: a record per line, `"record": "turn"` unless it says otherwise.

A turn may have `messages`, `tools` and `chat_template_kwargs` standing in itself: they are its `request` where that
is missing or has no messages. `"event": "compaction"` or `"event": "subagent"` in a turn declares that of the turn,
as a record of its own would; any other `event` is passed over, like every field that no record has.
"""

from collections.abc import Iterator, Sequence
from typing import Any, cast

import msgspec

from checks.readers.file_head import FileHead
from checks.readers.format import Format, Unit
from checks.readers.lines import decode_json, lines
from checks.readers.native_advice import NATIVE_ADVICE
from checks.readers.respelled import respelled
from checks.readers.score_lines import RecordName, ScoreKey, ScoreLines
from checks.readers.unreadable import UnreadableParts
from checks.rows import EvalRow, EventRow, FeedbackRow, RewardRow, Row, RunRow, SpanRow, StepRow, TurnRow, VersionRow

_DECLARED = ("compaction", "subagent")


class TurnLine(TurnRow, frozen=True, kw_only=True):
    """A turn as a line may have it, with what belongs into its request, or into an event, standing in it."""

    messages: object = None
    tools: object = None
    chat_template_kwargs: object = None
    event: object = None

    def whole(self, place: str) -> "TurnLine":
        """The turn with its place and its request."""
        request = self.request
        if isinstance(self.messages, list) and not (request or {}).get("messages"):
            names = ("messages", "tools", "chat_template_kwargs")
            beside = {name: found for name in names if (found := getattr(self, name)) is not None}
            request = {**(request or {}), **beside}
        return msgspec.structs.replace(self, place=place, request=request)


_RECORDS: dict[str, type[Row]] = {
    "turn": TurnLine,
    "step": StepRow,
    "eval": EvalRow,
    "span": SpanRow,
    "reward": RewardRow,
    "feedback": FeedbackRow,
    "event": EventRow,
    "version": VersionRow,
    "run": RunRow,
}
_UNCHECKED = ("adapter", "route", "audit")
"""Records that an export writes too and no check reads."""
# A float that JSON cannot hold stands there as its name, which only lax decoding takes for a number.
_DECODERS = {name: msgspec.json.Decoder(kind, strict=False) for name, kind in _RECORDS.items() if name != "span"}
_RECORD = msgspec.json.Decoder(RecordName)
_SCORE_KEY = msgspec.json.Decoder(ScoreKey)


def recognise(head: FileHead) -> str | None:
    """By the required fields of a turn, or by the word `record`."""
    if {"session_id", "prompt_ids", "completion_ids"} <= head.keys:
        return "lines with session_id, prompt_ids and completion_ids"
    value = head.first_json
    named = cast(dict[str, Any], value).get("record") if isinstance(value, dict) else None
    if isinstance(named, str) and (named in _RECORDS or named in ("score", *_UNCHECKED)):
        return f'lines with "record": "{named}"'
    return None


def units(heads: Sequence[FileHead]) -> list[Unit]:
    """All of them together, since scores may lie in a file of their own."""
    return [tuple(head.path for head in heads)]


def read(unit: Unit, unreadable: UnreadableParts) -> Iterator[Row]:
    """The rows of the files, in their order; each turn with its scores, wherever those stand."""
    declared = DeclaredEvents()
    with ScoreLines(unit) as scores:
        for path in unit:
            for number, line in lines(path, unreadable):
                place = f"{path.name}:{number}"
                try:
                    row = _row(line, place)
                except (msgspec.MsgspecError, ValueError, RecursionError) as error:
                    unreadable.add(place, str(error))
                    continue
                if isinstance(row, TurnRow) and row.turn_id is not None:
                    made = list(scores.of(row.turn_id, unreadable))
                    row = msgspec.structs.replace(row, more_scores=[*(row.more_scores or ()), *made] or None)
                if row is not None:
                    yield row
                if isinstance(row, TurnLine):
                    yield from declared.of(row)
        scores.count_unmatched(unreadable)


class DeclaredEvents:
    """The events that stand in turns; turns without a number are counted, as they are where they are gathered."""

    def __init__(self) -> None:
        self._last_turn: dict[str, int] = {}

    def of(self, row: TurnLine) -> Iterator[EventRow]:
        """The event of the next turn, if it declares one."""
        turn = row.turn if row.turn is not None else self._last_turn.get(row.session_id, 0) + 1
        self._last_turn[row.session_id] = turn
        if row.event in _DECLARED:
            yield EventRow(kind=str(row.event), session_id=row.session_id, turn=turn, at=row.started_at)


def _row(line: bytes, place: str) -> Row | None:
    """The row that a line is; None for one that is no row of its own. An error says what is wrong with it."""
    try:
        name = _RECORD.decode(line).record
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _unusual_row(line, place)
    if name in _DECODERS:
        try:
            return _placed(_DECODERS[name].decode(line), place)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return _unusual_row(line, place)
    if name == "score":
        _SCORE_KEY.decode(line)
        return None
    return None if name in _UNCHECKED else _unusual_row(line, place)


def _unusual_row(line: bytes, place: str) -> Row | None:
    """A span, whose `from` Python cannot name so, a line in Python's dialect of JSON, or one spelled in another way."""
    value = decode_json(line)
    if not isinstance(value, dict):
        raise ValueError(f"a JSON {type(value).__name__}, expected an object")
    fields = cast(dict[str, Any], value)
    name = fields.get("record", "turn")
    if name == "score":
        msgspec.convert(fields, ScoreKey)
        return None
    if name in _UNCHECKED:
        return None
    kind = _RECORDS.get(name) if isinstance(name, str) else None
    if kind is None:
        expected = ", ".join((*_RECORDS, "score", *_UNCHECKED))
        raise ValueError(f'"record" is {name!r}, expected one of {expected}')
    renamed = {("from_" if key == "from" else key): each for key, each in fields.items()}
    try:
        return _placed(msgspec.convert(renamed, kind, strict=False), place)
    except msgspec.ValidationError:
        return _placed(msgspec.convert(respelled(renamed, kind), kind, strict=False), place)


def _placed(row: Row, place: str) -> Row:
    return row.whole(place) if isinstance(row, TurnLine) else row


NATIVE_JSON = Format(
    name="native",
    about="Roundhouse's own: lines of JSON, Parquet, DuckDB or a store",
    recognise=recognise,
    read=read,
    units=units,
    alone=(TurnRow, StepRow, EvalRow, SpanRow, RewardRow, FeedbackRow, EventRow, VersionRow, RunRow),
    advice=NATIVE_ADVICE,
)
