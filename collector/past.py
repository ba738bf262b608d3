"""What earlier processes stored, read back when a session goes on or late feedback comes in."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from collector.ports import PastTurn, Receipt
from collector.records import ChatRequest, Feedback
from collector.store.reader import Reader

_RECEIPT = ["turn_id", "session_id", "turn", "tenant"]
_TURN = [*_RECEIPT, "prompt_ids", "completion_ids", "request", "response"]


class StoredPast:
    """Reads a store through fresh snapshots; holds nothing open."""

    def __init__(self, store: Path) -> None:
        self._reader = Reader(store)

    def session_ids(self) -> list[str]:
        """Every session that has turns."""
        with self._reader.snapshot(["turns"]) as snapshot:
            return snapshot.frame("turns", columns=["session_id"])["session_id"].unique().to_list()

    def session_turns(self, session_id: str) -> list[PastTurn]:
        """The turns of a session, whole."""
        with self._reader.snapshot(["turns"]) as snapshot:
            frame = snapshot.frame("turns", session_id=session_id, columns=_TURN)
        return [_past_turn(row) for row in frame.iter_rows(named=True)]

    def receipts(self, *, turn_id: str | None = None, session_id: str | None = None) -> list[Receipt]:
        """Whose turns these are."""
        with self._reader.snapshot(["turns"]) as snapshot:
            frame = snapshot.frame("turns", turn_id=turn_id, session_id=session_id, columns=_RECEIPT)
        return [Receipt(**row) for row in frame.iter_rows(named=True)]

    def feedback(self, *, turn_id: str | None, session_id: str | None) -> list[Feedback]:
        """The feedback stored on a turn, or on a session as a whole."""
        columns = list(Feedback.__struct_fields__)
        with self._reader.snapshot(["feedback"]) as snapshot:
            frame = snapshot.frame("feedback", turn_id=turn_id, session_id=session_id, columns=columns)
        rows = [msgspec.convert(row, Feedback, strict=False) for row in frame.iter_rows(named=True)]
        return [row for row in rows if turn_id is not None or row.turn_id is None]


def _past_turn(row: Mapping[str, Any]) -> PastTurn:
    request, response = _json(row["request"]), _json(row["response"])
    return PastTurn(
        **{name: row[name] for name in _RECEIPT},
        prompt_ids=row["prompt_ids"],
        completion_ids=row["completion_ids"],
        chat=None if request is None else msgspec.convert(request, ChatRequest),
        reply=response if response is not None and response.get("role") == "assistant" else None,
    )


def _json(value: Any) -> Any:  # Any: a JSON column
    return msgspec.json.decode(value) if isinstance(value, str | bytes) else value
