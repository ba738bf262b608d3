"""What a store holds of some tenants, less the token ids: sessions of turns, feedback and events."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec
import polars as pl

from collector.records import Feedback
from collector.store.snapshot import Snapshot

Place = tuple[str, int]
"""Writer and seq of a turn: unique in a store, whatever its turn_id is."""

_TURN = (
    "turn_id",
    "session_id",
    "turn",
    "parent_turn_id",
    "link",
    "group_id",
    "tenant",
    "adapter",
    "adapter_version",
    "base_model",
    "purpose",
    "started_at",
    "finished_at",
    "finish_reason",
    "temperature",
    "trainable",
    "untrainable_reason",
)
_FEEDBACK = tuple(name for name in Feedback.__struct_fields__ if name != "text")


class TurnFacts(NamedTuple):
    """A turn without its ids."""

    place: Place
    """Where the store keeps it."""
    turn_id: str
    session_id: str
    turn: int
    parent_turn_id: str | None
    link: str
    group_id: str | None
    tenant: str
    adapter: str | None
    adapter_version: int | None
    base_model: str | None
    purpose: str
    started_at: datetime
    finished_at: datetime | None
    finish_reason: str | None
    temperature: float | None
    trainable: bool
    untrainable_reason: str | None
    tokens: int
    """Sampled tokens: those that loss could be on."""

    @property
    def ended_at(self) -> datetime:
        """When it ended; when it began, where no end was seen."""
        return self.finished_at or self.started_at


class CapturedSession(NamedTuple):
    """All turns of one agent run."""

    session_id: str
    turns: tuple[TurnFacts, ...]
    """In the order of their numbers; at least one."""

    @property
    def started_at(self) -> datetime:
        """When its first turn began."""
        return min(turn.started_at for turn in self.turns)

    @property
    def ended_at(self) -> datetime:
        """When its last turn ended."""
        return max(turn.ended_at for turn in self.turns)

    @property
    def group_id(self) -> str | None:
        """The group that its first turn with one names."""
        return next((turn.group_id for turn in self.turns if turn.group_id is not None), None)


class DeclaredEvent(NamedTuple):
    """What was declared of a session or of one of its turns."""

    kind: str
    turn: int | None
    """None is the whole session."""


class TenantCapture(NamedTuple):
    """What was captured of one tenant."""

    sessions: tuple[CapturedSession, ...]
    """The oldest first."""
    feedback: tuple[Feedback, ...]
    """Without its text."""
    events: Mapping[str, Sequence[DeclaredEvent]]
    """Session to what was declared of it, in the order of declaration."""


def read_captures(snapshot: Snapshot, tenants: Collection[str]) -> dict[str, TenantCapture]:
    """What the store holds of each of the tenants. Sessions of two tenants are two, whatever they are called."""
    turns: dict[str, dict[str, list[TurnFacts]]] = {tenant: {} for tenant in tenants}
    for turn in _turns(snapshot, tenants):
        turns[turn.tenant].setdefault(turn.session_id, []).append(turn)
    feedback: dict[str, list[Feedback]] = {tenant: [] for tenant in tenants}
    for row in snapshot.frame("feedback", columns=_FEEDBACK).iter_rows(named=True):
        if row["tenant"] in feedback:
            feedback[row["tenant"]].append(msgspec.convert(row, Feedback))
    events: dict[str, list[DeclaredEvent]] = {}
    columns = ("kind", "session_id", "turn")
    for kind, session, turn in snapshot.frame("events", columns=columns).iter_rows():
        events.setdefault(session, []).append(DeclaredEvent(kind, turn))
    return {
        tenant: TenantCapture(_sessions(turns[tenant]), tuple(feedback[tenant]), events) for tenant in sorted(tenants)
    }


def frames(
    snapshot: Snapshot, columns: Sequence[str], *, since: Mapping[str, int] | None = None
) -> Iterator[pl.DataFrame]:
    """Turns, a bounded number at a time, in the order of writers and their seqs."""
    for batch in snapshot.batches("turns", columns=columns, since=since):  # pyright: ignore[reportUnknownVariableType]
        frame = pl.from_arrow(batch)  # pyright: ignore[reportUnknownArgumentType]
        assert isinstance(frame, pl.DataFrame)
        yield frame


def _turns(snapshot: Snapshot, tenants: Collection[str]) -> Iterator[TurnFacts]:
    for frame in frames(snapshot, ("writer", "seq", *_TURN, "completion_ids")):
        wanted = frame.filter(pl.col("tenant").is_in(list(tenants)))
        columns = wanted.select("writer", "seq", *_TURN, pl.col("completion_ids").list.len())
        yield from (TurnFacts((writer, seq), *its) for writer, seq, *its in columns.iter_rows())


def _sessions(turns: Mapping[str, list[TurnFacts]]) -> tuple[CapturedSession, ...]:
    sessions = [
        CapturedSession(name, tuple(sorted(its, key=lambda turn: (turn.turn, turn.started_at, turn.place))))
        for name, its in turns.items()
    ]
    return tuple(sorted(sessions, key=lambda session: (session.started_at, session.session_id)))
