"""Logged prompts compared with the chat template's rendering of their requests, each by what is new in it."""

from collections import Counter
from datetime import datetime
from typing import Any, ClassVar, cast

import msgspec
import polars as pl

from checks.finding import EVIDENCE_LIMIT
from checks.log import Batch
from checks.measure import Tools
from checks.measures.known_turns import KnownTurns, Past
from checks.measures.separators import classify
from checks.measures.template_comparison import TemplateComparison
from checks.ragged import Array, ragged
from collector.conversation import reasoning_of
from collector.records import ChatRequest

FAULT = pl.Struct(
    {
        "session_id": pl.String,
        "turn": pl.Int64,
        "token_index": pl.Int64,
        "kind": pl.String,
        "template_id": pl.Int64,
        "logged_id": pl.Int64,
        "tokens_missing": pl.Int64,
        "template_text": pl.String,
        "logged_text": pl.String,
    }
)
"""A prompt that is not what the template makes of its request."""
COUNTS = (
    *("prompts", "requests", "not_read", "not_text"),
    *("same", "differs", "dated", "unknown", "not_rendered"),
    "faults_found",
)
"""`prompts` and `requests` that the log holds, requests that are not of chat form or hold images and the like, and
what came of comparing the rest."""
SCHEMA: dict[str, Any] = {  # Any: polars' types are classes and instances
    **dict.fromkeys(COUNTS, pl.Int64),
    "has_template": pl.Boolean,
    "has_bos": pl.Boolean,
    "faults": pl.List(FAULT),
}
"""One row."""
_SHOWN_TOKENS = 12


class TemplatePrompts:
    """Every prompt once, in the order of its session's turns."""

    name: ClassVar[str] = "template_prompts"
    turn_columns: ClassVar[tuple[str, ...]] = ("prompt_ids", "completion_ids", "request", "response", "started_at")
    score_columns: ClassVar[tuple[str, ...]] = ()
    needs_tokenizer: ClassVar[bool] = True

    def __init__(self, tools: Tools) -> None:
        assert tools.tokenizer is not None, "needs_tokenizer"
        self._tokenizer = tools.tokenizer
        self._comparison = TemplateComparison(tools.renderer) if tools.renderer is not None else None
        bos = tools.tokenizer.names.get("bos_token")
        self._bos = None if bos is None else tools.tokenizer.backend.token_to_id(bos)
        self._known = KnownTurns()
        self._counts: Counter[str] = Counter(dict.fromkeys(COUNTS, 0))
        self._faults: list[dict[str, Any]] = []

    def add(self, batch: Batch) -> None:
        """Compares the prompts of a batch."""
        turns = batch.turns.filter(pl.col("prompt_ids").is_not_null()).sort("session_id", "turn", maintain_order=True)
        if turns.is_empty():
            return
        prompts, completions = ragged(turns["prompt_ids"]), ragged(turns["completion_ids"])
        for number, row in enumerate(turns.select("session_id", "turn", "request", "response", "started_at").rows()):
            completion = completions.row(number) if completions.valid[number] else None
            self._add_turn(row, prompts.row(number), completion)

    def again(self) -> tuple[str, ...]:
        """Nothing."""
        return ()

    def add_again(self, batch: Batch) -> None:
        """Never asked for."""

    def frame(self) -> pl.DataFrame:
        """One row, columns of `SCHEMA`."""
        has = {"has_template": self._comparison is not None, "has_bos": self._bos is not None}
        return pl.DataFrame({**self._counts, **has, "faults": [self._faults]}, schema=SCHEMA)

    # Any: polars gives rows so.
    def _add_turn(self, row: tuple[Any, ...], prompt: Array, completion: Array | None) -> None:
        session_id, turn, request, response, started_at = row
        self._counts["prompts"] += 1
        chat = self._read(request)
        past = self._known.past(session_id, turn, prompt)
        ids: list[int] = prompt.tolist()
        doubled = self._doubled_bos(ids)
        if doubled and past.parent is None:
            self._keep(session_id, turn, 1, "duplicate_bos", ids, ids[doubled:], tokens_missing=0)
        if chat is not None and self._comparison is not None:
            self._compare(session_id, turn, ids, doubled, chat, past, started_at)
        if completion is not None:
            count, variables = (None, None) if chat is None else (len(chat.messages), chat.chat_template_kwargs)
            self._known.add(session_id, prompt, completion, count, variables, _thinking(response))

    def _compare(
        self,
        session_id: str,
        turn: int,
        ids: list[int],
        doubled: int,
        chat: ChatRequest,
        past: Past,
        at: datetime | None,
    ) -> None:
        assert self._comparison is not None
        # A prompt that begins anew is compared without its doubled BOS: that is a fault of its own.
        dropped = doubled if past.parent is None else 0
        found = self._comparison.compare(ids[dropped:], chat, past, at)
        self._counts[found.outcome] += 1
        if found.outcome == "differs":
            place = dropped + found.place
            kind, missing = classify(self._tokenizer, found.expected, ids[place:])
            # Nothing stands before the first token: what is missing there is BOS, or the beginning.
            self._keep(
                session_id, turn, place, kind if place else "other", ids, list(found.expected), tokens_missing=missing
            )

    def _doubled_bos(self, ids: list[int]) -> int:
        """How many BOS too many the prompt begins with."""
        if self._bos is None or len(ids) < 2:
            return 0
        count = next((n for n, each in enumerate(ids) if each != self._bos), len(ids))
        return max(0, count - 1)

    def _read(self, request: str | None) -> ChatRequest | None:
        if request is None:
            return None
        try:
            chat = msgspec.json.decode(request, type=_Request)
        except msgspec.DecodeError:
            self._counts["not_read"] += 1
            return None
        if not chat.messages:
            return None
        self._counts["requests"] += 1
        if any(_holds_more_than_text(message) for message in chat.messages):
            self._counts["not_text"] += 1
            return None
        return ChatRequest(
            messages=chat.messages, tools=chat.tools or None, chat_template_kwargs=chat.chat_template_kwargs
        )

    def _keep(
        self,
        session_id: str,
        turn: int,
        place: int,
        kind: str,
        ids: list[int],
        expected: list[int],
        *,
        tokens_missing: int,
    ) -> None:
        self._counts["faults_found"] += 1
        if len(self._faults) >= EVIDENCE_LIMIT:
            return
        logged = ids[place : place + _SHOWN_TOKENS]
        self._faults.append(
            {
                "session_id": session_id,
                "turn": turn,
                "token_index": place,
                "kind": kind,
                "template_id": expected[0] if expected else None,
                "logged_id": logged[0] if logged else None,
                "tokens_missing": tokens_missing,
                "template_text": self._tokenizer.decode(expected[:_SHOWN_TOKENS]),
                "logged_text": self._tokenizer.decode(logged) if min(logged, default=0) >= 0 else str(logged),
            }
        )


class _Request(msgspec.Struct, frozen=True):
    """A request in chat form, whatever else it holds."""

    messages: list[dict[str, object]] = []
    tools: list[dict[str, object]] | None = None
    chat_template_kwargs: dict[str, object] | None = None


def _holds_more_than_text(message: dict[str, object]) -> bool:
    """Whether a processor, not the template, decides on some of its tokens."""
    content = message.get("content")
    if not isinstance(content, list):
        return False
    parts = cast(list[object], content)
    kinds = {cast(dict[str, object], part).get("type") for part in parts if isinstance(part, dict)}
    return not kinds <= {"text", "input_text", "output_text"}


def _thinking(response: str | None) -> str | None:
    if response is None:
        return None
    try:
        message = msgspec.json.decode(response, type=dict[str, object])
    except msgspec.DecodeError:
        return None
    return reasoning_of(message)
