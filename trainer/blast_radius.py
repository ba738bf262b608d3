"""Whom a change of an adapter's version touches: the sessions that it serves now. Imports no torch."""

from datetime import datetime, timedelta
from typing import Final, NamedTuple

import polars as pl

from collector.store.snapshot import Snapshot

OPEN_S: Final = 3600.0
"""A session counts as open so long after its last turn began; the default of the trainer's reward window."""
COLUMNS: Final = ("session_id", "tenant", "adapter", "adapter_version", "started_at", "purpose")
"""What is read of the turns."""


class BlastRadius(NamedTuple):
    """What a version serves now."""

    sessions: int
    """Open sessions whose last turn it served."""
    tenants: tuple[str, ...]
    """Their owners."""
    share: float | None
    """Those of all open sessions; None where none is open."""


def blast_radius(
    snapshot: Snapshot, adapter: str, version: int, *, now: datetime, open_s: float = OPEN_S
) -> BlastRadius:
    """The open sessions of users (evaluations and probes are none) that a version serves.

    Version 0 is the base model: turns of its adapter that name it, by whatever name the client asked for it.
    """
    return served_of(open_sessions(snapshot.frame("turns", columns=COLUMNS), now=now, open_s=open_s), adapter, version)


def open_sessions(turns: pl.DataFrame, *, now: datetime, open_s: float = OPEN_S) -> pl.DataFrame:
    """The last turn of every open session of users; `turns` has `COLUMNS`."""
    of_users = pl.col("purpose").is_in(["traffic", "canary"]) & (pl.col("started_at") > now - timedelta(seconds=open_s))
    return turns.filter(of_users).sort("started_at", maintain_order=True).group_by("tenant", "session_id").last()


def served_of(opened: pl.DataFrame, adapter: str, version: int) -> BlastRadius:
    """What of `open_sessions` a version serves."""
    served = opened.filter((pl.col("adapter") == adapter) & (pl.col("adapter_version") == version))
    tenants = tuple(sorted(served["tenant"].unique().to_list()))
    return BlastRadius(served.height, tenants, served.height / opened.height if opened.height else None)
