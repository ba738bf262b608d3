"""Turns a call into a dispatched turn: weights, session, exact prompt, parent, limits."""

import asyncio
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from time import monotonic, perf_counter
from typing import NamedTuple

from uuid_utils import uuid7

from collector.attempts import Attempts, Twins
from collector.caller import Caller
from collector.config import CollectorConfig
from collector.conversation import Call, Reply, content_text
from collector.earlier_attempts import EarlierAttempts
from collector.metrics import Metrics
from collector.parsing.call_syntax import JSON_CALLS, CallSyntax
from collector.ports import Journal, RouteKeeper, Routes, Target
from collector.privacy.record_screen import RecordScreen
from collector.privacy.withheld import Withheld, inherited
from collector.receipts import Receipts
from collector.records import ChatRequest, Event, Link, Turn
from collector.refusal import Refusal
from collector.rendering.prompt import Prompt, build_prompt
from collector.rendering.proven_family import ProvenFamily
from collector.rendering.renderer import Renderer
from collector.rendering.template import RenderError
from collector.request_dialogue import RequestDialogue
from collector.session import KnownTurn, Match, Session
from collector.session_index import SessionIndex
from collector.turn import TurnInProgress
from collector.turn_record import Plan
from collector.workers.dispatch import Dispatch
from collector.workers.fleet import Fleet
from collector.workers.placements import placed_event
from collector.workers.worker import Worker

# More is rendered on a thread of its own, so that the streams of others do not wait for it.
_RENDERED_AT_ONCE_CHARS = 8_000
_RENDERED_AT_ONCE_TOOLS = 8


class Capture:
    """Begins turns. Everything a turn needs is decided here, before the engine is asked."""

    def __init__(
        self,
        *,
        config: CollectorConfig,
        renderer: Renderer,
        context_tokens: int,
        base_model: str,
        fleet: Fleet,
        journal: Journal,
        routes: Routes,
        sessions: SessionIndex,
        receipts: Receipts,
        metrics: Metrics,
        screen: RecordScreen,
        family: ProvenFamily | None,
        keeper: RouteKeeper | None,
        earlier: EarlierAttempts,
    ) -> None:
        self._config = config
        self._family = family
        self._keeper = keeper
        self._renderer = renderer
        self._context_tokens = context_tokens
        self._base_model = base_model
        self._fleet = fleet
        self._journal = journal
        self._routes = routes
        self._sessions = sessions
        self._receipts = receipts
        self._metrics = metrics
        self._earlier = earlier
        self._attempts = Attempts(earlier)
        self._screen = screen
        self._vocabulary = renderer.tokenizer.size()
        self._workers = ThreadPoolExecutor(2, thread_name_prefix="render")
        self.running = 0
        """Turns dispatched and not yet ended."""
        self._arriving = 0
        """Calls that were read and wait to begin."""

    def close(self) -> None:
        """Ends the rendering threads."""
        self._workers.shutdown()

    async def begin(self, call: Call, caller: Caller, started_at: datetime) -> TurnInProgress:
        """Prepares a turn up to its dispatch; Refusal when it cannot be served."""
        started = perf_counter()
        self._check_capacity()
        await self._fleet.check_model()
        self._check_ids(call)
        # An unknown model is refused before it leaves a session behind.
        self._routes.target(caller.tenant, call.model, session_id="", pinned=None)
        await self._check_name(caller)
        await self._earlier.read()
        session = await self._sessions.find(caller, call)
        try:
            turn = await self._prepare(call, caller, session, started_at)
        except BaseException:
            self._sessions.release(session)
            raise
        self.running += 1
        self._metrics.preparation.observe(perf_counter() - started)
        if len(turn.plan.prompt_ids) >= self._context_tokens:
            raise await turn.refuse(self._too_long(turn.plan))
        return turn

    async def count(self, call: Call, caller: Caller) -> int:
        """Tokens of the prompt that the call would be sent with; nothing is sampled or kept."""
        assert call.chat is not None
        self._routes.target(caller.tenant, call.model, session_id="", pinned=None)
        name = caller.session_name
        if name is None:
            return len((await self._prompt(call, None, None)).ids)
        async with self._sessions.holding(caller.tenant, caller.stored_name(name)) as session:
            ancestor = None if session is None else session.match(RequestDialogue(call.chat), going_on=False).ancestor
            return len((await self._prompt(call, session, ancestor)).ids)

    async def _prepare(self, call: Call, caller: Caller, session: Session, started_at: datetime) -> TurnInProgress:
        asked = self._routes.asked(call.model)
        pinned = session.targets.get(asked)
        target = self._routes.target(caller.tenant, call.model, session_id=session.session_id, pinned=pinned)
        session.targets[asked] = target
        stays_with = session.placements.at(session.last_turn)
        worker = await self._fleet.place(target, session_id=session.session_id, stays_with=stays_with)
        dialogue = RequestDialogue(call.chat) if call.chat is not None else None
        match = session.match(dialogue) if dialogue is not None else Match(None, None)
        prompt = await self._prompt(call, session, match.ancestor)
        basis = _Basis(call, caller, session, dialogue, match, prompt, session.deepest_prefix(prompt.ids))
        # A client that does not wait for the end of a reply waits here until it is known whether that is on record.
        # By then it is known as well whether a secret was found in what it goes on from.
        storing = {turn.storing for turn in basis.earlier if turn.storing is not None}
        if storing:
            await asyncio.wait(storing)
        return self._in_progress(basis, self._plan(basis, target, started_at), worker)

    def _plan(self, basis: "_Basis", target: Target, started_at: datetime) -> Plan:
        """What is sampled, and how the turn stands to those before it."""
        call, caller, session, prompt = basis.call, basis.caller, basis.session, basis.prompt
        # The client continues what it saw. A record's parent is on record too, or a reader would look for it in vain:
        # a turn that continues only what could not be stored is a root.
        parent = session.deepest_prefix(prompt.ids, recorded=True)
        session.last_turn += 1
        link, kind = _link(session, parent, prompt.break_kind or basis.match.break_kind)
        room = self._context_tokens - len(prompt.ids)
        turn_id = str(uuid7())
        return Plan(
            turn_id=turn_id,
            session_id=session.session_id,
            turn=session.last_turn,
            call=call,
            caller=caller,
            target=target,
            base_model=self._base_model,
            started_at=started_at,
            prompt_ids=prompt.ids,
            max_tokens=max(0, min(call.sampling.max_tokens or self._config.default_max_tokens, room)),
            parent_turn_id=parent.turn_id if parent is not None else None,
            link=link,
            break_kind=kind,
            logprob_mode=self._config.logprob_mode,
            twins=self._twins(call, caller, session, basis.match, turn_id),
            withheld=self._withheld(caller, session, basis.earlier, link),
            canary=self._routes.is_canary(target),
        )

    def _in_progress(self, basis: "_Basis", plan: Plan, worker: Worker) -> TurnInProgress:
        """The turn, which the session and this object hear of again."""
        session = basis.session

        def ended(turn: Turn, reply: Reply | None) -> KnownTurn | None:
            if plan.twins is not None:
                plan.twins.broke_off = not turn.complete
            return self._ended(basis, turn, reply)

        def withhold(known: KnownTurn | None, reason: Withheld) -> None:
            session.withheld.add(reason)
            if known is not None:
                known.withheld = reason

        def settled() -> None:
            self.running -= 1
            # Only now can the session be read back from the store, should it be evicted.
            self._sessions.release(session)

        return TurnInProgress(
            plan,
            engine=self._dispatch(session, plan, worker),
            journal=self._journal,
            tokenizer=self._renderer.tokenizer,
            thinking_open=basis.prompt.thinking_open,
            syntax=self._syntax(basis.call),
            metrics=self._metrics,
            must_record=self._config.on_store_failure == "refuse",
            receipts=self._receipts,
            screen=self._screen,
            keeper=self._keeper,
            ended=ended,
            withhold=withhold,
            settled=settled,
        )

    def _dispatch(self, session: Session, plan: Plan, worker: Worker) -> Dispatch:
        """The turn's way to its worker, told wherever the session's turns go to another one than before."""

        def placed(worker: Worker, why: str) -> None:
            if self._fleet.several:
                for told in session.placements.put(plan.turn, worker.url, last_turn=session.last_turn):
                    self._journal.append(placed_event(plan, told, why))

        # Before the turn's own record, which is thus never durable without it.
        before = session.placements.at(plan.turn)
        placed(worker, "a new session" if before is None else f"{before} does not serve it now")
        return Dispatch(self._fleet, worker, plan.target, session_id=plan.session_id, moved=placed)

    def _twins(self, call: Call, caller: Caller, session: Session, match: Match, turn_id: str) -> Twins | None:
        """What the turn shares with other attempts at the same request; a retry is told by an event."""
        if call.chat is None:
            return None
        attempt = self._attempts.of(call, caller, match.said, turn_id, now_s=monotonic())
        if attempt.retry_of is not None:
            # Before the turn's own record, which is thus never durable without it.
            self._journal.append(
                Event(
                    at=datetime.now(UTC),
                    kind="retry",
                    session_id=session.session_id,
                    turn=session.last_turn,
                    actor=caller.tenant,
                    text="the client sent its request again",
                    detail={"turn_id": turn_id, "retry_of": attempt.retry_of},
                )
            )
        return attempt.twins

    def _withheld(self, caller: Caller, session: Session, earlier: Sequence[KnownTurn], link: Link) -> Withheld | None:
        reasons = [turn.withheld for turn in earlier]
        if caller.opted_out or self._screen.opts_out(caller.tenant):
            reasons.append("opted_out")
        return inherited(reasons, link, session.withheld, lost=session.lost)

    async def _prompt(self, call: Call, session: Session | None, ancestor: KnownTurn | None) -> Prompt:
        if call.chat is None:
            return Prompt(list(call.prompt_ids), thinking_open=False)
        chat = call.chat
        if session is not None and ancestor is not None and self._config.history_reasoning == "template":
            chat = session.with_thinking(chat, ancestor)
        size = sum(len(content_text(message)) for message in chat.messages)
        try:
            if size <= _RENDERED_AT_ONCE_CHARS and len(chat.tools or ()) <= _RENDERED_AT_ONCE_TOOLS:
                return self._build(chat, ancestor)
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._workers, self._build, chat, ancestor)
        except RenderError as error:
            raise Refusal.invalid(
                f"the model's chat template refused the messages: {error}", param="messages", code="template_error"
            ) from error

    def _build(self, chat: ChatRequest, known: KnownTurn | None) -> Prompt:
        return build_prompt(
            self._renderer,
            chat,
            ancestor=known.as_ancestor() if known is not None else None,
            ancestor_ids=known.ids() if known is not None else (),
            history_reasoning=self._config.history_reasoning,
            family=self._family,
        )

    def _syntax(self, call: Call) -> CallSyntax:
        if self._family is None or call.chat is None:
            return JSON_CALLS
        return self._family.syntax(call.chat.tools)

    def _check_ids(self, call: Call) -> None:
        """An engine may fail as a whole over one id that its vocabulary does not have."""
        sampling = call.sampling
        named = {
            "input_ids": call.prompt_ids,
            "stop_token_ids": sampling.stop_token_ids,
            "logit_bias": [int(token) for token in sampling.logit_bias or ()],
        }
        for name, ids in named.items():
            wrong = next((index for index in ids if not 0 <= index < self._vocabulary), None)
            if wrong is not None:
                raise Refusal.invalid(
                    f"{name} holds {wrong}, expected ids from 0 to {self._vocabulary - 1}",
                    param=name,
                    code="invalid_value",
                )

    async def _check_name(self, caller: Caller) -> None:
        """A session's name is stored as it is, since clients go on by it."""
        if caller.session_name is not None and not await self._screen.clean(caller.session_name):
            raise Refusal.invalid(
                "the session's name holds a secret, expected a name that may be stored; send another one",
                code="secret_in_name",
            )

    @contextmanager
    def arriving(self) -> Generator[None]:
        """Counts a call that waits to begin; Refusal at once where it is over the limit, so that none gather."""
        self._check_capacity(self._arriving)
        self._arriving += 1
        try:
            yield
        finally:
            self._arriving -= 1

    def _check_capacity(self, ahead: int = 0) -> None:
        if self.running + ahead >= self._config.max_running:
            found = f"{self.running} turns are being served and {ahead} wait to begin"
            raise Refusal.busy(f"{found}, expected fewer than {self._config.max_running} in all", code="overloaded")
        if self._journal.queued > self._config.store.queue_rows // 2:
            raise Refusal.busy(f"{self._journal.queued} records wait to be stored", code="overloaded")
        if self._config.on_store_failure == "refuse" and self._journal.failure is not None:
            raise Refusal.busy(
                f"records cannot be stored now: {self._journal.failure}; nothing is sampled meanwhile",
                code="store_unavailable",
            )

    def _too_long(self, plan: Plan) -> Refusal:
        return Refusal.invalid(
            f"the prompt has {len(plan.prompt_ids)} tokens, expected fewer than the context of "
            f"{self._context_tokens}; shorten or compact the messages",
            param="messages",
            code="context_length_exceeded",
        )

    def _ended(self, basis: "_Basis", turn: Turn, reply: Reply | None) -> KnownTurn | None:
        if not turn.completion_ids:
            return None
        known = KnownTurn(
            turn_id=turn.turn_id,
            parent=basis.continued,
            prompt_ids=turn.prompt_ids,
            completion_ids=turn.completion_ids,
            dialogue=basis.dialogue,
            reply=reply,
            ancestor=basis.match.ancestor,
        )
        self._sessions.remember(basis.caller.scope, basis.session, known, basis.dialogue)
        return known


class _Basis(NamedTuple):
    """What a turn begins from."""

    call: Call
    caller: Caller
    session: Session
    dialogue: RequestDialogue | None
    """The request's messages; None where it gives token ids."""
    match: Match
    prompt: Prompt
    continued: KnownTurn | None
    """The turn whose tokens are the longest beginning of the prompt."""

    @property
    def earlier(self) -> list[KnownTurn]:
        """What it goes on from, by its tokens and by its messages."""
        return [turn for turn in (self.continued, self.match.ancestor) if turn is not None]


def _link(session: Session, parent: KnownTurn | None, break_kind: str | None) -> tuple[Link, str | None]:
    """How the turn stands to the earlier ones. What a client declared before it arrived decides."""
    declared = session.declared.get(session.last_turn)
    if declared is not None:
        return declared, None
    if parent is not None:
        return "extends", None
    return ("break", break_kind) if break_kind is not None else ("root", None)
