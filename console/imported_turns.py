"""Turns of logs that did not pass the collector, as text-only records: a call has the same id at every import."""

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, get_args
from uuid import NAMESPACE_URL, uuid5

import msgspec

from checks.readers.open_log import open_log
from collector.errors import UserError
from collector.records import ChatRequest, FinishReason, Turn

FORMATS = ("claude-code", "codex", "otel")
"""What can be imported, as the readers call it."""

NO_TOKENS = "no_tokens"
"""Why an imported turn is not trainable."""

_COLUMNS = (
    "session_id", "turn", "turn_id", "task_id", "group_id", "base_model", "client", "started_at", "first_token_at",
    "finished_at", "temperature", "top_p", "top_k", "max_tokens", "finish_reason", "cached_tokens", "complete",
    "request", "response", "api", "place",
)  # fmt: skip
_KEPT = (
    "task_id", "group_id", "base_model", "client", "first_token_at", "finished_at", "temperature", "top_p", "top_k",
    "max_tokens", "cached_tokens",
)  # fmt: skip


class Found(NamedTuple):
    """What a log holds, and what of it can be imported."""

    format: str
    turns: list[Turn]
    skipped: Counter[str]
    """Why others cannot, and how many."""


def imported_turns(path: Path, *, tenant: str, reads: str | None = None) -> Found:
    """The turns of a log, as records of a tenant."""
    log = open_log(path, reads=reads)
    made: dict[str, Turn] = {}
    skipped: Counter[str] = Counter()
    formats: Counter[str] = Counter()
    for row in _rows(log.batches(_COLUMNS)):
        form = str(row.get("api") or "").removeprefix("import:")
        if form not in FORMATS:
            raise UserError(
                f"{path}: turns of {form or 'no known format'}, expected those of {', '.join(FORMATS)}; "
                "roundhouse check reads other logs as they are"
            )
        formats[form] += 1
        turn = _turn(row, form, tenant)
        if isinstance(turn, str):
            skipped[turn] += 1
        elif made.setdefault(turn.turn_id, turn) is not turn:
            skipped["the same call again in these files"] += 1
    for part in log.source().unreadable_first:
        skipped[f"unreadable, as at {part.place}: {part.reason}"] += 1
    return Found(" and ".join(formats) or "nothing", list(made.values()), skipped)


def _rows(batches: Iterator[Any]) -> Iterator[dict[str, Any]]:  # Any: rows of a frame
    for batch in batches:
        yield from batch.turns.iter_rows(named=True)


def _turn(row: Mapping[str, Any], form: str, tenant: str) -> Turn | str:
    """The record; a text says why there is none."""
    request, response = _json(row.get("request")), _json(row.get("response"))
    if request is None and response is None:
        return "neither request nor reply is in the log"
    started = row.get("started_at") or row.get("finished_at")
    if started is None:
        return "the log does not say when the call was made"
    session = f"{tenant}/import-{form}/{row['session_id']}"
    # By what the source calls the call, else by its place in the session: the same at every import.
    named = row.get("turn_id") or row["turn"]
    reason = row.get("finish_reason")
    try:
        return Turn(
            turn_id=str(uuid5(NAMESPACE_URL, f"roundhouse:{session}/{named}")),
            session_id=session,
            turn=row["turn"],
            tenant=tenant,
            api=f"import:{form}",
            started_at=_utc(started),
            prompt_ids=[],
            completion_ids=[],
            sampled_logprobs=[],
            weight_versions=[],
            finish_reason=reason if reason in get_args(FinishReason) else None,
            complete=row.get("complete") is not False,
            trainable=False,
            untrainable_reason=NO_TOKENS,
            request=None if request is None else msgspec.convert(request, ChatRequest),
            response=response,
            **{name: _value(row.get(name)) for name in _KEPT},
        )
    except msgspec.ValidationError as error:
        return f"its request is not in chat form: {error}"


def new_turns(turns: Sequence[Turn], known: Collection[str]) -> list[Turn]:
    """Those that the store does not hold yet."""
    return [turn for turn in turns if turn.turn_id not in known]


def _value(value: object) -> Any:  # Any: the value of a column, of the type its field has
    return _utc(value) if isinstance(value, datetime) else value


def _utc(at: datetime) -> datetime:
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)


def _json(value: object) -> Any:  # Any: a JSON column
    return json.loads(value) if isinstance(value, str) else value
