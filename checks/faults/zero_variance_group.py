"""Groups whose rewards are all equal and give no gradient, and rewards that are missing or disagree."""

from collections.abc import Iterator

import polars as pl

from checks.finding import Evidence, Finding, Status, Threshold, grade, kept, worst
from checks.group_advantage import all_equal
from checks.session_rewards import session_rewards

_NEXT = ("the difficulty of the tasks: all solved or none", "pass-at-k", "truncation (a cut answer earns nothing)")


def zero_variance_group(
    turns: pl.DataFrame,
    rewards: pl.DataFrame,
    advantages: pl.DataFrame,
    *,
    warn_at: float = 0.5,
    fail_at: float | None = None,
) -> Finding:
    """Groups whose rewards are all equal and give no gradient, and rewards that are missing or disagree.

    Definition: a group is the sessions of one group_id, else of one task_id (in one trainer step, where that is known).
    Of groups with two or more rewarded sessions, the share whose rewards differ by no more than float32 rounding: their
    group-relative advantage is 0. A group of one session has no advantage within the group and is counted apart. A
    session's reward may stand on any of its turns or in the table of rewards; values that disagree, and NaN or
    infinity, leave the session without one. Turns of purpose eval and probe do not count. Advantages under loss that
    are no finite number, as a standard deviation of 0 in the divisor gives them, are a fault of their turn.
    Units: share of groups, 0 to 1.
    Reads: turns(session_id, group_id, task_id, trainer_step, purpose, reward, loss_mask, completion_ids),
    rewards(session_id, turn_id, value), scores(advantages).
    Threshold: warn 0.5, the advisory of the Miles dashboard; disagreeing rewards and advantages that are not finite
    fail, a session without reward in a group that has some warns.
    Check next: the difficulty of the tasks; pass-at-k; truncation.
    """
    sessions = _grouped(turns, rewards)
    infinite = list(_not_finite(advantages))
    faulty = bool(infinite) or bool(sessions.select((pl.col("disagrees") | pl.col("not_finite")).any()).item())
    if sessions["reward"].null_count() == sessions.height and not faulty:
        said = _why_none(turns, rewards)
        return Finding.no_data("zero-variance-group", said, missing=("turns.reward", "rewards.value"))
    disagreeing = list(_disagreeing(sessions))
    groups = _groups(sessions)
    compared = groups.filter(pl.col("rewarded") >= 2)
    equal = compared.filter(pl.Series([all_equal(each) for each in compared["rewards"].to_list()], dtype=pl.Boolean))
    partly = groups.filter((pl.col("rewarded") > 0) & (pl.col("rewarded") < pl.col("sessions")))
    share = equal.height / compared.height if compared.height else None
    if share is None and not faulty and partly.is_empty():
        what = "no group has two rewarded sessions" if groups.height else "no turn says its group or task"
        return Finding.no_data("zero-variance-group", what, missing=("turns.group_id", "turns.task_id"))
    level: Status = "ok" if share is None else grade(share, warn_at=warn_at, fail_at=fail_at)
    evidence, omitted = kept([*infinite, *disagreeing, *_missing(partly), *_equal(equal)])
    return Finding(
        check="zero-variance-group",
        status=worst([level, *(["fail"] if faulty else []), *(["warn"] if partly.height else [])]),
        value=share,
        unit="share of groups",
        threshold=Threshold(warn=warn_at, fail=fail_at),
        summary=_summary(groups, compared.height, equal.height, partly.height, len(disagreeing))
        + (f"; {len(infinite)} turns have advantages that are not finite" if infinite else ""),
        check_next=_NEXT if evidence else (),
        evidence=evidence,
        evidence_omitted=omitted,
    )


def _why_none(turns: pl.DataFrame, rewards: pl.DataFrame) -> str:
    observed = rewards.filter(pl.col("value").is_not_null())
    if observed.height and observed["turn_id"].null_count() == 0:
        return "every reward is of a single turn, and none of a session"
    evaluated = turns["reward"].count() > 0 or observed.height > 0
    return "only evaluations have a reward, and no training session" if evaluated else "no session has a reward"


def _grouped(turns: pl.DataFrame, rewards: pl.DataFrame) -> pl.DataFrame:
    """The training sessions with their reward and group; `group` is null where none is known."""
    text = pl.col("group_id", "task_id").cast(pl.String).drop_nulls().first()
    told = turns.group_by("session_id", maintain_order=True).agg(text, pl.col("trainer_step").drop_nulls().first())
    joined = session_rewards(turns, rewards).join(told, on="session_id", how="left", maintain_order="left")
    by_task = pl.when(pl.col("group_id").is_null()).then("trainer_step")
    return joined.with_columns(group=pl.coalesce("group_id", "task_id"), of_step=by_task.cast(pl.Int64))


def _groups(sessions: pl.DataFrame) -> pl.DataFrame:
    return (
        sessions.drop_nulls("group")
        .group_by("group", "of_step", maintain_order=True)
        .agg(
            sessions=pl.len(),
            rewarded=pl.col("reward").count(),
            rewards=pl.col("reward").drop_nulls(),
            without=pl.col("session_id").filter(pl.col("reward").is_null()),
        )
    )


def _disagreeing(sessions: pl.DataFrame) -> Iterator[Evidence]:
    wrong = sessions.filter(pl.col("disagrees") | pl.col("not_finite"))
    for session, group, low, high, disagrees in wrong.select(
        "session_id", "group", "lowest", "highest", "disagrees"
    ).iter_rows():
        said = (
            f"rewards of one session disagree: {low:g} to {high:g}" if disagrees else "a reward is not a finite number"
        )
        detail = {"lowest": low, "highest": high}
        kind = None if disagrees else "not_finite"
        yield Evidence(session_id=session, group_id=group, kind=kind, status="fail", text=said, detail=detail)


def _not_finite(advantages: pl.DataFrame) -> Iterator[Evidence]:
    for session, turn, index, tokens in advantages.select("session_id", "turn", "token_index", "tokens").iter_rows():
        yield Evidence(
            session_id=session,
            turn=turn,
            token_index=index,
            kind="not_finite",
            status="fail",
            value=tokens,
            text=f"advantages of {tokens} tokens are no finite numbers",
        )


def _missing(partly: pl.DataFrame) -> Iterator[Evidence]:
    for group, count, rewarded, without in partly.select("group", "sessions", "rewarded", "without").iter_rows():
        said = f"{count - rewarded} of {count} sessions have no usable reward, the first is {without[0]}"
        yield Evidence(group_id=group, session_id=without[0], status="warn", value=count - rewarded, text=said)


def _equal(equal: pl.DataFrame) -> Iterator[Evidence]:
    for group, step, rewards in equal.select("group", "of_step", "rewards").iter_rows():
        said = f"all {len(rewards)} rewards are {rewards[0]:g}"
        yield Evidence(group_id=group, step=step, status="info", value=rewards[0], text=said)


def _summary(groups: pl.DataFrame, compared: int, equal: int, partly: int, disagreeing: int) -> str:
    parts = [f"{equal} of {compared} groups have equal rewards and give no gradient"]
    alone = groups.filter(pl.col("sessions") == 1).height
    bare = groups.filter(pl.col("rewarded") == 0).height
    for count, said in (
        (alone, "groups have one session"),
        (partly, "groups have sessions without reward"),
        (bare, "groups have no reward at all"),
        (disagreeing, "sessions have rewards that disagree or are not finite"),
    ):
        if count:
            parts.append(f"{count} {said}")
    return "; ".join(parts)
