"""Erases whole sessions from a store: every journal, log, segment, captured route, quarantined file, the registry."""

import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import polars as pl

from collector.config import StoreConfig
from collector.errors import StoreError
from collector.records import TABLES
from collector.store.columns import stored_columns
from collector.store.erase import Erasure
from collector.store.layout import Layout, existing_store
from collector.store.mentions import Mentions
from collector.store.reader import Reader
from collector.store.registry_mentions import forget_in_registry
from collector.store.registry_rows import read_registry
from collector.store.segments import Hook, no_hook
from collector.store.snapshot import Snapshot
from collector.store.trained_versions import TrainedVersion, versions_trained_on
from collector.store.user_sessions import sessions_of_user
from collector.store.writer import Writer


class Forgotten(NamedTuple):
    """What was erased, or what would be."""

    sessions: tuple[str, ...]
    turns: int
    records: int
    remains: int
    """Files of damaged journals and segments that were deleted, since they may hold what was to be erased."""
    versions: tuple[TrainedVersion, ...]
    """Adapter versions that were trained on the turns, and those that continue from one of them."""


class _Found(NamedTuple):
    sessions: tuple[str, ...]
    turns: pl.DataFrame
    erasure: Erasure
    versions: tuple[TrainedVersion, ...]


def forget(
    store: Path,
    sessions: Sequence[str] = (),
    *,
    user_hashes: Sequence[str] = (),
    dry_run: bool = False,
    hook: Hook = no_hook,
) -> Forgotten:
    """Erases the sessions, and all that the users judged; needs every writer of the store stopped, and erases
    nothing when one is not. A dry run only says what would go, and needs no writer stopped."""
    layout = existing_store(store)
    if dry_run:
        found = _look(store, sessions, user_hashes)
        with Reader(store).snapshot() as snapshot:
            records = sum(_count(snapshot, table, found.erasure) for table in TABLES)
        return Forgotten(found.sessions, found.turns.height, records, len(_remains(layout)), found.versions)
    with ExitStack() as opened:
        writers = [
            opened.enter_context(Writer(store, name, StoreConfig(seal_interval_s=1e9), hook=hook))
            for name in layout.writers()
        ]
        found = _look(store, sessions, user_hashes)
        remains = _remains(layout)
        if remains:
            shutil.rmtree(layout.quarantine)
        records = sum(writer.erase(found.erasure) for writer in writers)
        forget_in_registry(store, Mentions(found.erasure.names))
        for routes in found.turns["routed_experts"].drop_nulls():
            unlink_inside(store, routes)
    return Forgotten(found.sessions, found.turns.height, records, len(remains), found.versions)


def unlink_inside(store: Path, relative: str) -> None:
    """Deletes a file of the store; a path that leads out of it is left alone."""
    path = (store / relative).resolve()
    if path.is_relative_to(store.resolve()):
        path.unlink(missing_ok=True)


def _look(store: Path, sessions: Sequence[str], user_hashes: Sequence[str]) -> _Found:
    with Reader(store).snapshot() as snapshot:
        turns = snapshot.frame("turns", columns=["session_id", "turn_id", "tenant", "routed_experts", "writer", "seq"])
        judged = [name for each in user_hashes for name in sessions_of_user(snapshot, turns, each)]
        named = tuple(dict.fromkeys([*sessions, *judged]))
        _check_known(store, snapshot, turns, sessions)
        feedback = snapshot.frame("feedback", columns=["feedback_id", "session_id", "turn_id", "user_hash"])
    turns = turns.filter(pl.col("session_id").is_in(list(named)))
    places = set(turns.select("writer", "seq").rows())
    turn_ids = frozenset(turns["turn_id"])
    theirs = pl.col("session_id").is_in(list(named)) | pl.col("turn_id").is_in(list(turn_ids))
    theirs |= pl.col("user_hash").is_in(list(user_hashes))
    judgements = frozenset(feedback.filter(theirs.fill_null(False))["feedback_id"])
    erasure = Erasure(frozenset(named), turn_ids, frozenset(user_hashes), feedback_ids=judgements)
    # Before anything goes: afterwards nobody knows any more whose records the ranges were of.
    return _Found(named, turns, erasure, tuple(versions_trained_on(read_registry(store).versions, places)))


def _check_known(store: Path, snapshot: Snapshot, turns: pl.DataFrame, sessions: Sequence[str]) -> None:
    named = [snapshot.frame(table, columns=["session_id"])["session_id"] for table in ("rewards", "feedback", "events")]
    unknown = set(sessions).difference(turns["session_id"], *named)
    if unknown:
        raise StoreError(f"{store}: no session {sorted(unknown)[0]!r}, expected sessions of this store; nothing erased")


def _count(snapshot: Snapshot, table: str, erasure: Erasure) -> int:
    keys = {"session_id", "turn_id", "user_hash"}.intersection(column.name for column in stored_columns(table))
    rows = snapshot.arrow(table, columns=sorted(keys))  # pyright: ignore[reportUnknownVariableType]
    return sum(erasure.mask(rows)) if keys else 0  # pyright: ignore[reportUnknownArgumentType]


def _remains(layout: Layout) -> list[Path]:
    return [path for path in layout.quarantine.rglob("*") if path.is_file()]
