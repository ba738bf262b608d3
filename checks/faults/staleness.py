"""Tokens sampled by weights that are too old for the step that trains on them, or by weights from the future."""

import math
from typing import Any, NamedTuple

import polars as pl

from checks.finding import EVIDENCE_LIMIT, Evidence, Finding, Series, Threshold, grade, kept, worst
from checks.lag import with_lag
from checks.measures.parts import part
from checks.one_source import one_source
from checks.signals import named
from checks.step_curves import step_curves
from checks.token_signals import staleness_by_step
from checks.train_rewards import by_step

_NEXT = ("the age of the oldest sessions in the batch", "stall-time: which side waits", "importance-weight, per lag")
_TOLD = ("session_id", "turn", "token_index", "adapter", "lag", "sampling_version", "trainer_version", "trainer_step")
_FUTURE = "the versions in the log: clocks, a restored checkpoint, or labels of another run"


def staleness(
    lags: pl.DataFrame,
    versions: pl.DataFrame,
    steps: pl.DataFrame,
    *,
    warn_at: float = 4,
    fail_at: float = 8,
    evidence_limit: int = EVIDENCE_LIMIT,
) -> Finding:
    """Tokens sampled by weights that are too old for the step that trains on them, or by weights from the future.

    Definition: per completion token, the step of the trainer's weights less the step of the weights that sampled it:
    of the adapter's version at dispatch, else of the version span that covers the token. In a log that gives only
    version numbers those are read as steps; both sides are always in one unit. Tokens that a stated loss_mask leaves
    out do not count. Mean, least and largest over all tokens; mixed_version_turns counts turns whose spans name more
    than one version. A trainer that makes several updates on one batch scores its tokens once, before the first, while
    each further update trains on them one step staler: where the tokens tell of less than half as many steps as the
    trainer logged, the mean is that of the logged steps, and least and largest are of both. How many updates it makes
    is the trainer's own choice, and the clip bounds what they do: what they add warns and never fails. A negative
    number is an error (version_from_the_future, fail) and is never clipped.
    Units: optimizer steps; value is the largest.
    Reads: turns(adapter, adapter_version, weight_versions, trainer_version, trainer_step, completion_ids, loss_mask),
    scores(trainer_version, trainer_step), versions(optimizer_step), steps(step, adapter, staleness_mean,
    staleness_max).
    Threshold: warn above 4, SkyRL's default max_staleness_steps; fail above 8, prime-rl's default
    max_off_policy_steps: both bound every rollout, so the largest is graded.
    Check next: the age of the oldest sessions in the batch; stall-time; importance-weight by lag.
    """
    counts = part(lags, "counts").row(0, named=True) if lags.height else {"versioned": 0, "trained": 0, "mixed": 0}
    known = pl.DataFrame()
    if "cells" in lags.columns:
        known = with_lag(part(lags, "cells"), versions).drop_nulls("lag")
    if known.is_empty():
        return _logged(steps, warn_at, fail_at) or _nothing(counts)
    tokens, lag = known["tokens"], known["lag"]
    mean, least, most = _int((tokens * lag).sum()) / _int(tokens.sum()), _int(lag.min()), _int(lag.max())
    said = f"mean {mean:.3g}, {least} to {most} over {tokens.sum()} tokens"
    updates = _updates(known, steps, versions)
    if updates.logged.height:
        mean, least, most = updates.mean, min(least, updates.least), max(most, updates.most)
        said = f"mean {mean:.3g}, {least:.3g} to {most:.3g} over {updates.points.height} steps, as the trainer logged"
        said += f" it; where it scored tokens, before their first update, {_int(lag.min())} to {_int(lag.max())}"
    faults = _faults(with_lag(part(lags, "turns"), versions), warn_at)
    evidence = _evidence(faults.head(evidence_limit), warn_at, fail_at)
    omitted = faults.height - len(evidence)
    evidence += _step_faults(updates.logged, warn_at, math.inf)
    beyond = known.filter((pl.col("lag") < 0) | (pl.col("lag") > warn_at))
    return Finding(
        check="staleness",
        status=worst(
            [
                grade(_int(lag.max()), warn_at=warn_at, fail_at=fail_at),
                grade(most, warn_at=warn_at, fail_at=math.inf),
                "fail" if least < 0 else "ok",
            ]
        ),
        value=most,
        unit="optimizer steps",
        threshold=Threshold(warn=warn_at, fail=fail_at),
        summary=f"{said}; {_tail(counts, known)}",
        check_next=((_FUTURE,) if least < 0 else ()) + (_NEXT if most > warn_at else ()),
        evidence=evidence,
        evidence_omitted=omitted + max(0, _int(beyond["turns"].sum()) - faults.height) if _capped(lags) else omitted,
        breakdown=_by_lag(known),
        metrics={
            "staleness_mean": mean,
            "staleness_min": least,
            "staleness_max": most,
            "mixed_version_turns": counts["mixed"],
        },
        series=_series(known, updates.points),
    )


class _Updates(NamedTuple):
    """Staleness by step, and what of it no token tells."""

    points: pl.DataFrame
    """`adapter, step, value`: of each adapter by one source."""
    logged: pl.DataFrame
    """`adapter, step, staleness_mean, lag` as the trainer logged it, lag the largest; of adapters whose source that
    is."""

    @property
    def mean(self) -> float:
        """Over steps, each alike."""
        return float(self.points["value"].sum()) / self.points.height

    @property
    def least(self) -> float:
        """Of the means that were logged."""
        return _float(self.points["value"].min())

    @property
    def most(self) -> float:
        """Of what was logged as the largest, else of the means."""
        return _float(self.logged["lag"].max())


def _updates(known: pl.DataFrame, steps: pl.DataFrame, versions: pl.DataFrame) -> _Updates:
    told, steps = named((staleness_by_step(known, versions), steps))
    sources = told.select("adapter", "step", value="staleness_mean"), by_step(steps, pl.col("staleness_mean"))
    points = one_source(*sources)
    most = by_step(steps, pl.max_horizontal("staleness_mean", "staleness_max")).rename({"value": "lag"})
    means = points.filter(pl.col("source") == 1).select("adapter", "step", staleness_mean="value")
    return _Updates(points.drop("source"), means.join(most, on=["adapter", "step"], nulls_equal=True))


# Any: polars' scalars.
def _float(value: Any) -> float:
    return float(value)


# Any: polars' scalars.
def _int(value: Any) -> int:
    return int(value)


def _capped(lags: pl.DataFrame) -> bool:
    return bool(part(lags, "cells")["turns"].sum() > part(lags, "turns").height)


def _tail(counts: dict[str, int], known: pl.DataFrame) -> str:
    text = f"{counts['mixed']} turns of mixed versions"
    future = known.filter(pl.col("lag") < 0)["tokens"].sum()
    return text + (f"; {future} tokens from versions that the trainer had not reached" if future else "")


def _faults(turns: pl.DataFrame, warn_at: float) -> pl.DataFrame:
    """One row per turn: its first token from the future, else its stalest one. The future first, then by age."""
    return (
        turns.filter((pl.col("lag") < 0) | (pl.col("lag") > warn_at))
        .with_columns(future=pl.col("lag") < 0)
        .sort(["future", pl.col("lag").abs()], descending=True, maintain_order=True)
        .unique(["session_id", "turn"], keep="first", maintain_order=True)
    )


def _evidence(found: pl.DataFrame, warn_at: float, fail_at: float) -> tuple[Evidence, ...]:
    faults: list[Evidence] = []
    for row in found.select(_TOLD).iter_rows(named=True):
        lag = row["lag"]
        trainer = row["trainer_version"] if row["trainer_version"] is not None else row["trainer_step"]
        side = "version" if row["trainer_version"] is not None else "step"
        faults.append(
            Evidence(
                session_id=row["session_id"],
                turn=row["turn"],
                token_index=row["token_index"],
                adapter=row["adapter"],
                kind="version_from_the_future" if lag < 0 else "stale",
                status="fail" if lag < 0 else grade(lag, warn_at=warn_at, fail_at=fail_at),
                value=lag,
                text=f"sampled by version {row['sampling_version']}, the trainer stood at {side} {trainer}",
                detail={name: row[name] for name in ("lag", "sampling_version", "trainer_version", "trainer_step")},
            )
        )
    return tuple(faults)


def _by_lag(known: pl.DataFrame) -> tuple[dict[str, Any], ...]:
    by_lag = known.group_by("adapter", "lag").agg(pl.col("tokens", "turns").sum())
    return tuple(by_lag.sort("adapter", "lag").to_dicts())


def _series(known: pl.DataFrame, points: pl.DataFrame) -> tuple[Series, ...]:
    histogram = known.group_by("lag").agg(pl.col("tokens").sum()).sort("lag")
    bars = Series(
        name="tokens by staleness",
        x_label="optimizer steps",
        y_label="tokens",
        x=tuple(float(lag) for lag in histogram["lag"]),
        y=tuple(float(tokens) for tokens in histogram["tokens"]),
        kind="bars",
    )
    return (bars, *step_curves(points, "mean staleness", "optimizer steps"))


def _logged(steps: pl.DataFrame, warn_at: float, fail_at: float) -> Finding | None:
    """As the trainer logged it per step; None where it did not."""
    told = steps.filter(pl.col("staleness_mean").is_not_null() | pl.col("staleness_max").is_not_null())
    if told.is_empty():
        return None
    means, most = told["staleness_mean"].drop_nulls(), told["staleness_max"].drop_nulls()
    metrics: dict[str, float] = {}
    if len(means):
        metrics["staleness_mean"] = float(means.mean())  # pyright: ignore[reportArgumentType]
    if len(most):
        metrics["staleness_max"] = float(most.max())  # pyright: ignore[reportArgumentType]
    graded = told.with_columns(lag=pl.coalesce("staleness_max", "staleness_mean"))
    value = float(graded["lag"].max())  # pyright: ignore[reportArgumentType]
    least = min(float(graded["lag"].min()), float(means.min()) if len(means) else 0.0)  # pyright: ignore[reportArgumentType]
    faults = _step_faults(graded, warn_at, fail_at)
    evidence, omitted = kept(faults)
    return Finding(
        check="staleness",
        status=worst([grade(value, warn_at=warn_at, fail_at=fail_at), "fail" if least < 0 else "ok"]),
        value=value,
        unit="optimizer steps",
        threshold=Threshold(warn=warn_at, fail=fail_at),
        summary=f"as the trainer logged it, up to {value:.3g} over {told.height} steps",
        check_next=_NEXT if faults else (),
        evidence=evidence,
        evidence_omitted=omitted,
        metrics=metrics,
        series=step_curves(by_step(steps, pl.col("staleness_mean")), "mean staleness", "optimizer steps"),
    )


def _step_faults(logged: pl.DataFrame, warn_at: float, fail_at: float) -> tuple[Evidence, ...]:
    """The steps beyond a bound by their `lag`, or with one from the future by `lag` or `staleness_mean`."""
    least = pl.min_horizontal("lag", "staleness_mean")
    beyond = logged.with_columns(future=least < 0).filter(pl.col("future") | (pl.col("lag") > warn_at))
    return tuple(
        Evidence(
            step=step,
            adapter=adapter,
            kind="version_from_the_future" if future else "stale",
            status="fail" if future else grade(lag, warn_at=warn_at, fail_at=fail_at),
            value=lag,
        )
        for step, adapter, lag, future in beyond.sort("lag", descending=True, maintain_order=True)
        .select("step", "adapter", "lag", "future")
        .iter_rows()
    )


def _nothing(counts: dict[str, int]) -> Finding:
    missing: list[str] = []
    if not counts["versioned"]:
        missing.append("turns.weight_versions")
    if not counts["trained"]:
        missing.append("turns.trainer_version")
    summary = "no token has both the version that sampled it and the trainer's"
    if not missing:
        missing = ["versions.optimizer_step"]
        summary = "the versions that sampled and trained are not both numbers, or have no step in the table of versions"
    return Finding.no_data("staleness", summary, missing=missing)
