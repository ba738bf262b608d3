"""How much traffic there was, what became of it, and who it was of."""

from datetime import datetime, timedelta
from typing import NamedTuple, get_args

import msgspec
import polars as pl

from checks.session_rewards import latest_rewards
from checks.standing_feedback import superseded
from collector.records import Purpose
from collector.trainable import REASONS
from console.watch.held import Held
from console.watch.standing import standing
from console.watch.status import STORE

TRAINED = ("traffic", "canary")
"""Purposes whose turns may be trained on."""
BUCKET_S, BUCKETS = 60, 30
"""The pace is counted per minute, for half an hour to the newest record."""
NOT_MEANT = "its purpose is another than to be trained on"
UNKNOWN = "the record does not say"
NO_REWARD = "no reward yet: no feedback, or its window is still open"
NOT_USED = "trainable and rewarded, not scored by the trainer yet"


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    """How much got so far on its way to the trainer; None where the record says it of no turn."""

    name: str
    turns: int | None
    sessions: int | None


class Reason(msgspec.Struct, frozen=True, kw_only=True):
    """Why turns did not get to the trainer."""

    reason: str
    """A purpose, one of `collector.trainable.REASONS`, `unknown`, `no_reward` or `not_used`."""
    meaning: str
    turns: int


class Tenant(msgspec.Struct, frozen=True, kw_only=True):
    """One tenant's share."""

    tenant: str
    sessions: int
    turns: int
    tokens: int | None
    """Sampled tokens; None where none were counted."""
    answered: int | None
    """Sessions with feedback; None where feedback is not recorded."""
    trainable: int | None
    """Turns of the stage of that name; None where the record says it of no turn."""


class Delay(msgspec.Struct, frozen=True, kw_only=True):
    """A distribution of times, in seconds; None without one."""

    p50_s: float | None
    p95_s: float | None
    count: int


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """The feedback there is."""

    judgements: int
    """That stand: once each, less what was replaced."""
    replaced: int
    good: int
    """Above 0."""
    bad: int
    """0 or below."""
    sessions: int
    """Sessions with feedback."""
    delay: Delay
    """From the end of what was judged to the judgement."""


class Way(NamedTuple):
    """The way from a request to the trainer."""

    stages: tuple[Stage, ...]
    reasons: tuple[Reason, ...]
    """Why turns left it, the commonest first."""
    trainable: pl.DataFrame | None
    """The turns that got to the stage of that name; None where the record says it of no turn."""


def way(held: Held) -> Way:
    """A condition of which nothing is recorded lets every turn pass, and how many met it is not told."""
    kept = held.source.format == STORE
    rewarded = _rewarded(held, kept=kept)
    scored = _recorded(held.turns["trainer_step"].is_not_null(), kept=kept)
    turns = held.turns.with_columns(rewarded.alias("rewarded"), scored.alias("scored"))
    meant = pl.col("purpose").is_null() | pl.col("purpose").is_in(TRAINED)
    conditions = {
        "complete": (pl.col("complete"), pl.coalesce("untrainable_reason", pl.lit("incomplete"))),
        "trainable": (
            pl.when(meant).then(pl.col("trainable")).otherwise(pl.lit(False)),
            pl.when(meant).then(pl.coalesce("untrainable_reason", pl.lit("unknown"))).otherwise(pl.col("purpose")),
        ),
        "rewarded": (pl.col("rewarded"), pl.lit("no_reward")),
        "scored": (pl.col("scored"), pl.lit("not_used")),
    }
    made, left = [Stage(name="recorded", turns=turns.height, sessions=_sessions(turns))], dict[str, int]()
    reached: dict[str, pl.DataFrame | None] = {}
    for name, (condition, reason) in conditions.items():
        met = turns.select(met=condition.cast(pl.Boolean)).to_series()
        observed = bool(met.any()) or met.null_count() == 0
        passed = met.fill_null(value=not observed)
        why_left = turns.select(pl.when(met.is_null()).then(pl.lit("unknown")).otherwise(reason).alias("why"))
        for why, count in why_left.filter(~passed).to_series().value_counts().iter_rows():
            left[why] = left.get(why, 0) + count
        turns = turns.filter(passed)
        reached[name] = turns if observed else None
        told = (turns.height, _sessions(turns)) if observed else (None, None)
        made.append(Stage(name=name, turns=told[0], sessions=told[1]))
    reasons = [Reason(reason=why, meaning=_meaning(why), turns=count) for why, count in left.items()]
    ordered = sorted(reasons, key=lambda reason: (-reason.turns, reason.reason))
    return Way(tuple(made), tuple(ordered), reached["trainable"])


def _meaning(reason: str) -> str:
    own = {"no_reward": NO_REWARD, "not_used": NOT_USED, "unknown": UNKNOWN}
    return own.get(reason) or REASONS.get(reason) or (NOT_MEANT if reason in get_args(Purpose) else UNKNOWN)


def _recorded(known: pl.Series, *, kept: bool) -> pl.Series:
    """Whether it is known of each turn; of a log that has it of none nobody knows whether there was one."""
    return known if kept or known.any() else pl.repeat(None, len(known), dtype=pl.Boolean, eager=True)


def _rewarded(held: Held, *, kept: bool) -> pl.Series:
    """Whether a reward of each turn, its own or its session's, is known."""
    known = latest_rewards(held.rewards).drop_nulls("value")
    own = known["turn_id"].drop_nulls().implode()
    whole = known.filter(pl.col("turn_id").is_null())["session_id"].implode()
    has = pl.col("turn_id").is_in(own) | pl.col("session_id").is_in(whole) | pl.col("reward").is_not_null()
    return _recorded(held.turns.select(has.fill_null(False).alias("has")).to_series(), kept=kept)


def _sessions(rows: pl.DataFrame) -> int:
    return rows["session_id"].n_unique() if rows.height else 0


def judged(held: Held) -> Judged:
    """The feedback that stands, and how long it took."""
    counted = standing(held)
    ended = pl.coalesce("finished_at", "started_at")
    own = held.turns.filter(pl.col("turn_id").is_in(counted["turn_id"].drop_nulls().unique().implode()))
    of_turn = own.select("turn_id", turn_session="session_id", turn_end=ended).unique("turn_id")
    placed = counted.join(of_turn, on="turn_id", how="left").with_columns(
        session_id=pl.coalesce("session_id", "turn_session")
    )
    whole = placed.filter(pl.col("turn_end").is_null())["session_id"].drop_nulls().unique()
    theirs = held.turns.filter(pl.col("session_id").is_in(whole.implode()))
    of_session = theirs.group_by("session_id").agg(session_end=ended.max())
    placed = placed.join(of_session, on="session_id", how="left")
    took = (pl.col("at") - pl.coalesce("turn_end", "session_end")).dt.total_microseconds() / 1e6
    delays = placed.select(took.alias("s"))["s"].drop_nulls()
    values = counted["value"].drop_nulls()
    return Judged(
        judgements=counted.height,
        replaced=superseded(held.feedback).height,
        good=int((values > 0).sum()),
        bad=int((values <= 0).sum()),
        sessions=placed["session_id"].drop_nulls().n_unique() if placed.height else 0,
        delay=_delay(delays.filter(delays >= 0)),
    )


def first_token(held: Held) -> Delay:
    """From a request to its first sampled token."""
    took = (pl.col("first_token_at") - pl.col("started_at")).dt.total_microseconds() / 1e6
    return _delay(held.turns.select(took.alias("s"))["s"].drop_nulls())


def _delay(seconds: pl.Series) -> Delay:
    p50, p95 = (seconds.quantile(share, interpolation="linear") for share in (0.5, 0.95))
    return Delay(p50_s=p50, p95_s=p95, count=len(seconds))


def pace(held: Held, at: datetime | None) -> tuple[int, ...]:
    """Turns begun in each of the minutes to a time, the oldest first. Empty where no turn has a time."""
    begun = held.turns["started_at"].drop_nulls()
    if at is None or begun.is_empty():
        return ()
    since = at - timedelta(seconds=BUCKET_S * BUCKETS)
    recent = begun.filter((begun > since) & (begun <= at))
    minutes = ((recent - since).dt.total_microseconds() - 1) // (BUCKET_S * 1_000_000)
    counts = dict(minutes.value_counts().iter_rows())
    return tuple(counts.get(minute, 0) for minute in range(BUCKETS))


def failed(held: Held) -> dict[str, int] | None:
    """How many turns did not reach their end, by how they finished; None where of no turn it is recorded."""
    known = held.turns.drop_nulls("complete")
    if known.is_empty() and held.turns.height:
        return None
    return dict(
        known.filter(~pl.col("complete"))["finish_reason"].fill_null("unknown").value_counts(sort=True).iter_rows()
    )


def at_limit(held: Held) -> int | None:
    """How many turns the length limit ended, as the check `truncation` counts; None where no turn says how it ended."""
    known = held.turns["finish_reason"].drop_nulls()
    return int((known == "length").sum()) if len(known) or held.turns.is_empty() else None


def feedback_recorded(held: Held) -> bool:
    """Whether that there is no feedback would be known."""
    return held.source.format == STORE or not held.feedback.is_empty()


def tenants(sessions: pl.DataFrame, trainable: pl.DataFrame | None, *, feedback: bool) -> tuple[Tenant, ...]:
    """What each tenant has, the most turns first; of the rows of `trace.session_rows`, the turns that may be trained
    on, and whether feedback is recorded."""
    of_session = pl.DataFrame(schema={"session_id": pl.String, "may": pl.Int64})
    if trainable is not None:
        of_session = trainable.group_by("session_id").agg(may=pl.len().cast(pl.Int64))
    told = sessions.join(of_session, on="session_id", how="left", maintain_order="left")
    rows = told.group_by(pl.col("tenant").fill_null("n/d"), maintain_order=True).agg(
        sessions=pl.len(),
        turns=pl.col("turns").sum(),
        tokens=pl.when(pl.col("tokens").count() > 0).then(pl.col("tokens").sum()),
        answered=pl.col("judgements").count() if feedback else pl.lit(None, pl.UInt32).first(),
        trainable=pl.col("may").sum() if trainable is not None else pl.lit(None, pl.Int64).first(),
    )
    ordered = rows.sort("turns", "tenant", descending=[True, False])
    return tuple(Tenant(**row) for row in ordered.iter_rows(named=True))
