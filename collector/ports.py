"""The slices of the store, the engine and the registry that serving a call needs."""

from collections.abc import AsyncGenerator
from concurrent.futures import Future
from datetime import datetime
from typing import Any, Literal, NamedTuple, Protocol

from collector.engine.wire import Delta, GenerateRequest, ModelInfo
from collector.records import ChatRequest, Feedback, Record


class Acknowledged(Protocol):
    """Where a durable record stands."""

    @property
    def writer(self) -> str: ...
    @property
    def seq(self) -> int: ...


class Journal(Protocol):
    """What takes records; a record is durable when its future resolves."""

    def append(self, record: Record) -> Future[Any]: ...
    @property
    def queued(self) -> int: ...
    @property
    def failure(self) -> str | None: ...
    @property
    def durable_seq(self) -> int: ...
    @property
    def failed_total(self) -> int: ...


class Sampler(Protocol):
    """What samples."""

    def generate(self, request: GenerateRequest) -> AsyncGenerator[Delta, None]: ...


class Engine(Sampler, Protocol):
    """What samples, and says of itself what it is."""

    async def model_info(self) -> ModelInfo: ...
    async def ready(self) -> bool: ...


class Target(NamedTuple):
    """Which weights a call goes to."""

    adapter: str | None = None
    version: int | None = None
    engine_name: str | None = None
    """What the engine calls the adapter version; None is the base model."""


class Routes(Protocol):
    """Tenant and model name to weights. Raises Refusal for a name that the tenant may not use."""

    def target(self, tenant: str, model: str | None, *, session_id: str, pinned: Target | None) -> Target: ...
    def asked(self, model: str | None) -> str | None: ...
    def is_canary(self, target: Target) -> bool: ...
    def models(self, tenant: str) -> list[str]: ...
    def stale(self) -> str | None: ...
    @property
    def failed_total(self) -> int: ...


class RouteKeeper(Protocol):
    """What keeps the experts that a turn's tokens were routed to."""

    def place(self, turn_id: str) -> str:
        """Path inside the store of what is kept of a turn."""
        ...

    def fault(self, routes: bytes, tokens: int) -> str | None:
        """How these are not the routes of so many tokens; None when they are."""
        ...

    def write(self, turn_id: str, routes: bytes) -> None:
        """Makes them durable; OSError when that is not possible."""
        ...


DeclaredKind = Literal["compaction", "subagent"]
"""What a client may declare a turn to be."""


class PastTurn(NamedTuple):
    """A stored turn, as far as continuing it needs."""

    turn_id: str
    session_id: str
    turn: int
    tenant: str
    prompt_ids: list[int] | None
    """None when they are lost to damage: the turn counts, and cannot be continued."""
    completion_ids: list[int]
    chat: ChatRequest | None
    reply: dict[str, Any] | None
    """The assistant message in chat form; None when there was none."""
    untrainable_reason: str | None = None
    """Why it is not trained on."""


class Receipt(NamedTuple):
    """Whose a stored turn is."""

    turn_id: str
    session_id: str
    turn: int
    tenant: str


class PastAttempt(NamedTuple):
    """A stored turn, as far as another attempt at its request needs."""

    turn_id: str
    session_id: str
    tenant: str
    api: str
    chat: ChatRequest
    started_at: datetime
    complete: bool
    trainable: bool


class Past(Protocol):
    """What earlier processes stored, for sessions and receipts that outlive a restart."""

    def session_ids(self) -> list[str]:
        """Every session, the most recently active last."""
        ...

    def session_turns(self, session_id: str) -> list[PastTurn]: ...
    def attempts(self, since: datetime) -> list[PastAttempt]:
        """The turns by messages that began at a time or later."""
        ...

    def declared(self, tenant: str, session_id: str) -> list[tuple[int, DeclaredKind]]: ...
    def placed(self, session_id: str) -> dict[int, str]:
        """Turn to the engine worker that serves the session's turns from then on."""
        ...

    def receipts(self, *, turn_id: str | None = None, session_id: str | None = None) -> list[Receipt]: ...
    def feedback_ids(self) -> list[tuple[str, str]]: ...
    def feedback(self, tenant: str, feedback_id: str) -> list[Feedback]: ...
