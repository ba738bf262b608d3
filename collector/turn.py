"""One model call under way: deltas become events, and the record becomes durable before the last one."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Future
from contextlib import aclosing
from functools import lru_cache
from time import perf_counter
from typing import Any

import msgspec

from collector.conversation import Outcome, Reply, ReplyEvent, TokensDelta, TurnName
from collector.engine.wire import GenerateRequest, SamplingParams
from collector.errors import EngineError, EngineUnavailable, RecordRefused, StoreError
from collector.metrics import Metrics
from collector.parsing.call_syntax import CallSyntax
from collector.parsing.detokenizer import Detokenizer
from collector.parsing.reply import MARKERS, ReplyParser
from collector.parsing.stop_strings import StopStrings
from collector.ports import Journal, RouteKeeper, Sampler
from collector.privacy.record_screen import RecordScreen
from collector.privacy.withheld import Withheld
from collector.receipts import Receipts
from collector.records import FinishReason, Turn
from collector.refusal import Refusal
from collector.rendering.tokenizer import ChatTokenizer
from collector.session import KnownTurn
from collector.turn_record import Plan, Sampled, storable, turn_record

_log = logging.getLogger(__name__)


class EngineAborted(Exception):
    """The engine ended the reply early, on its own or on an operator's order."""


class TurnInProgress:
    """From dispatch to record. It is recorded once, whoever ends it first."""

    def __init__(
        self,
        plan: Plan,
        *,
        engine: Sampler,
        journal: Journal,
        tokenizer: ChatTokenizer,
        thinking_open: bool,
        syntax: CallSyntax,
        metrics: Metrics,
        must_record: bool,
        receipts: Receipts,
        screen: RecordScreen,
        keeper: RouteKeeper | None,
        withhold: Callable[[KnownTurn | None, Withheld], None],
        ended: Callable[[Turn, Reply | None], KnownTurn | None],
        settled: Callable[[], None],
    ) -> None:
        self.plan = plan
        self.name = TurnName(
            plan.turn_id,
            plan.session_id,
            int(plan.started_at.timestamp()),
            plan.call.model or plan.base_model,
            len(plan.prompt_ids),
        )
        self._engine = engine
        self._journal = journal
        self._tokenizer = tokenizer
        self._metrics = metrics
        self._must_record = must_record
        self._receipts = receipts
        self._screen = screen
        self._keeper = keeper
        self._withhold = withhold
        self._ended = ended
        self._settled = settled
        self._sampled = Sampled()
        self._started = perf_counter()
        self._over = False
        self._released = False
        self._storing: asyncio.Task[bool] | None = None
        self._by_ids = plan.call.chat is None
        hidden = frozenset[int]() if self._by_ids else _hidden_ids(tokenizer, (*MARKERS, *syntax.markers))
        self._detokenizer = Detokenizer(tokenizer, hidden_ids=hidden)
        self._reasoning_tokens = 0
        self._stops = StopStrings(() if self._by_ids else plan.call.sampling.stop)
        self._parser = ReplyParser(
            seed=plan.turn_id, thinking_open=thinking_open, parse_tools=plan.call.parse_tools, syntax=syntax
        )

    async def events(self) -> AsyncGenerator[list[ReplyEvent], None]:
        """What becomes certain, as the engine samples. Raises EngineError, or EngineAborted."""
        async with aclosing(self._engine.generate(self._request())) as deltas:
            async for delta in deltas:
                first = self._sampled.first_token_at is None
                self._check_ids(delta.token_ids)
                self._sampled.add(delta)
                if first and delta.token_ids:
                    self._metrics.first_token.observe(perf_counter() - self._started)
                if delta.prompt_tokens is not None and delta.prompt_tokens != len(self.plan.prompt_ids):
                    raise EngineError(
                        f"the engine counted {delta.prompt_tokens} prompt tokens, expected the "
                        f"{len(self.plan.prompt_ids)} that it was given; check its truncation options"
                    )
                events = self._read(delta.token_ids, delta.logprobs)
                if events:
                    yield events
        finish = self._sampled.finish
        if finish is None:
            raise EngineUnavailable("the engine ended the reply without a finish reason; it is not sent again")
        if finish.type == "abort":
            raise EngineAborted(finish.message or "it gave no reason")
        rest = [] if self._by_ids else self._read_rest()
        if rest:
            yield rest

    async def finish(self) -> Outcome:
        """Makes the record of a whole reply durable. Refusal when it cannot be and must."""
        sampled, finish = self._sampled, self._sampled.finish
        assert finish is not None
        reason: FinishReason = "stop" if finish.type == "stop" else "length"
        reply = self._parser.reply()
        response = {} if self._by_ids else reply.message()
        place, fault = self._routes()
        turn = turn_record(
            self.plan,
            sampled,
            finish_reason=reason,
            complete=True,
            response=response or None,
            routes=place,
            routes_fault=fault,
        )
        recorded = await self._store(turn, None if self._by_ids else reply)
        if not recorded and self._must_record:
            raise Refusal.busy(
                f"the reply could not be recorded: {self._journal.failure}; it is refused as configured",
                code="not_recorded",
            )
        return Outcome(
            name=self.name,
            reply=reply,
            text=self._tokenizer.decode(sampled.ids) if self._by_ids else "",
            finish_reason=reason,
            matched=finish.matched,
            prompt_tokens=len(self.plan.prompt_ids),
            cached_tokens=sampled.cached_tokens,
            completion_ids=sampled.ids,
            reasoning_tokens=self._reasoning_tokens,
            logprobs=sampled.logprobs,
            weight_versions=turn.weight_versions,
            recorded=recorded,
        )

    async def fail(self, error: EngineError | EngineAborted) -> Refusal:
        """Records a reply that the engine failed to give, and says what the client is told."""
        refusal = _refusal(error, after_tokens=bool(self._sampled.ids), adapter=self.plan.target.engine_name)
        reason: FinishReason = "abort" if isinstance(error, EngineAborted) else "error"
        _log.warning("turn %s: %s", self.plan.turn_id, refusal.message)
        await self._store_incomplete(reason, {"error": {"status": refusal.status, "message": refusal.message}})
        return refusal

    async def refuse(self, refusal: Refusal) -> Refusal:
        """Records a call that is refused before the engine is asked."""
        await self._store_incomplete("error", {"error": {"status": refusal.status, "message": refusal.message}})
        return refusal

    async def abandon(self) -> None:
        """Records a reply that the client did not wait for; nothing more if it has been recorded already."""
        if not self._over:
            await self._store_incomplete("client_gone", None)

    async def settle(self) -> None:
        """Records what a fault of the collector's own cut off, if it is not on record, and lets the turn go."""
        try:
            if not self._over:
                # The fault may be one of reading the reply, so it is left as ids.
                error = {"error": {"status": 500, "message": "internal error"}}
                turn = turn_record(self.plan, self._sampled, finish_reason="error", complete=False, response=error)
                await self._store(turn, None)
        finally:
            # A record under way lets the turn go once it is known whether it is durable.
            if self._storing is None:
                self._release()

    async def _store_incomplete(self, reason: FinishReason, error: dict[str, Any] | None) -> None:
        response, reply = error, None
        if self._sampled.ids and not self._by_ids:
            self._read_rest()
            reply = self._parser.reply()
            response = {**reply.message(), **(error or {})}
        turn = turn_record(self.plan, self._sampled, finish_reason=reason, complete=False, response=response)
        await self._store(turn, reply)

    async def _store(self, turn: Turn, reply: Reply | None) -> bool:
        started = perf_counter()
        self._count(turn)
        # What is searched for secrets is appended when that is done, and waited for as long.
        waits = self._screen.searches or turn.routed_experts is not None
        acknowledgement = None if waits else self._journal.append(self._screen.kept(turn))
        self._over = True
        known: KnownTurn | None = None
        try:
            # The session knows the turn before the client can continue it.
            known = self._ended(turn, reply)
        finally:
            # A client that leaves now changes nothing of what is counted and known.
            self._storing = asyncio.create_task(self._durable(turn, known, acknowledgement, started))
            if known is not None:
                known.storing = self._storing
            if turn.untrainable_reason == "opted_out":
                self._withhold(known, "opted_out")
            recorded = await asyncio.shield(self._storing)
        return recorded

    async def _durable(
        self, turn: Turn, known: KnownTurn | None, acknowledgement: Future[Any] | None, started: float
    ) -> bool:
        try:
            if acknowledgement is None:
                screened = await self._screened(turn, known) if self._screen.searches else self._screen.kept(turn)
                turn = await self._with_routes(screened)
                acknowledgement = self._journal.append(turn)
            recorded = await self._acknowledged(turn, acknowledgement)
            if not recorded and known is not None:
                known.recorded = False
        finally:
            if known is not None:
                known.storing = None
            self._release()
        if recorded:
            self._receipts.add(turn)
            self._metrics.durable.observe(perf_counter() - started)
        return recorded

    def _routes(self) -> tuple[str | None, str | None]:
        """Where the turn's expert routes go, or what is wrong with them."""
        routes = self._sampled.routed_experts
        if self._keeper is None or routes is None:
            return None, None
        fault = self._keeper.fault(routes, len(self.plan.prompt_ids) + len(self._sampled.ids))
        if fault is None:
            return self._keeper.place(self.plan.turn_id), None
        _log.warning("turn %s: %s; it is not trained on", self.plan.turn_id, fault)
        return None, fault

    async def _with_routes(self, turn: Turn) -> Turn:
        """The turn once the routes that it names are durable; one that names none where they cannot be kept."""
        routes = self._sampled.routed_experts
        if self._keeper is None or turn.routed_experts is None or routes is None:
            return turn
        try:
            await asyncio.to_thread(self._keeper.write, turn.turn_id, routes)
        except OSError as error:
            self._metrics.unrecorded.labels("expert_routes").inc()
            _log.error("the expert routes of turn %s were not recorded: %s", turn.turn_id, error)
            return msgspec.structs.replace(turn, routed_experts=None)
        return turn

    async def _screened(self, turn: Turn, known: KnownTurn | None) -> Turn:
        """The turn as it may be stored. What goes on from it is withheld from the moment that this is known."""
        screened, event = await self._screen.screened(turn)
        if screened.untrainable_reason == "redacted":
            self._withhold(known, "redacted")
            if turn.untrainable_reason is None:
                self._metrics.untrainable.labels("redacted").inc()
        if event is not None:
            self._journal.append(event)
        return screened

    async def _acknowledged(self, turn: Turn, acknowledgement: Future[Any]) -> bool:
        try:
            await asyncio.wrap_future(acknowledgement)
        except RecordRefused as error:
            if (rest := storable(turn, error)) is not None:
                return await self._acknowledged(rest, self._journal.append(rest))
            return self._unrecorded(turn, error)
        except StoreError as error:
            return self._unrecorded(turn, error)
        return True

    def _unrecorded(self, turn: Turn, error: StoreError) -> bool:
        self._metrics.unrecorded.labels("turns").inc()
        _log.error("turn %s was not recorded: %s", turn.turn_id, error)
        return False

    def _release(self) -> None:
        if not self._released:
            self._released = True
            self._settled()

    def _check_ids(self, ids: list[int]) -> None:
        """An id that the vocabulary does not have must not get into the prompts that continue the turn."""
        known = self._tokenizer.known_ids
        if known.issuperset(ids):
            return
        for index in ids:
            if not 0 <= index < 2**31 or self._tokenizer.backend.id_to_token(index) is None:
                raise EngineError(
                    f"the engine sampled id {index}, expected one of the tokenizer's {self._tokenizer.size()} ids; "
                    "check that it serves this model"
                )
            known.add(index)

    def _read(self, ids: list[int], logprobs: list[float]) -> list[ReplyEvent]:
        if self._by_ids:
            return [TokensDelta(ids, logprobs, self._detokenizer.add(ids))] if ids else []
        pieces = self._detokenizer.pieces(ids)
        events: list[ReplyEvent] = []
        place = 0
        # One by one while it thinks, so that the tokens of the thinking are known exactly.
        while place < len(ids) and not self._parser.thought:
            events += self._parser.add(self._stops.add(pieces[place]))
            place += 1
            if self._parser.thinks:
                self._reasoning_tokens = len(self._sampled.ids) - len(ids) + place
        rest = pieces[place:]
        if self._stops.none and self._parser.plain:
            return [*events, *self._parser.show(rest)]
        return [*events, *self._parser.add(self._stops.add("".join(rest)))]

    def _read_rest(self) -> list[ReplyEvent]:
        text = self._stops.add(self._detokenizer.finish()) + self._stops.finish()
        return [*self._parser.add(text), *self._parser.finish()]

    def _request(self) -> GenerateRequest:
        sampling = self.plan.call.sampling
        return GenerateRequest(
            input_ids=self.plan.prompt_ids,
            rid=self.plan.turn_id,
            lora_path=self.plan.target.engine_name,
            return_routed_experts=self._keeper is not None,
            sampling_params=SamplingParams(
                max_new_tokens=self.plan.max_tokens,
                temperature=sampling.temperature,
                top_p=sampling.top_p,
                top_k=sampling.top_k,
                min_p=sampling.min_p,
                presence_penalty=sampling.presence_penalty,
                frequency_penalty=sampling.frequency_penalty,
                repetition_penalty=sampling.repetition_penalty,
                logit_bias=sampling.logit_bias,
                stop=list(sampling.stop),
                stop_token_ids=list(sampling.stop_token_ids),
                ignore_eos=sampling.ignore_eos,
                min_new_tokens=sampling.min_new_tokens,
                sampling_seed=sampling.seed,
            ),
        )

    def _count(self, turn: Turn) -> None:
        self._metrics.turns.labels(turn.api, turn.finish_reason).inc()
        self._metrics.costs.add(turn)
        if turn.untrainable_reason is not None:
            self._metrics.untrainable.labels(turn.untrainable_reason).inc()
        if turn.break_kind is not None:
            self._metrics.breaks.labels(turn.break_kind).inc()
        self._metrics.tokens.labels("prompt").inc(len(turn.prompt_ids))
        if turn.cached_tokens is not None:
            self._metrics.tokens.labels("cached").inc(turn.cached_tokens)
        self._metrics.tokens.labels("completion").inc(len(turn.completion_ids))


@lru_cache(maxsize=4)
def _hidden_ids(tokenizer: ChatTokenizer, shown: tuple[str, ...]) -> frozenset[int]:
    """Special tokens a client does not see; those that structure a reply are read by the parser."""
    markers = {index for index, token in tokenizer.added.items() if token.content in shown}
    return (tokenizer.special_ids | tokenizer.stop_ids) - markers


def _refusal(error: EngineError | EngineAborted, *, after_tokens: bool, adapter: str | None) -> Refusal:
    if isinstance(error, EngineAborted):
        return Refusal.busy(f"the engine aborted the reply: {error}; send the request again", code="engine_aborted")
    message = str(error)
    if isinstance(error, EngineUnavailable) and not after_tokens:
        return Refusal.busy(message, code="engine_unavailable")
    if error.status in (400, 404) and adapter is not None and adapter in message:
        return Refusal.busy(f"the engine does not serve {adapter} now: {message}", code="adapter_not_loaded")
    if error.status == 400:
        lengthy = "context" in message.lower() or "longer than" in message.lower()
        return Refusal.invalid(message, code="context_length_exceeded" if lengthy else "engine_refused")
    if error.status in (429, 503):
        return Refusal.busy(message, code="engine_busy")
    return Refusal.upstream(message, code="engine_failed")
