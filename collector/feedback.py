"""`POST /v1/feedback` and `POST /v1/events`: what clients say of turns and sessions, durable before it is accepted."""

import asyncio
import math
from collections import OrderedDict
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec
from uuid_utils import uuid7

from collector.caller import Caller
from collector.errors import StoreError
from collector.feedback_ids import FeedbackIds
from collector.metrics import Metrics
from collector.ports import DeclaredKind, Journal, Past, Receipt
from collector.privacy.record_screen import RecordScreen
from collector.receipts import Receipts
from collector.records import Event, Feedback, FeedbackKind
from collector.refusal import Refusal
from collector.session_index import SessionIndex
from collector.shapes.reading import at_least, read_body
from collector.user_hash import user_hash

_KEPT = 100_000
_MOST_IN_A_BATCH = 1_000


class Judgement(msgspec.Struct):
    """One judgement, of a turn by `response_id`, `turn_id`, or `session_id` and `turn`, or of a session."""

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


class JudgementBatch(msgspec.Struct):
    """Several judgements; all of them are stored, or none."""

    feedback: list[Judgement]


class Declaration(msgspec.Struct):
    """What a turn is said to be."""

    kind: DeclaredKind
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


class AcceptedBatch(msgspec.Struct, frozen=True):
    """What the client gets for a list of judgements, in its order."""

    feedback: list[Accepted]


class Declared(msgspec.Struct, frozen=True, kw_only=True):
    """What the client gets for a declaration."""

    kind: DeclaredKind
    session_id: str
    turn: int


class _Prepared(NamedTuple):
    """A judgement that can be stored."""

    feedback: Feedback
    named: str
    """Its id in the client's words."""
    session_id: str
    look_back: bool
    """Whether the id may have been used before this process."""


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
        screen: RecordScreen,
        kept: int = _KEPT,
    ) -> None:
        """`kept` judgements are remembered whole, so that one that is sent again needs no look into the store."""
        self._journal = journal
        self._ids = FeedbackIds(past)
        self._receipts = receipts
        self._sessions = sessions
        self._metrics = metrics
        self._user_key = user_key
        self._screen = screen
        self._kept = kept
        self._seen: OrderedDict[tuple[str, str], asyncio.Task[Feedback]] = OrderedDict()

    async def accept(self, body: bytes, caller: Caller) -> bytes:
        """Stores one judgement, a list of them, or `{"feedback": [...]}`; the JSON answer."""
        posted = _read(body)
        prepared = [await self._prepare(judgement, caller) for judgement in posted.feedback]
        # All or nothing: what is wrong with any of them is found before the first is stored.
        await self._check_ids(prepared)
        accepted = [await self._accept(each) for each in prepared]
        return msgspec.json.encode(accepted[0] if posted.single else AcceptedBatch(accepted))

    async def declare(self, body: bytes, caller: Caller) -> bytes:
        """Stores what a client says a turn is; it wins over what was believed at capture."""
        said = read_body(body, Declaration)
        session_id = caller.stored_name(said.session_id)
        at_least("turn", said.turn, 1)
        async with self._sessions.holding(caller.tenant, session_id) as session:
            if session is None:
                raise Refusal.not_found(
                    f"session {said.session_id[:80]!r} is not known to this tenant", code="not_found"
                )
            event = Event(
                at=datetime.now(UTC),
                kind=said.kind,
                session_id=session_id,
                turn=said.turn,
                actor=caller.tenant,
                text=await self._screen.text(said.text),
            )
            await self._append(event, "events")
            session.declared[said.turn] = said.kind
        return msgspec.json.encode(Declared(kind=said.kind, session_id=session_id, turn=said.turn))

    async def _prepare(self, judgement: Judgement, caller: Caller) -> _Prepared:
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
            text=await self._screen.text(judgement.text),
            source=await self._screen.text(judgement.source),
            user_hash=self._user_hash(judgement.user, caller.tenant),
            at=datetime.now(UTC),
            supersedes=None if judgement.supersedes is None else caller.stored_name(judgement.supersedes),
        )
        # An id made here is nobody else's.
        return _Prepared(feedback, named, session_id, judgement.feedback_id is not None)

    async def _check_ids(self, batch: list[_Prepared]) -> None:
        """Refuses ids that were used for another judgement: twice in the batch, or before."""
        by_id: dict[str, Feedback] = {}
        for prepared in batch:
            feedback = prepared.feedback
            _check_same(by_id.setdefault(feedback.feedback_id, feedback), prepared)
            task = self._seen.get((feedback.tenant, feedback.feedback_id))
            if task is not None:
                _check_same(await asyncio.shield(task), prepared)
            elif prepared.look_back:
                before = await self._ids.stored(feedback.tenant, feedback.feedback_id)
                _check_same(before or feedback, prepared)

    async def _accept(self, prepared: _Prepared) -> Accepted:
        feedback = prepared.feedback
        stored = await self._store_once(feedback, look_back=prepared.look_back)
        _check_same(stored, prepared)
        return Accepted(
            feedback_id=prepared.named,
            turn_id=feedback.turn_id,
            session_id=prepared.session_id,
            duplicate=stored is not feedback,
        )

    async def _target(self, judgement: Judgement, caller: Caller) -> tuple[Receipt | None, str]:
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
        key = (feedback.tenant, feedback.feedback_id)
        task = self._seen.get(key)
        if task is None:
            task = asyncio.create_task(self._store(feedback, look_back))
            self._seen[key] = task
            task.add_done_callback(lambda ended: self._forget_failed(key, ended))
            self._forget_oldest()
        return await asyncio.shield(task)

    def _forget_failed(self, key: tuple[str, str], task: asyncio.Task[Feedback]) -> None:
        """What could not be stored can be sent again, whether or not its sender waited for the answer."""
        if task.cancelled() or task.exception() is not None:
            self._seen.pop(key, None)

    def _forget_oldest(self) -> None:
        """What is stored is found again; what is still being stored must not be stored beside itself."""
        while len(self._seen) > self._kept:
            oldest = next(iter(self._seen))
            if not self._seen[oldest].done():
                return
            del self._seen[oldest]

    async def _store(self, feedback: Feedback, look_back: bool) -> Feedback:
        if look_back:
            before = await self._ids.stored(feedback.tenant, feedback.feedback_id)
            if before is not None:
                return before
        await self._append(feedback, "feedback")
        self._ids.add(feedback)
        self._metrics.feedback.labels(feedback.kind).inc()
        return feedback

    async def _append(self, record: Feedback | Event, table: str) -> None:
        try:
            await asyncio.wrap_future(self._journal.append(record))
        except StoreError as error:
            self._metrics.unrecorded.labels(table).inc()
            raise Refusal.busy(f"it could not be stored: {error}; send it again later", code="not_recorded") from error

    def _user_hash(self, user: str | None, tenant: str) -> str | None:
        return None if user is None else user_hash(self._user_key, tenant, user)


class _Posted(msgspec.Struct):
    feedback: list[Judgement]
    single: bool


def _read(body: bytes) -> _Posted:
    start = body.lstrip()[:1]
    if start == b"[":
        batch = read_body(body, list[Judgement])
    else:
        fields = read_body(body, dict[str, msgspec.Raw])
        if "feedback" not in fields:
            return _Posted([read_body(body, Judgement)], single=True)
        batch = read_body(body, JudgementBatch).feedback
    if len(batch) > _MOST_IN_A_BATCH:
        raise Refusal.invalid(f"{len(batch)} judgements in one request, expected at most {_MOST_IN_A_BATCH}")
    return _Posted(batch, single=False)


def _check(judgement: Judgement) -> None:
    named = [judgement.response_id, judgement.turn_id, judgement.session_id]
    if sum(name is not None for name in named) != 1:
        raise Refusal.invalid(
            "expected exactly one of response_id, turn_id and session_id (with turn for one of its turns)",
            param="response_id",
        )
    if judgement.turn is not None and judgement.session_id is None:
        raise Refusal.invalid("turn goes with session_id", param="turn")
    at_least("turn", judgement.turn, 1)
    if judgement.value is not None and not math.isfinite(judgement.value):
        raise Refusal.invalid(f"value is {judgement.value}, expected a finite number", param="value")
    if judgement.value is None and judgement.text is None:
        raise Refusal.invalid("expected a value, a text or both", param="value")
    for name in ("feedback_id", "supersedes"):
        text = getattr(judgement, name)
        if text is not None and not 1 <= len(text) <= 256:
            raise Refusal.invalid(f"{name} has {len(text)} characters, expected 1 to 256", param=name)
    if judgement.supersedes is not None and judgement.supersedes == judgement.feedback_id:
        raise Refusal.invalid(
            "supersedes is the judgement's own feedback_id, expected that of an earlier one", param="supersedes"
        )


def _check_same(stored: Feedback, prepared: _Prepared) -> None:
    if _meaning(stored) != _meaning(prepared.feedback):
        raise Refusal(
            f"feedback_id {prepared.named[:80]!r} was used for another judgement; post a new id that supersedes it",
            status=409,
            kind="invalid_request_error",
            code="feedback_id_reused",
            param="feedback_id",
        )


def _meaning(feedback: Feedback) -> Feedback:
    return msgspec.structs.replace(feedback, at=datetime.min.replace(tzinfo=UTC))
