"""What was held at an earlier time, from what is held now."""

from datetime import datetime

import polars as pl

from checks.measures.parts import narrowed
from checks.trained_step import trained_step
from console.watch.adapter_names import adapter_names
from console.watch.held import Held, Tokens
from console.watch.registry_then import registry_then
from console.watch.versions_frame import versions_frame

TIMES = {
    "turns": pl.coalesce("finished_at", "started_at"),
    "rewards": pl.col("closed_at"),
    "feedback": pl.col("at"),
    "steps": pl.col("at"),
    "spans": pl.col("to"),
    "evals": pl.col("written_at"),
    "events": pl.col("at"),
    "runs": pl.col("at"),
    "versions": pl.col("created_at"),
}
"""When a row of each table was recorded."""
_STEPPED = {"adapter", "trainer_step", "trainer_version"}
"""Columns by which a row of a part names the step that trained on it."""


def held_until(held: Held, at: datetime) -> Held:
    """Rows recorded later are gone, as are a later training step's marks on turns and tokens."""
    named = adapter_names(held)
    kept = {name: getattr(held, name).filter((time <= at).fill_null(True)) for name, time in TIMES.items()}
    steps, versions = kept["steps"], held.versions
    last = _last(held.steps, "newest").join(_last(steps, "last"), on="adapter", how="left", nulls_equal=True)
    turns = kept["turns"]
    trained = _trained_by_then(turns, trained_step(versions), last)
    kept["turns"] = turns.with_columns(
        pl.when(trained).then(pl.col(name)).alias(name) for name in ("trainer_step", "trainer_version")
    )
    if held.registry is not None:
        registry = registry_then(held.registry, held.audit, at)
        kept["versions"] = versions_frame(registry.versions)
        held = held._replace(registry=registry)
    return held._replace(
        **kept,
        audit=tuple(change for change in held.audit if change.at <= at),
        tokens=_tokens(held.tokens, last, versions),
        newest_at=newest(kept),
        replayed_at=at,
        named=named,
    )


def newest(frames: dict[str, pl.DataFrame], until: datetime | None = None) -> datetime | None:
    """The time of the newest record of some tables, of those up to a time where one is given."""
    counted = TIMES if until is None else {name: time.filter(time <= until) for name, time in TIMES.items()}
    times = [frames[name].select(time.max()).item() for name, time in counted.items() if name in frames]
    known = [time for time in times if isinstance(time, datetime)]
    return max(known, default=None)


def _tokens(tokens: Tokens, last: pl.DataFrame, versions: pl.DataFrame) -> Tokens:
    signals = tokens.signals.filter(_trained_by_then(tokens.signals, pl.col("step"), last))
    measured = (tokens.weights, tokens.lags, tokens.entropies)
    weights, lags, entropies = (_parts_by_then(parts, last, versions) for parts in measured)
    return tokens._replace(signals=signals, weights=weights, lags=lags, entropies=entropies)


def _parts_by_then(parts: pl.DataFrame, last: pl.DataFrame, versions: pl.DataFrame) -> pl.DataFrame:
    """What training had made by then; parts that do not name a step stay whole."""
    if not parts.width:
        return parts
    return narrowed(
        parts, "trainer_step", lambda rows: rows.filter(_trained_by_then(rows, trained_step(versions), last))
    )


def _last(steps: pl.DataFrame, name: str) -> pl.DataFrame:
    return steps.group_by("adapter").agg(pl.col("step").max().alias(name))


def _trained_by_then(frame: pl.DataFrame, step: pl.Expr, last: pl.DataFrame) -> pl.Series:
    """Whether the step of each row had ended, or begun where no later one has ended since.

    Where the log tells of no step of its adapter, it had.
    """
    stepped = frame.select(pl.col("adapter").cast(pl.String), step=step)
    joined = stepped.join(last, on="adapter", how="left", nulls_equal=True, maintain_order="left")
    ended = pl.col("last").fill_null(-1)
    late = (pl.col("step") > ended) & (ended < pl.col("newest"))
    return joined.select(~late.fill_null(False)).to_series()
