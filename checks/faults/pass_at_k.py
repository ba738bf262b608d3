"""Unbiased pass@k against pass@1, and whether diversity collapses while pass@1 rises."""

import math

import polars as pl

from checks.eval_points import stepped
from checks.eval_suites import of_first_suite, suites_text
from checks.finding import Evidence, Finding, Number, Series, kept
from checks.pass_points import task_counts, widest_k, with_rate
from checks.session_rewards import session_rewards

_NEXT = ("entropy: is it falling too", "zero-variance-group (solved by all samples alike)", "the KL or entropy term")
_USUAL = (5, 10, 100)
"""What k is in most reports, beside powers of 2."""
_BINARY = ([0.0, 1.0], [-1.0, 1.0], [1.0], [0.0], [-1.0])


def pass_at_k(
    turns: pl.DataFrame,
    rewards: pl.DataFrame,
    steps: pl.DataFrame,
    evals: pl.DataFrame,
    versions: pl.DataFrame,
    *,
    sigmas: float = 2.0,
) -> Finding:
    """Unbiased pass@k against pass@1, and whether diversity collapses while pass@1 rises.

    Definition: for a task with n samples and c successes 1 - C(n-c, k) / C(n, k), the mean over tasks with n >= k;
    k is 1, 2, 4 and so on, and 5, 10 and 100, while half of the tasks have as many samples, and the largest such k.
    With fewer samples the value is left out, never 1. A sample succeeds when it passed, else when it scored 1. Without
    evaluations: the groups of training sessions whose rewards are 0 or 1; else what steps give. The metrics are of the
    newest evaluation of each adapter, on one suite: where several were tried, the one that most of the newest five
    evaluated steps were tried on, of two alike the one with more samples of a task, and the summary names it. Collapse:
    since the first evaluation, the one before, or the one with the highest pass@k so far, pass@1 rose and pass@k fell,
    each by more than `sigmas` standard errors of the paired differences over the tasks that both have.
    Units: probability, 0 to 1; the value is pass@1.
    Reads: evals(adapter, version, step, suite, task_id, sample, score, passed), versions, turns(session_id, group_id,
    task_id, adapter, trainer_step, purpose, reward), rewards, steps(step, adapter, pass_at_1, pass_at_k, pass_k).
    Threshold: a collapse warns; 2 standard errors of each, provisional. Lecture 12 of CMU 11-768: pass@1 up and pass@k
    down is diversity collapsing. How high pass@1 should be is the task's to say.
    Check next: entropy; zero-variance-group; the KL or entropy term.
    """
    samples = stepped(evals, versions)
    counts = task_counts(of_first_suite(samples))
    told = suites_text(samples)
    source = "held-out tasks of the newest evaluation" + (f" ({told})" if told else "")
    if counts.is_empty():
        counts, source = _training_counts(turns, rewards), "training groups of the newest step"
    if counts.is_empty():
        return _of_steps(steps)
    newest = _newest(counts)
    widest = widest_k(newest)
    ks = sorted({2**power for power in range(widest.bit_length())} | {k for k in _USUAL if k < widest} | {widest})
    breakdown: list[dict[str, Number | str | None]] = []
    metrics: dict[str, Number] = {}
    for k in ks:
        rated = with_rate(newest, k)
        metrics[f"pass_at_{k}"] = math.fsum(rated["rate"]) / rated.height
        breakdown.append({"k": k, "pass_at_k": metrics[f"pass_at_{k}"], "tasks": rated.height, "of": newest.height})
    collapsed, omitted = kept(_collapses(counts, widest_k(counts), sigmas))
    said = ", ".join(f"pass@{row['k']} {row['pass_at_k']:.4g} ({row['tasks']})" for row in breakdown)
    return Finding(
        check="pass-at-k",
        status="warn" if collapsed else "ok",
        value=metrics["pass_at_1"],
        unit="pass@1",
        summary=f"{newest.height} {source}: {said}" + ("; diversity collapses" if collapsed else ""),
        check_next=_NEXT if collapsed else (),
        evidence=collapsed,
        evidence_omitted=omitted,
        breakdown=tuple(breakdown),
        metrics=metrics,
        series=_curves(counts, widest_k(counts)),
    )


def _training_counts(turns: pl.DataFrame, rewards: pl.DataFrame) -> pl.DataFrame:
    """Groups of training sessions as tasks, where every reward is one of two values."""
    told = turns.group_by("session_id", maintain_order=True).agg(
        pl.col("adapter", "group_id", "task_id").cast(pl.String).drop_nulls().first(),
        pl.col("trainer_step").drop_nulls().first().cast(pl.Int64),
    )
    sessions = session_rewards(turns, rewards).drop_nulls("reward").join(told, on="session_id", how="left")
    sessions = sessions.with_columns(task_id=pl.coalesce("group_id", "task_id")).drop_nulls("task_id")
    if sorted(sessions["reward"].unique()) not in _BINARY:
        sessions = sessions.clear()
    return task_counts(
        sessions.select(
            "adapter",
            "task_id",
            step="trainer_step",
            solved=pl.col("reward") == 1,
        )
    )


def _newest(counts: pl.DataFrame) -> pl.DataFrame:
    """The tasks of the newest step of each adapter."""
    last = pl.col("step").max().over("adapter")
    return counts.filter(pl.col("step").is_null() | (pl.col("step") == last))


def _collapses(counts: pl.DataFrame, k: int, sigmas: float) -> list[Evidence]:
    """For each adapter the first evaluation since which pass@1 surely rose and pass@k surely fell."""
    if k < 2:
        return []
    found: list[Evidence] = []
    rated = with_rate(counts.drop_nulls("step"), k).with_columns(first=pl.col("successes") / pl.col("samples"))
    for key, curve in rated.partition_by("adapter", as_dict=True, maintain_order=True).items():
        points = list(curve.sort("step").partition_by("step", maintain_order=True))
        best = 0
        for at in range(1, len(points)):
            earlier = dict.fromkeys((0, best, at - 1))
            surely = [_collapse(key[0], points[early], points[at], k, sigmas) for early in earlier]
            if any(surely):
                found.append(next(each for each in surely if each is not None))
                break
            best = max(best, at, key=lambda index: _mean(points[index]))
    return found


def _mean(point: pl.DataFrame) -> float:
    return float(point["rate"].sum()) / max(1, point.height)


def _collapse(adapter: str | None, early: pl.DataFrame, late: pl.DataFrame, k: int, sigmas: float) -> Evidence | None:
    pairs = early.join(late, on="task_id", suffix="_late")
    rose, rose_by = _paired(pairs["first_late"] - pairs["first"])
    fell, fell_by = _paired(pairs["rate"] - pairs["rate_late"])
    if rose_by <= sigmas or fell_by <= sigmas:
        return None
    step = int(late["step"][0])
    said = f"since step {early['step'][0]} pass@1 rose by {rose:.3g} and pass@{k} fell by {fell:.3g}"
    return Evidence(step=step, adapter=adapter, status="warn", value=-fell, text=said, detail={"k": k, "rose": rose})


def _paired(differences: pl.Series) -> tuple[float, float]:
    """Mean of paired differences, and how many of its standard errors it is above 0."""
    count = len(differences)
    if count < 3:
        return 0.0, 0.0
    mean = float(differences.sum()) / count
    spread = float(((differences - mean) ** 2).sum())
    error = math.sqrt(spread / (count - 1) / count)
    if error == 0:
        return mean, math.copysign(math.inf, mean) if mean else 0.0
    return mean, mean / error


def _curves(counts: pl.DataFrame, widest: int) -> tuple[Series, ...]:
    """pass@1 and pass@k over the steps, of each adapter."""
    stepped_counts = counts.drop_nulls("step")
    curves: list[Series] = []
    for k in sorted({1, widest}):
        means = with_rate(stepped_counts, k).group_by("adapter", "step").agg(pl.col("rate").mean()).sort("step")
        for key, curve in means.partition_by("adapter", as_dict=True, maintain_order=True).items():
            name = f"pass@{k}" if key[0] is None else f"pass@{k} of {key[0]}"
            x = tuple(map(float, curve["step"]))
            curves.append(Series(name=name, x_label="step", y_label="probability", x=x, y=tuple(curve["rate"])))
    return tuple(curves)


def _of_steps(steps: pl.DataFrame) -> Finding:
    """The newest figures of a metric log."""
    known = steps.filter(pl.col("pass_at_1").is_finite() | pl.col("pass_at_k").is_finite()).sort("step")
    if known.is_empty():
        return Finding.no_data(
            "pass-at-k",
            "no evaluations, no groups of sessions with rewards of 0 and 1, and no step gives pass@k",
            missing=("evals.passed", "turns.reward", "steps.pass_at_1"),
        )
    last = known.row(known.height - 1, named=True)
    metrics: dict[str, Number] = {}
    if last["pass_at_1"] is not None:
        metrics["pass_at_1"] = last["pass_at_1"]
    if last["pass_at_k"] is not None and last["pass_k"] is not None:
        metrics[f"pass_at_{last['pass_k']}"] = last["pass_at_k"]
    said = ", ".join(f"{name.replace('pass_at_', 'pass@')} {value:.4g}" for name, value in metrics.items())
    return Finding(
        check="pass-at-k",
        status="ok",
        value=last["pass_at_1"],
        unit="pass@1",
        summary=f"step {last['step']} gives {said or 'a pass@k without its k'}; no samples to test it with",
        metrics=metrics,
    )
