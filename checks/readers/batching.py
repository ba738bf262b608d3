"""Rows of readers gathered into the frames that checks read, a bounded number of tokens at a time."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownParameterType=false
# (pyarrow carries no types)

from collections.abc import Sequence
from functools import cache
from typing import Any

import msgspec
import polars as pl
import pyarrow as pa

from checks.bounded import bounded
from checks.columns import SCHEMAS, TABLES
from checks.readers.unreadable import UnreadableParts
from checks.rows import Row, TurnRow

BATCH_TOKENS = 2_000_000
"""Prompt and completion tokens of one batch, more only where one turn has more."""
BATCH_TURNS = 50_000
_TEXT_BYTES_PER_TOKEN = 4
_NOT_HELD = (OverflowError, TypeError, UnicodeError, RecursionError, pa.ArrowInvalid, pl.exceptions.PolarsError)
"""What Polars and Arrow raise on a value that its column cannot hold, such as an id beyond int32."""
_TABLE_OF = {row: name for name, row in TABLES.items()}


class TurnGatherer:
    """Numbers turns within their session where the log does not, and gives frames of bounded size."""

    def __init__(self, unreadable: UnreadableParts, *, batch_tokens: int = BATCH_TOKENS) -> None:
        self._unreadable = unreadable
        self._batch_tokens = batch_tokens
        self._rows: list[TurnRow] = []
        self._tokens = 0
        self._last_turn: dict[str, int] = {}

    def add(self, row: TurnRow) -> pl.DataFrame | None:
        """Takes a turn; a frame when enough were gathered."""
        number = row.turn if row.turn is not None else self._last_turn.get(row.session_id, 0) + 1
        self._last_turn[row.session_id] = number
        self._rows.append(row if row.turn is not None else msgspec.structs.replace(row, turn=number))
        self._tokens += _weight(row)
        if self._tokens >= self._batch_tokens or len(self._rows) >= BATCH_TURNS:
            return self.rest()
        return None

    def rest(self) -> pl.DataFrame | None:
        """What is left."""
        rows, self._rows, self._tokens = self._rows, [], 0
        return readable_frame(rows, "turns", self._unreadable) if rows else None


def _weight(row: TurnRow) -> int:
    """Tokens of a turn; where it has none, about as many as its text would be."""
    if row.prompt_ids is not None or row.completion_ids is not None:
        return len(row.prompt_ids or ()) + len(row.completion_ids or ())
    held = (row.request, row.response, row.prompt_text, row.completion_text)
    return sum(len(msgspec.json.encode(each)) for each in held if each is not None) // _TEXT_BYTES_PER_TOKEN


def frame_of(rows: Sequence[Row], table: str) -> pl.DataFrame:
    """Rows of one table as a frame."""
    fields = TABLES[table].__struct_fields__
    columns: dict[str, Any] = {name.rstrip("_"): [getattr(row, name) for row in rows] for name in fields}
    for name in ("request", "response", "detail"):
        if name in columns:
            columns[name] = [None if v is None else msgspec.json.encode(v).decode() for v in columns[name]]
    if "weight_versions" in columns:
        # Polars makes a frame of every list of structs; Arrow all lists at once.
        spans = [_spans(spans) for spans in columns["weight_versions"]]
        scores = [msgspec.to_builtins(scores) for scores in columns["more_scores"]]
        columns["weight_versions"] = pl.Series(pa.array(spans, _arrow_type("weight_versions")))
        columns["more_scores"] = pl.Series(pa.array(scores, _arrow_type("more_scores")))
    return bounded(pl.DataFrame(columns, schema=SCHEMAS[table], strict=True))


@cache
def _arrow_type(column: str) -> pa.DataType:
    return pl.Series([], dtype=SCHEMAS["turns"][column]).to_arrow().type


def readable_frame(rows: Sequence[Row], table: str, unreadable: UnreadableParts) -> pl.DataFrame:
    """Rows of one table as a frame; a row with a number that its column cannot hold is counted and left out."""
    try:
        return frame_of(rows, table)
    except _NOT_HELD:
        frames: list[pl.DataFrame] = [frame_of((), table)]
        for row in rows:
            try:
                frames.append(frame_of([row], table))
            except _NOT_HELD as error:
                said = " ".join(str(error).split("\n")[0].split())
                unreadable.add((row.place if isinstance(row, TurnRow) else None) or table, said)
        return pl.concat(frames)


def table_of(row: Row) -> str:
    """The table a row belongs to."""
    return _TABLE_OF[type(row)]


# Any: polars takes structs as dicts.
def _spans(spans: Any) -> list[dict[str, Any]] | None:
    if spans is None:
        return None
    return [{"version": str(span.version), "start": span.start, "end": span.end} for span in spans]
