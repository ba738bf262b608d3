"""How much traffic there was, what became of it, and who it was of."""

from datetime import datetime, timedelta

import msgspec
import polars as pl

from checks.session_rewards import latest_rewards
from collector.trainable import REASONS
from console.watch.held import Held

TRAINED = ("traffic", "canary")
"""Purposes whose turns may be trained on."""
BUCKET_S, BUCKETS = 60, 30
"""The pace is counted per minute, for half an hour before what is shown."""
NO_REWARD = "no reward yet: no feedback, or its window is still open"
NOT_USED = "trainable and rewarded, not scored by the trainer yet"


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    """How much got so far on its way to the trainer."""

    name: str
    turns: int
    sessions: int


class Reason(msgspec.Struct, frozen=True, kw_only=True):
    """Why turns did not get to the trainer."""

    reason: str
    """One of `collector.trainable.REASONS`, `no_reward` or `not_used`."""
    meaning: str
    turns: int


class Tenant(msgspec.Struct, frozen=True, kw_only=True):
    """One tenant's share."""

    tenant: str
    sessions: int
    turns: int
    tokens: int | None
    """Sampled tokens; None where none were counted."""
    answered: int
    """Sessions with feedback."""
    trainable: int


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


def stages(held: Held) -> tuple[tuple[Stage, ...], tuple[Reason, ...]]:
    """The way from a request to the trainer, and why turns left it."""
    turns = _with_reward(held).filter(pl.col("purpose").is_null() | pl.col("purpose").is_in(TRAINED))
    complete = turns.filter(pl.col("complete").fill_null(True))
    trainable = complete.filter(pl.col("trainable"))
    rewarded = trainable.filter(pl.col("has_reward"))
    used = rewarded.filter(pl.col("trainer_step").is_not_null())
    named = {"recorded": turns, "complete": complete, "trainable": trainable, "rewarded": rewarded, "scored": used}
    made = tuple(Stage(name=name, turns=rows.height, sessions=_sessions(rows)) for name, rows in named.items())
    left = turns.filter(~pl.col("trainable"))["untrainable_reason"].fill_null("unknown").value_counts(sort=True)
    reasons = [
        Reason(reason=reason, meaning=REASONS.get(reason, "the record does not say"), turns=count)
        for reason, count in left.iter_rows()
    ]
    waiting = (
        ("no_reward", NO_REWARD, trainable.height - rewarded.height),
        ("not_used", NOT_USED, rewarded.height - used.height),
    )
    reasons += [Reason(reason=name, meaning=meaning, turns=count) for name, meaning, count in waiting if count]
    return made, tuple(sorted(reasons, key=lambda reason: -reason.turns))


def _with_reward(held: Held) -> pl.DataFrame:
    """Turns with whether a reward, their own or their session's, is known."""
    known = latest_rewards(held.rewards).drop_nulls("value")
    own = known["turn_id"].drop_nulls().implode()
    whole = known.filter(pl.col("turn_id").is_null())["session_id"].implode()
    has = pl.col("turn_id").is_in(own) | pl.col("session_id").is_in(whole) | pl.col("reward").is_not_null()
    return held.turns.with_columns(has_reward=has.fill_null(False))


def _sessions(rows: pl.DataFrame) -> int:
    return rows["session_id"].n_unique() if rows.height else 0


def judged(held: Held) -> Judged:
    """The feedback that stands, and how long it took."""
    once = held.feedback.unique("feedback_id", keep="first", maintain_order=True)
    replaced = once["feedback_id"].is_in(once["supersedes"].drop_nulls().implode())
    standing = once.filter(~replaced)
    ended = pl.coalesce("finished_at", "started_at")
    own = held.turns.filter(pl.col("turn_id").is_in(standing["turn_id"].drop_nulls().unique().implode()))
    of_turn = own.select("turn_id", turn_session="session_id", turn_end=ended).unique("turn_id")
    placed = standing.join(of_turn, on="turn_id", how="left").with_columns(
        session_id=pl.coalesce("session_id", "turn_session")
    )
    whole = placed.filter(pl.col("turn_end").is_null())["session_id"].drop_nulls().unique()
    theirs = held.turns.filter(pl.col("session_id").is_in(whole.implode()))
    of_session = theirs.group_by("session_id").agg(session_end=ended.max())
    placed = placed.join(of_session, on="session_id", how="left")
    took = (pl.col("at") - pl.coalesce("turn_end", "session_end")).dt.total_microseconds() / 1e6
    delays = placed.select(took.alias("s"))["s"].drop_nulls()
    values = standing["value"].drop_nulls()
    return Judged(
        judgements=standing.height,
        replaced=int(replaced.sum()),
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
    """Turns begun in each of the last minutes, the oldest first; the last one is under way. Empty without a time."""
    if at is None:
        return ()
    begun = held.turns["started_at"].drop_nulls()
    since = at - timedelta(seconds=BUCKET_S * BUCKETS)
    recent = begun.filter((begun > since) & (begun <= at))
    minutes = ((recent - since).dt.total_microseconds() - 1) // (BUCKET_S * 1_000_000)
    counts = dict(minutes.value_counts().iter_rows())
    return tuple(counts.get(minute, 0) for minute in range(BUCKETS))


def failed(held: Held) -> dict[str, int]:
    """How many turns did not reach their end, by how they finished."""
    lost = held.turns.filter(~pl.col("complete").fill_null(True))["finish_reason"].fill_null("unknown")
    return dict(lost.value_counts(sort=True).iter_rows())


def tenants(sessions: pl.DataFrame) -> tuple[Tenant, ...]:
    """What each tenant has, the most turns first; of the rows of `trace.session_rows`."""
    rows = sessions.group_by(pl.col("tenant").fill_null("n/d"), maintain_order=True).agg(
        sessions=pl.len(),
        turns=pl.col("turns").sum(),
        tokens=pl.when(pl.col("tokens").count() > 0).then(pl.col("tokens").sum()),
        answered=pl.col("judgements").count(),
        trainable=pl.col("trainable").fill_null(0).sum(),
    )
    ordered = rows.sort("turns", "tenant", descending=[True, False])
    return tuple(Tenant(**row) for row in ordered.iter_rows(named=True))
