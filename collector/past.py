"""What earlier processes stored, read back when a session goes on or late feedback comes in."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import msgspec
import polars as pl

from collector.ports import DeclaredKind, PastTurn, Receipt
from collector.records import ChatRequest, Feedback
from collector.store.reader import Reader

_RECEIPT = ["turn_id", "session_id", "turn", "tenant"]
_TURN = [*_RECEIPT, "prompt_ids", "completion_ids", "request", "response", "untrainable_reason"]


class StoredPast:
    """Reads a store through fresh snapshots; holds nothing open."""

    def __init__(self, store: Path) -> None:
        self._reader = Reader(store)

    def session_ids(self) -> list[str]:
        """Every session that has turns, the most recently active last."""
        with self._reader.snapshot(["turns"]) as snapshot:
            frame = snapshot.frame("turns", columns=["session_id", "started_at"])
        return frame.group_by("session_id").max().sort("started_at", "session_id")["session_id"].to_list()

    def session_turns(self, session_id: str) -> list[PastTurn]:
        """The turns of a session, whole."""
        with self._reader.snapshot(["turns"]) as snapshot:
            frame = snapshot.frame("turns", session_id=session_id, columns=_TURN)
        return [_past_turn(row) for row in frame.iter_rows(named=True)]

    def declared(self, tenant: str, session_id: str) -> list[tuple[int, DeclaredKind]]:
        """What a tenant declared of the session's turns, the last declaration last."""
        columns = ["at", "kind", "turn", "actor"]
        with self._reader.snapshot(["events"]) as snapshot:
            frame = snapshot.frame("events", session_id=session_id, columns=columns)
        said = frame.filter(pl.col("kind").is_in(get_args(DeclaredKind)), actor=tenant)
        return said.sort("at", maintain_order=True).select("turn", "kind").rows()

    def receipts(self, *, turn_id: str | None = None, session_id: str | None = None) -> list[Receipt]:
        """Whose turns these are."""
        with self._reader.snapshot(["turns"]) as snapshot:
            frame = snapshot.frame("turns", turn_id=turn_id, session_id=session_id, columns=_RECEIPT)
        return [Receipt(**row) for row in frame.iter_rows(named=True)]

    def feedback_ids(self) -> list[tuple[str, str]]:
        """Tenant and feedback_id of all feedback."""
        with self._reader.snapshot(["feedback"]) as snapshot:
            return snapshot.frame("feedback", columns=["tenant", "feedback_id"]).rows()

    def feedback(self, tenant: str, feedback_id: str) -> list[Feedback]:
        """The feedback of a tenant under an id, the first one stored first."""
        with self._reader.snapshot(["feedback"]) as snapshot:
            frame = snapshot.frame("feedback", columns=list(Feedback.__struct_fields__))
        found = frame.filter(tenant=tenant, feedback_id=feedback_id)
        return [msgspec.convert(row, Feedback, strict=False) for row in found.iter_rows(named=True)]


def _past_turn(row: Mapping[str, Any]) -> PastTurn:
    request, response = _json(row["request"]), _json(row["response"])
    return PastTurn(
        **{name: row[name] for name in _RECEIPT},
        prompt_ids=row["prompt_ids"],
        completion_ids=row["completion_ids"],
        chat=None if request is None else msgspec.convert(request, ChatRequest),
        reply=response if response is not None and response.get("role") == "assistant" else None,
        untrainable_reason=row["untrainable_reason"],
    )


def _json(value: Any) -> Any:  # Any: a JSON column
    return msgspec.json.decode(value) if isinstance(value, str | bytes) else value
