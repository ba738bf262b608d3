"""One row per session of what is held: what the list of trajectories shows, sorts and filters by."""

import polars as pl

from checks.measures.parts import part
from checks.session_rewards import one_reward_each
from console.watch.held import Held
from console.watch.kept import Kept
from console.watch.standing import standing

_KEPT: Kept[pl.DataFrame] = Kept()


def session_rows(held: Held) -> pl.DataFrame:
    """The rows of what is held, the newest session first; made once for the same frames."""
    frames = (held.turns, held.rewards, held.feedback, held.events)
    tokens = (held.tokens.weights, held.tokens.breaks, held.tokens.drift)
    return _KEPT.of((*frames, *tokens), lambda: _session_rows(held))


def _session_rows(held: Held) -> pl.DataFrame:
    """Sessions with their counts; a number that was not observed is null, never 0."""
    rows = _counts(held.turns, _placed(held))
    for more in (_breaks(held), drift_rows(held), _rewards(held), _feedback(held), _weights(held)):
        rows = rows.join(more, on="session_id", how="left", maintain_order="left")
    looked = pl.lit(held.tokens.drift is not None) & pl.col("has_completions")
    return rows.with_columns(
        retok=pl.coalesce("retok", pl.when(looked).then(pl.lit(0, pl.Int64))),
        breaks=pl.coalesce("breaks", pl.when("placed").then(pl.lit(0, pl.Int64))),
        reward=pl.coalesce("rewarded", "reward"),
        served=pl.when(pl.col("adapter").is_not_null()).then(
            pl.format("{}@{}", "adapter", pl.col("adapter_version").cast(pl.String).fill_null("?"))
        ),
    ).sort("last_at", "session_id", descending=[True, False], nulls_last=True, maintain_order=True)


def _counts(turns: pl.DataFrame, placed: pl.Expr) -> pl.DataFrame:
    reasons = turns.filter(pl.col("untrainable_reason").is_not_null()).group_by(
        "session_id", why_not="untrainable_reason"
    )
    commonest = reasons.len().sort("len", "why_not", descending=[True, False]).unique("session_id", keep="first")
    names = ("tenant", "adapter", "adapter_version", "task_id", "group_id", "purpose", "reward")
    known = [name for name in names if turns[name].null_count() < turns.height]
    counts = turns.group_by("session_id").agg(
        *(pl.col(name).last(ignore_nulls=True) for name in known),
        *(pl.lit(None, turns.schema[name]).first().alias(name) for name in names if name not in known),
        turns=pl.len().cast(pl.Int64),
        first_turn=pl.col("turn").min(),
        tokens=_number_of(pl.col("completion_tokens")),
        context=(pl.col("prompt_tokens") + pl.col("completion_tokens")).max(),
        first_at=pl.col("started_at").min(),
        last_at=pl.coalesce("finished_at", "started_at").max(),
        subagents=_number_of(pl.col("link") == "subagent"),
        compactions=_number_of(pl.col("link") == "compaction"),
        trainable=_number_of(pl.col("trainable")),
        cut=_number_of(pl.col("finish_reason") == "length"),
        failed=_number_of(~pl.col("complete")),
        placed=placed.all(),
        has_completions=pl.col("completion_tokens").is_not_null().all(),
    )
    return counts.join(commonest.select("session_id", "why_not"), on="session_id", how="left")


def _number_of(what: pl.Expr) -> pl.Expr:
    """A sum, or how many are true; null where nothing was observed."""
    return pl.when(what.count() > 0).then(what.cast(pl.Int64).sum())


def _placed(held: Held) -> pl.Expr:
    """Whether it is known of a turn if it breaks: it has ids that were compared, or was captured."""
    measured = pl.lit(held.tokens.breaks is not None)
    has_ids = pl.col("prompt_tokens").is_not_null() & pl.col("completion_tokens").is_not_null()
    return pl.when(measured).then(has_ids).otherwise(pl.col("link").is_not_null())


def breaks_known(held: Held) -> bool:
    """Whether it is known of any turn if it breaks."""
    return bool(held.turns.select(_placed(held).any()).item())


def break_rows(held: Held) -> pl.DataFrame:
    """`session_id, turn, kind` of every turn that breaks: as measured in a log, as captured in a store."""
    breaks = held.tokens.breaks
    if breaks is not None:
        declared = held.events.filter(pl.col("kind").is_in(["compaction", "subagent"])).select("session_id", "turn")
        meant = breaks.filter(pl.col("relation") == "previous").join(
            declared.with_columns(pl.col("turn").cast(pl.Int64)), on=["session_id", "turn"], how="anti"
        )
        return meant.select("session_id", "turn", pl.col("kind").fill_null("other"))
    captured = held.turns.filter(pl.col("link") == "break")
    kind = pl.col("break_kind") if "break_kind" in captured.columns else pl.lit(None, pl.String)
    return captured.select("session_id", "turn", kind.fill_null("other").alias("kind"))


def _breaks(held: Held) -> pl.DataFrame:
    rows = break_rows(held).sort("turn", nulls_last=True, maintain_order=True)
    return rows.group_by("session_id").agg(
        breaks=pl.len().cast(pl.Int64), break_turn=pl.col("turn").first(), break_kind=pl.col("kind").first()
    )


def drift_rows(held: Held) -> pl.DataFrame:
    """`session_id, retok`: turns of a session that come back as other ids, where there are some."""
    nothing = pl.DataFrame(schema={"session_id": pl.String, "retok": pl.Int64})
    drift = held.tokens.drift
    if drift is None or drift.is_empty():
        return nothing
    faults = drift["faults"].explode().drop_nulls()
    if faults.is_empty():
        return nothing
    counted = faults.struct.unnest().filter(~pl.col("cut"))
    return counted.group_by("session_id").agg(retok=pl.col("turn").n_unique().cast(pl.Int64))


def _rewards(held: Held) -> pl.DataFrame:
    """The session's own reward; else the mean of its turns', of each the one that counts."""
    own, value = pl.col("turn_id").is_null(), pl.col("value")
    found = (
        one_reward_each(held.rewards)
        .group_by("session_id")
        .agg(own=value.filter(own).last(), of_turns=value.filter(~own).mean())
    )
    return found.select("session_id", rewarded=pl.coalesce("own", "of_turns"))


def _feedback(held: Held) -> pl.DataFrame:
    """How many judgements stand, and whether they are up (all above 0), down (none) or mixed."""
    counted = standing(held)
    judged = counted["turn_id"].drop_nulls().unique()
    session_of = held.turns.select("turn_id", of_turn="session_id").filter(pl.col("turn_id").is_in(judged.implode()))
    session_of = session_of.unique("turn_id")
    placed = counted.join(session_of, on="turn_id", how="left").with_columns(
        session_id=pl.coalesce("session_id", "of_turn")
    )
    up = (pl.col("value") > 0).drop_nulls()
    said = (
        pl.when(up.count() == 0).then(None).when(up.all()).then(pl.lit("up")).when(~up.any()).then(pl.lit("down"))
    ).otherwise(pl.lit("mixed"))
    return placed.drop_nulls("session_id").group_by("session_id").agg(judgements=pl.len().cast(pl.Int64), feedback=said)


def _weights(held: Held) -> pl.DataFrame:
    """The farthest w of each session among the turns that were kept for evidence."""
    weights = held.tokens.weights
    if "turns" not in weights.columns:
        schema = {"session_id": pl.String, "worst_w": pl.Float64, "worst_turn": pl.Int64, "worst_token": pl.Int64}
        return pl.DataFrame(schema=schema)
    far = part(weights, "turns").sort(pl.col("log_w").abs(), descending=True, maintain_order=True)
    return far.group_by("session_id", maintain_order=True).agg(
        worst_w=pl.col("log_w").first().exp(),
        worst_turn=pl.col("turn").first(),
        worst_token=pl.col("token_index").first(),
    )
