"""What earlier processes stored, read back when a session goes on or late feedback comes in."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
# (pyarrow carries no types)

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, get_args

import msgspec
import polars as pl

from collector.ports import DeclaredKind, PastAttempt, PastTurn, Receipt
from collector.records import ChatRequest, Feedback
from collector.store.reader import Reader
from collector.workers.placements import PLACED, placed_worker

_RECEIPT = ["turn_id", "session_id", "turn", "tenant"]
_TURN = [*_RECEIPT, "prompt_ids", "completion_ids", "request", "response", "untrainable_reason"]


_ATTEMPT = ["turn_id", "session_id", "tenant", "api", "request", "started_at", "complete", "trainable"]


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

    def attempts(self, since: datetime) -> list[PastAttempt]:
        """The turns by messages that began at a time or later; one whose messages are lost can be nobody's twin."""
        with self._reader.snapshot(["turns"]) as snapshot:
            began = snapshot.frame("turns", columns=["writer", "seq", "started_at"])
            recent = began.filter(pl.col("started_at") >= since)
            if recent.is_empty():
                return []
            first = dict(recent.group_by("writer").agg(pl.col("seq").min()).rows())
            beyond = {writer: 2**62 for writer in began["writer"].unique() if writer not in first}
            batches = snapshot.batches("turns", columns=_ATTEMPT, since=first | beyond)
            rows = [row for batch in batches for row in batch.to_pylist()]
        return [_past_attempt(row) for row in rows if row["request"] is not None and row["started_at"] >= since]

    def declared(self, tenant: str, session_id: str) -> list[tuple[int, DeclaredKind]]:
        """What a tenant declared of the session's turns, the last declaration last."""
        columns = ["at", "kind", "turn", "actor"]
        with self._reader.snapshot(["events"]) as snapshot:
            frame = snapshot.frame("events", session_id=session_id, columns=columns)
        said = frame.filter(pl.col("kind").is_in(get_args(DeclaredKind)), actor=tenant)
        return said.sort("at", maintain_order=True).select("turn", "kind").rows()

    def placed(self, session_id: str) -> dict[int, str]:
        """Turn to the engine worker that serves the session's turns from then on, as the last event says."""
        columns = ["at", "kind", "turn", "detail"]
        with self._reader.snapshot(["events"]) as snapshot:
            frame = snapshot.frame("events", session_id=session_id, columns=columns)
        told = frame.filter(kind=PLACED).sort("at", maintain_order=True).select("turn", "detail").rows()
        return {turn: worker for turn, text in told if (worker := placed_worker(_json(text))) is not None}

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


def _past_attempt(row: Mapping[str, Any]) -> PastAttempt:
    values = {name: row[name] for name in _ATTEMPT if name != "request"}
    return PastAttempt(**values, chat=msgspec.convert(_json(row["request"]), ChatRequest))


def _json(value: Any) -> Any:  # Any: a JSON column
    return msgspec.json.decode(value) if isinstance(value, str | bytes) else value
