"""Hand-written stand-ins for the engine and the store, for tests."""

import asyncio
import secrets
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import Future
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from collector.engine.wire import Delta, Finish, GenerateRequest, ModelInfo, Span, WorkerLoad
from collector.errors import EngineError, EngineUnavailable, StoreError
from collector.ports import DeclaredKind, PastAttempt, PastTurn, Receipt
from collector.records import ChatRequest, Event, Feedback, Record, Turn
from collector.served_model import ServedModel
from collector.workers.fleet import Fleet
from collector.workers.placements import PLACED, placed_worker
from collector.workers.slots import Budget
from collector.workers.worker import Worker, WorkerEngine


class Pause(NamedTuple):
    """A silence of the engine."""

    seconds: float


Step = Delta | Pause | Exception
Script = Callable[[GenerateRequest], Sequence[Step]]


def deltas(
    ids: Sequence[int],
    *,
    finish: Finish | None = None,
    size: int = 1,
    prompt_tokens: int | None = None,
    version: str = "default",
    logprob: float = -0.5,
    cached_tokens: int | None = 0,
) -> list[Delta]:
    """A reply of these ids, a few a time, each with its own log-probability."""
    cut = [list(ids[start : start + size]) for start in range(0, len(ids), size)]
    steps = [Delta(token_ids=part, logprobs=[logprob - index / 1024 for index in part]) for part in cut]
    last = Delta(
        token_ids=[],
        logprobs=[],
        finish=finish or Finish(type="stop", matched=ids[-1]),
        spans=[Span(version=version, start=0, end=len(ids))] if ids else [],
        prompt_tokens=prompt_tokens,
        completion_tokens=len(ids),
        cached_tokens=cached_tokens,
    )
    return [*steps, last]


class ScriptedEngine:
    """An engine that samples what it is told to, and remembers what it was asked and gave."""

    def __init__(self, *scripts: Script) -> None:
        self.scripts = list(scripts)
        """One per request, in order; the last one serves all further requests."""
        self.requests: list[GenerateRequest] = []
        self.given: list[list[int]] = []
        """Ids handed out, by request."""
        self.aborted: list[str] = []
        """rids of requests whose reader left."""
        self.is_ready = True
        self.down: str | None = None
        """Why nothing is answered; None while it lives."""
        self.loaded: dict[str, str] = {}
        """Adapters by engine name, with their folders."""
        self.settings: dict[str, Any] = {"launch_id": secrets.token_hex(8)}
        self.busy: list[WorkerLoad] | None = None
        """What it says of its load; None when it says nothing."""

    def restart(self) -> None:
        """Another process under the same address: it has forgotten its adapters."""
        self.down, self.loaded = None, {}
        self.settings = {**self.settings, "launch_id": secrets.token_hex(8)}

    def _check_up(self) -> None:
        if self.down is not None:
            raise EngineUnavailable(self.down)

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[Delta, None]:
        """Plays the next script."""
        self._check_up()
        script = self.scripts[min(len(self.requests), len(self.scripts) - 1)]
        self.requests.append(request)
        given: list[int] = []
        self.given.append(given)
        whole = False
        try:
            for step in script(request):
                self._check_up()
                if isinstance(step, Exception):
                    raise step
                if isinstance(step, Pause):
                    await asyncio.sleep(step.seconds)
                    continue
                given += step.token_ids
                whole = step.finish is not None
                yield step
        finally:
            if not whole:
                self.aborted.append(request.rid)

    async def model_info(self) -> ModelInfo:
        """A nameless model."""
        self._check_up()
        return ModelInfo(model_path="scripted")

    async def ready(self) -> bool:
        """As told."""
        return self.is_ready and self.down is None

    async def loaded_adapters(self) -> dict[str, str]:
        """Those that were loaded into this process."""
        self._check_up()
        return dict(self.loaded)

    async def load_adapter(self, name: str, path: Path, *, pinned: bool = False) -> None:  # noqa: ARG002
        """Loads one under a new name."""
        self._check_up()
        if name in self.loaded:
            raise EngineError(f"{name} is already loaded", status=400)
        self.loaded[name] = str(path)

    async def server_info(self) -> dict[str, Any]:
        """As told."""
        self._check_up()
        return dict(self.settings)

    async def loads(self) -> list[WorkerLoad]:
        """As told."""
        self._check_up()
        if self.busy is None:
            raise EngineError("the engine answered /v1/loads with 404", status=404)
        return self.busy


class EverythingServed:
    """Every worker may serve every version, for tests that are not about that."""

    def why_not(self, worker: Worker, name: str) -> str | None:  # noqa: ARG002
        """Nothing is against it."""
        return None

    async def refresh(self) -> None:
        """There is nothing to look at."""

    def budgets(self) -> list[Budget]:
        """No worker says how many slots it has."""
        return []


def fleet_of(engine: WorkerEngine, *, served: ServedModel | None = None) -> Fleet:
    """A fleet of one worker."""
    worker = Worker("http://scripted", engine, served or ServedModel(engine, Path("scripted")))
    return Fleet([worker], EverythingServed())


class _Ack(NamedTuple):
    writer: str
    seq: int


class MemoryJournal:
    """A journal without a disk: durable at once, when let go, or never."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.failure: str | None = None
        """Set it to make appends fail."""
        self.held: list[tuple[Future[_Ack], Record]] | None = None
        """A list here holds back acknowledgements until `let_go`."""
        self.failed_total = 0

    @property
    def queued(self) -> int:
        """Records not yet acknowledged."""
        return len(self.held or ())

    @property
    def durable_seq(self) -> int:
        """Number of acknowledged records."""
        return len(self.records)

    @property
    def turns(self) -> list[Turn]:
        """The acknowledged turns."""
        return [record for record in self.records if isinstance(record, Turn)]

    def append(self, record: Record) -> Future[_Ack]:
        """Takes a record in."""
        future: Future[_Ack] = Future()
        if self.failure is not None:
            self.failed_total += 1
            future.set_exception(StoreError(self.failure))
        elif self.held is not None:
            self.held.append((future, record))
        else:
            self._acknowledge(future, record)
        return future

    def let_go(self) -> None:
        """Acknowledges what was held back."""
        held, self.held = self.held or [], None
        for future, record in held:
            self._acknowledge(future, record)

    def _acknowledge(self, future: Future[_Ack], record: Record) -> None:
        self.records.append(record)
        future.set_result(_Ack("memory", len(self.records)))


class MemoryPast:
    """What a journal in memory holds, as if an earlier process had written it."""

    def __init__(self, records: Sequence[Record] = ()) -> None:
        self._records = list(records)

    @property
    def _turns(self) -> list[Turn]:
        return [record for record in self._records if isinstance(record, Turn)]

    def session_ids(self) -> list[str]:
        """Every session, the most recently active last."""
        latest: dict[str, datetime] = {}
        for turn in self._turns:
            latest[turn.session_id] = max(turn.started_at, latest.get(turn.session_id, turn.started_at))
        return sorted(latest, key=lambda name: (latest[name], name))

    def session_turns(self, session_id: str) -> list[PastTurn]:
        """The turns of one."""
        return [_past_turn(turn) for turn in self._turns if turn.session_id == session_id]

    def attempts(self, since: datetime) -> list[PastAttempt]:
        """The recent ones."""
        return [
            PastAttempt(
                turn.turn_id, turn.session_id, turn.tenant, turn.api, turn.request, turn.started_at, turn.complete,
                turn.trainable,
            )
            for turn in self._turns
            if turn.request is not None and turn.started_at >= since
        ]  # fmt: skip

    def declared(self, tenant: str, session_id: str) -> list[tuple[int, DeclaredKind]]:
        """Events that are declarations."""
        events = [record for record in self._records if isinstance(record, Event)]
        return [
            (event.turn, event.kind)
            for event in events
            if (event.actor, event.session_id) == (tenant, session_id)
            and event.turn is not None
            and event.kind in ("compaction", "subagent")
        ]

    def placed(self, session_id: str) -> dict[int, str]:
        """Events that tell who serves the turns."""
        told = [each for each in self._records if isinstance(each, Event) and each.kind == PLACED]
        found = {each.turn: placed_worker(each.detail) for each in told if each.session_id == session_id}
        return {turn: worker for turn, worker in found.items() if turn is not None and worker is not None}

    def receipts(self, *, turn_id: str | None = None, session_id: str | None = None) -> list[Receipt]:
        """Whose turns they are."""
        return [
            Receipt(turn.turn_id, turn.session_id, turn.turn, turn.tenant)
            for turn in self._turns
            if turn_id in (None, turn.turn_id) and session_id in (None, turn.session_id)
        ]

    def feedback_ids(self) -> list[tuple[str, str]]:
        """Tenant and id of all feedback."""
        return [(record.tenant, record.feedback_id) for record in self._records if isinstance(record, Feedback)]

    def feedback(self, tenant: str, feedback_id: str) -> list[Feedback]:
        """Feedback of a tenant under an id."""
        found = [record for record in self._records if isinstance(record, Feedback)]
        return [one for one in found if (one.tenant, one.feedback_id) == (tenant, feedback_id)]


def _past_turn(turn: Turn) -> PastTurn:
    request: ChatRequest | None = turn.request
    said = turn.response is not None and turn.response.get("role") == "assistant"
    return PastTurn(
        turn_id=turn.turn_id,
        session_id=turn.session_id,
        turn=turn.turn,
        tenant=turn.tenant,
        prompt_ids=turn.prompt_ids,
        completion_ids=turn.completion_ids,
        chat=request,
        reply=turn.response if said else None,
        untrainable_reason=turn.untrainable_reason,
    )
