"""The latest part of what is held, as `roundhouse check --watch` takes it."""

from datetime import datetime, timedelta

import msgspec
import polars as pl

from checks.readers.store_window import Window
from console.watch.adapter_names import adapter_names
from console.watch.held import Held

_ENDED = pl.coalesce("finished_at", "started_at")
_TIMES = {"steps": "at", "spans": "to", "events": "at"}


def held_within(held: Held, window: Window, now: datetime) -> Held:
    """Turns by when they ended, with their rewards and feedback; steps, spans and events by their own time.

    Evaluations, runs and versions are all there.
    """
    turns = _latest(held.turns, window, now)
    cutoff = _cutoff(turns, window, now)
    of_session = pl.col("session_id").is_in(turns["session_id"].unique().implode())
    of_turn = pl.col("turn_id").is_in(turns["turn_id"].drop_nulls().implode())
    frames = {"turns": turns, "rewards": held.rewards.filter(of_session)}
    frames["feedback"] = held.feedback.filter(of_turn.fill_null(False) | (pl.col("turn_id").is_null() & of_session))
    for table, time in _TIMES.items():
        rows: pl.DataFrame = getattr(held, table)
        if cutoff is not None:
            late = pl.col(time) >= cutoff
            rows = rows.filter(late | of_session if table == "events" else late)
        frames[table] = rows
    named = adapter_names(held)
    return held._replace(**frames, named=named, source=msgspec.structs.replace(held.source, window=window.name))


def _latest(turns: pl.DataFrame, window: Window, now: datetime) -> pl.DataFrame:
    if window.turns is not None:
        return turns.sort(_ENDED, "writer", "seq").tail(window.turns)
    assert window.seconds is not None
    return turns.filter(now - timedelta(seconds=window.seconds) <= _ENDED)


def _cutoff(turns: pl.DataFrame, window: Window, now: datetime) -> datetime | None:
    """From when on other records are in the window; None for always."""
    if window.seconds is not None:
        return now - timedelta(seconds=window.seconds)
    if window.turns is None or turns.height < window.turns:
        return None
    first = turns["started_at"].min()
    return first if isinstance(first, datetime) else None
