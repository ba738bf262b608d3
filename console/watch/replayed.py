"""What was held at an earlier time, from what is held now."""

from datetime import datetime

import polars as pl

from checks.eval_points import stepped
from checks.measures.parts import narrowed
from console.watch.adapter_names import adapter_names
from console.watch.held import Held, Tokens
from console.watch.registry_then import registry_then
from console.watch.trained_then import TrainedThen, trained_then
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
_MADE_IN = {"steps": "step", "versions": "optimizer_step"}
"""Tables of what training made, and the column that names the step."""
_PLACE = ("session_id", "turn")


def held_until(held: Held, at: datetime) -> Held:
    """Rows recorded later are gone, as is whatever training had not made yet: marks on turns, and what tokens tell."""
    named = adapter_names(held)
    then = trained_then(held.steps, held.versions, at=at, read_at=held.read_at)
    kept = {name: getattr(held, name).filter(_there(held, name, time, at, then)) for name, time in TIMES.items()}
    kept["evals"] = _evals_by_then(held, at, whole=then.whole)
    turns = kept["turns"]
    trained = then.scored(turns)
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
        tokens=_tokens(held.tokens, then, turns.select("session_id", "turn")),
        newest_at=newest(kept),
        replayed_at=at,
        named=named,
        trained=then,
    )


def _evals_by_then(held: Held, at: datetime, *, whole: bool) -> pl.DataFrame:
    """The evaluations that were there: written by then or, where a log does not say when, of weights that were.

    Those were there when their version was registered, else when their step had ended: it, or the first one after it
    that was recorded. Where nothing tells when that was, an evaluation is shown only where the `whole` had been read.
    """
    evals = held.evals
    if not evals["written_at"].null_count():
        return evals.filter(pl.col("written_at") <= at)
    whose = pl.col("adapter").cast(pl.String).fill_null("").alias("whose")
    ended = held.steps.drop_nulls(["step", "at"]).group_by(whose, "step").agg(ended=pl.col("at").min())
    if not (ended["whose"] == "").any():
        # An evaluation that names no adapter may be of any.
        of_any = ended.group_by("step").agg(pl.col("ended").max()).select(pl.lit("").alias("whose"), "step", "ended")
        ended = pl.concat([ended, of_any])
    placed = stepped(evals, held.versions).select(whose, "version", "step").with_row_index("place")
    registered = held.versions.select(whose, "version", "created_at").unique(["whose", "version"], keep="last")
    placed = placed.join(registered, on=["whose", "version"], how="left", maintain_order="left").sort("step")
    found = placed.join_asof(ended.sort("step"), on="step", by="whose", strategy="forward", check_sortedness=False)
    there = found.sort("place").select(pl.coalesce("created_at", "ended")).to_series()
    return evals.filter((pl.coalesce("written_at", there) <= at).fill_null(value=whole))


def _there(held: Held, table: str, time: pl.Expr, at: datetime, then: TrainedThen) -> pl.Series:
    """Which rows of a table were there. One without a time was, but for what training made: that is of its step."""
    rows: pl.DataFrame = getattr(held, table)
    by_time = rows.select((time <= at).alias("there")).to_series()
    if table not in _MADE_IN or not by_time.null_count():
        return by_time.fill_null(True)
    made = then.had(rows, pl.col(_MADE_IN[table]))
    if table == "versions":
        # The base model, and a version that names no step, are made in none.
        made |= rows["optimizer_step"].fill_null(0) == 0
    return by_time.zip_with(by_time.is_not_null(), made)


def newest(frames: dict[str, pl.DataFrame], until: datetime | None = None) -> datetime | None:
    """The time of the newest record of some tables, of those up to a time where one is given."""
    counted = TIMES if until is None else {name: time.filter(time <= until) for name, time in TIMES.items()}
    times = [frames[name].select(time.max()).item() for name, time in counted.items() if name in frames]
    known = [time for time in times if isinstance(time, datetime)]
    return max(known, default=None)


def _tokens(tokens: Tokens, then: TrainedThen, turns: pl.DataFrame) -> Tokens:
    """`turns` are those that were there: `session_id, turn`."""
    breaks, measured = tokens.breaks, (tokens.weights, tokens.lags, tokens.entropies)
    weights, lags, entropies = (_parts_then(parts, then, turns) for parts in measured)
    return tokens._replace(
        signals=tokens.signals.filter(then.had(tokens.signals, pl.col("step"))),
        weights=weights,
        lags=lags,
        entropies=entropies,
        breaks=None if breaks is None else _of_turns(breaks, turns),
        drift=None if tokens.drift is None else _drift_then(tokens.drift, turns),
    )


def _parts_then(parts: pl.DataFrame, then: TrainedThen, turns: pl.DataFrame) -> pl.DataFrame:
    """What training had made by then; parts that do not name a step stay whole."""
    if not parts.width:
        return parts

    def there(rows: pl.DataFrame) -> pl.DataFrame:
        made = then.scored(rows)
        if "column" not in rows.columns:
            return rows.filter(made)
        # What was sampled was there with its turn.
        sampled = pl.col("column") == "sampled_logprobs"
        return _of_turns(rows.filter(made | rows.select(sampled).to_series()), turns)

    return narrowed(parts, "trainer_step", there)


def _drift_then(drift: pl.DataFrame, turns: pl.DataFrame) -> pl.DataFrame:
    """The one row, with the faults of those turns."""
    faults = drift.select(pl.col("faults").explode()).drop_nulls()
    if faults.is_empty():
        return drift
    there = _of_turns(faults.unnest("faults"), turns)
    return drift.with_columns(there.select(faults=pl.struct(pl.all()).implode()).to_series())


def _of_turns(rows: pl.DataFrame, turns: pl.DataFrame) -> pl.DataFrame:
    return rows.join(turns, on=_PLACE, how="semi", maintain_order="left")
