"""Erases whole sessions from a store: every journal, log, segment, captured route and quarantined file."""

import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import polars as pl

from collector.config import StoreConfig
from collector.errors import StoreError
from collector.store.layout import existing_store
from collector.store.reader import Reader
from collector.store.segments import Hook, no_hook
from collector.store.writer import Writer


class Forgotten(NamedTuple):
    """What was erased."""

    turns: int
    records: int
    remains: int
    """Files of damaged journals and segments that were deleted, since they may hold what was to be erased."""


def forget(store: Path, sessions: Sequence[str], *, hook: Hook = no_hook) -> Forgotten:
    """Erases the sessions; needs every writer of the store stopped, and erases nothing when one is not."""
    layout = existing_store(store)
    with ExitStack() as opened:
        writers = [
            opened.enter_context(Writer(store, name, StoreConfig(seal_interval_s=1e9), hook=hook))
            for name in layout.writers()
        ]
        turns = _turns(store, sessions)
        remains = [path for path in layout.quarantine.rglob("*") if path.is_file()]
        if remains:
            shutil.rmtree(layout.quarantine)
        records = sum(writer.erase(sessions, turns["turn_id"]) for writer in writers)
        for routes in turns["routed_experts"].drop_nulls():
            _unlink_inside(store, routes)
    return Forgotten(turns.height, records, len(remains))


def _turns(store: Path, sessions: Sequence[str]) -> pl.DataFrame:
    with Reader(store).snapshot() as snapshot:
        named = {
            table: snapshot.frame(table, columns=["session_id"])["session_id"]
            for table in ("turns", "rewards", "feedback", "events")
        }
        turns = snapshot.frame("turns", columns=["session_id", "turn_id", "routed_experts"])
    unknown = set(sessions).difference(*named.values())
    if unknown:
        raise StoreError(f"{store}: no session {sorted(unknown)[0]!r}, expected sessions of this store; nothing erased")
    return turns.filter(pl.col("session_id").is_in(list(sessions)))


def _unlink_inside(store: Path, relative: str) -> None:
    path = (store / relative).resolve()
    if path.is_relative_to(store.resolve()):
        path.unlink(missing_ok=True)
