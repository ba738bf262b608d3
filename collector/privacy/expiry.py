"""Which sessions have expired: by age, and by size the ones that were idle for longest."""

from collections.abc import Collection
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import polars as pl

from collector.privacy.config import RetentionConfig
from collector.store.layout import Layout
from collector.store.reader import Reader


class Expired(NamedTuple):
    """A session that is to go."""

    tenant: str
    session_id: str
    turn_ids: tuple[str, ...]
    routes: tuple[str, ...]
    """Files of captured expert routes."""


def expired_sessions(store: Path, writer: str, config: RetentionConfig, now: datetime) -> list[Expired]:
    """The sessions of one writer that have expired, the one that was idle for longest first.

    Sessions that another journal holds turns of are left alone, and so is a store with damage: what is missing there
    may be the newest turn of a session.
    """
    columns = ["session_id", "turn_id", "tenant", "started_at", "finished_at", "routed_experts", "writer"]
    columns += ["prompt_prefix_tokens", "completion_ids", "new_prompt_ids", "new_messages", "response"]
    with Reader(store).snapshot(["turns"]) as snapshot:
        if snapshot.damage:
            return []
        turns = snapshot.frame("turns", columns=columns)
    if turns.is_empty():
        return []
    weight = 64 + 8 * pl.col("completion_ids").list.len() + 4 * pl.col("new_prompt_ids").list.len()
    weight += pl.col("new_messages").str.len_bytes().fill_null(0) + pl.col("response").str.len_bytes().fill_null(0)
    sessions = (
        turns.with_columns(weight=weight, at=pl.max_horizontal("started_at", "finished_at"))
        .group_by("session_id")
        .agg(
            pl.col("at").max(),
            pl.col("weight").sum(),
            pl.col("tenant").unique(),
            pl.col("writer").unique(),
            pl.col("turn_id"),
            pl.col("routed_experts").drop_nulls(),
        )
        .sort("at", "session_id")
    )
    gone = _expired(sessions, config, now, store_bytes(store))
    ours = sessions.filter(pl.col("session_id").is_in(list(gone)))
    return [
        Expired(row["tenant"][0], row["session_id"], tuple(row["turn_id"]), tuple(row["routed_experts"]))
        for row in ours.iter_rows(named=True)
        if row["writer"] == [writer] and len(row["tenant"]) == 1
    ]


def store_bytes(store: Path) -> int:
    """Bytes of the journals and segments."""
    layout = Layout(store)
    found = [*layout.journals.glob("*"), *layout.segments.rglob("*.parquet")]
    return sum(path.stat().st_size for path in found if path.is_file())


def _expired(sessions: pl.DataFrame, config: RetentionConfig, now: datetime, size: int) -> Collection[str]:
    idle = sessions.filter(pl.col("at") <= now - timedelta(seconds=config.idle_s))
    gone: set[str] = set()
    if config.max_age_days is not None:
        gone.update(idle.filter(pl.col("at") < now - timedelta(days=config.max_age_days))["session_id"])
    if config.max_bytes is not None and size > config.max_bytes:
        # Their share of all bytes, by what they hold; the next look corrects what this one guessed.
        excess = (size - config.max_bytes) / size * float(sessions["weight"].sum())
        freed = idle.with_columns(before=pl.col("weight").cum_sum() - pl.col("weight"))
        gone.update(freed.filter(pl.col("before") < excess)["session_id"])
    return gone
