"""`POST /v1/feedback` and `POST /v1/events`: what clients say of turns and sessions, durable before it is accepted."""

import asyncio
import hashlib
import hmac
import math
from collections import OrderedDict
from datetime import UTC, datetime
from typing import Literal

import msgspec
from uuid_utils import uuid7

from collector.caller import Caller
from collector.errors import StoreError
from collector.metrics import Metrics
from collector.ports import Journal, Past, Receipt
from collector.receipts import Receipts
from collector.records import Event, Feedback, FeedbackKind
from collector.refusal import Refusal
from collector.session_index import SessionIndex
from collector.shapes.reading import read_body

_KEPT = 100_000
_MOST_IN_A_BATCH = 1_000


class _Judgement(msgspec.Struct):
    """One judgement as posted; unknown fields are tolerated."""

    kind: FeedbackKind
    value: float | bool | None = None
    text: str | None = None
    response_id: str | None = None
    turn_id: str | None = None
    session_id: str | None = None
    turn: int | None = None
    source: str | None = None
    user: str | None = None
    feedback_id: str | None = None
    supersedes: str | None = None


class _Batch(msgspec.Struct):
    feedback: list[_Judgement]


class _Declaration(msgspec.Struct):
    kind: Literal["compaction", "subagent"]
    session_id: str
    turn: int
    text: str | None = None


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """What the client gets for one judgement."""

    feedback_id: str
    """As the client named it, or as it was named for it."""
    turn_id: str | None
    session_id: str
    duplicate: bool
    """Whether the same judgement had been stored before; it counts once."""


class FeedbackDesk:
    """Accepts judgements and declarations of a tenant about what is its own."""

    def __init__(
        self,
        *,
        journal: Journal,
        past: Past,
        receipts: Receipts,
        sessions: SessionIndex,
        metrics: Metrics,
        user_key: bytes,
    ) -> None:
        self._journal = journal
        self._past = past
        self._receipts = receipts
        self._sessions = sessions
        self._metrics = metrics
        self._user_key = user_key
        self._seen: OrderedDict[str, asyncio.Task[Feedback]] = OrderedDict()

    async def accept(self, body: bytes, caller: Caller) -> bytes:
        """Stores one judgement, a list of them, or `{"feedback": [...]}`; the JSON answer."""
        posted = _read(body)
        accepted = [await self._accept(judgement, caller) for judgement in posted.feedback]
        return msgspec.json.encode(accepted[0] if posted.single else {"feedback": accepted})

    async def declare(self, body: bytes, caller: Caller) -> bytes:
        """Stores what a client says a turn is; it wins over what was believed at capture."""
        said = read_body(body, _Declaration)
        session_id = caller.stored_name(said.session_id)
        session = await self._sessions.known(caller.tenant, session_id)
        if session is None:
            raise Refusal.not_found(f"session {said.session_id[:80]!r} is not known to this tenant", code="not_found")
        if said.turn < 1:
            raise Refusal.invalid(f"turn is {said.turn}, expected 1 or more", param="turn")
        await self._append(
            Event(
                at=datetime.now(UTC),
                kind=said.kind,
                session_id=session_id,
                turn=said.turn,
                actor=caller.tenant,
                text=said.text,
            ),
            "events",
        )
        session.declared[said.turn] = said.kind
        return msgspec.json.encode({"kind": said.kind, "session_id": session_id, "turn": said.turn})

    async def _accept(self, judgement: _Judgement, caller: Caller) -> Accepted:
        _check(judgement)
        receipt, session_id = await self._target(judgement, caller)
        named = judgement.feedback_id or f"fb-{uuid7()}"
        feedback = Feedback(
            feedback_id=caller.stored_name(named),
            tenant=caller.tenant,
            turn_id=receipt.turn_id if receipt is not None else None,
            session_id=session_id,
            kind=judgement.kind,
            value=None if judgement.value is None else float(judgement.value),
            text=judgement.text,
            source=judgement.source,
            user_hash=self._user_hash(judgement.user, caller.tenant),
            at=datetime.now(UTC),
            supersedes=None if judgement.supersedes is None else caller.stored_name(judgement.supersedes),
        )
        known_before = receipt is None or not self._receipts.is_recent(receipt.turn_id)
        stored = await self._store_once(feedback, look_back=judgement.feedback_id is not None and known_before)
        if _meaning(stored) != _meaning(feedback):
            raise Refusal(
                f"feedback_id {named[:80]!r} was used for another judgement; post a new id that supersedes it",
                status=409,
                kind="invalid_request_error",
                code="feedback_id_reused",
                param="feedback_id",
            )
        return Accepted(
            feedback_id=named,
            turn_id=feedback.turn_id,
            session_id=session_id,
            duplicate=stored is not feedback,
        )

    async def _target(self, judgement: _Judgement, caller: Caller) -> tuple[Receipt | None, str]:
        """The judged turn, or none when it is the session, and the session."""
        response = judgement.response_id or judgement.turn_id
        if response is not None:
            receipt = await self._receipts.of_response(caller.tenant, response)
            return receipt, receipt.session_id
        assert judgement.session_id is not None
        session_id = caller.stored_name(judgement.session_id)
        if judgement.turn is not None:
            return await self._receipts.of_place(caller.tenant, session_id, judgement.turn), session_id
        if await self._sessions.known(caller.tenant, session_id) is None:
            raise Refusal.not_found(
                f"session {judgement.session_id[:80]!r} is not known to this tenant", code="not_found"
            )
        return None, session_id

    async def _store_once(self, feedback: Feedback, *, look_back: bool) -> Feedback:
        """The judgement stored under this id: this one, or the one that was there before."""
        task = self._seen.get(feedback.feedback_id)
        if task is None:
            task = asyncio.create_task(self._store(feedback, look_back))
            self._seen[feedback.feedback_id] = task
            if len(self._seen) > _KEPT:
                self._seen.popitem(last=False)
        try:
            return await asyncio.shield(task)
        except Refusal:
            self._seen.pop(feedback.feedback_id, None)
            raise

    async def _store(self, feedback: Feedback, look_back: bool) -> Feedback:
        if look_back:
            about = {"turn_id": feedback.turn_id} if feedback.turn_id else {"session_id": feedback.session_id}
            stored = await asyncio.to_thread(
                self._past.feedback, turn_id=about.get("turn_id"), session_id=about.get("session_id")
            )
            for before in stored:
                if before.feedback_id == feedback.feedback_id:
                    return before
        await self._append(feedback, "feedback")
        self._metrics.feedback.labels(feedback.kind).inc()
        return feedback

    async def _append(self, record: Feedback | Event, table: str) -> None:
        try:
            await asyncio.wrap_future(self._journal.append(record))
        except StoreError as error:
            self._metrics.unrecorded.labels(table).inc()
            raise Refusal.busy(f"it could not be stored: {error}; send it again later", code="not_recorded") from error

    def _user_hash(self, user: str | None, tenant: str) -> str | None:
        if user is None:
            return None
        return hmac.new(self._user_key, f"{tenant}\n{user}".encode(), hashlib.sha256).hexdigest()


class _Posted(msgspec.Struct):
    feedback: list[_Judgement]
    single: bool


def _read(body: bytes) -> _Posted:
    start = body.lstrip()[:1]
    if start == b"[":
        batch = read_body(body, list[_Judgement])
    else:
        fields = read_body(body, dict[str, msgspec.Raw])
        if "feedback" not in fields:
            return _Posted([read_body(body, _Judgement)], single=True)
        batch = read_body(body, _Batch).feedback
    if len(batch) > _MOST_IN_A_BATCH:
        raise Refusal.invalid(f"{len(batch)} judgements in one request, expected at most {_MOST_IN_A_BATCH}")
    return _Posted(batch, single=False)


def _check(judgement: _Judgement) -> None:
    named = [judgement.response_id, judgement.turn_id, judgement.session_id]
    if sum(name is not None for name in named) != 1:
        raise Refusal.invalid(
            "expected exactly one of response_id, turn_id and session_id (with turn for one of its turns)",
            param="response_id",
        )
    if judgement.turn is not None and judgement.session_id is None:
        raise Refusal.invalid("turn goes with session_id", param="turn")
    if judgement.value is not None and not math.isfinite(judgement.value):
        raise Refusal.invalid(f"value is {judgement.value}, expected a finite number", param="value")
    if judgement.value is None and judgement.text is None:
        raise Refusal.invalid("expected a value, a text or both", param="value")
    for name in ("feedback_id", "supersedes"):
        text = getattr(judgement, name)
        if text is not None and not 1 <= len(text) <= 256:
            raise Refusal.invalid(f"{name} has {len(text)} characters, expected 1 to 256", param=name)


def _meaning(feedback: Feedback) -> Feedback:
    return msgspec.structs.replace(feedback, at=datetime.min.replace(tzinfo=UTC))
