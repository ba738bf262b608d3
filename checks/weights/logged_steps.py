"""Importance weights as a trainer logged them per step, for logs without log-probabilities of tokens."""

import polars as pl

from checks.finding import Evidence, Status, kept, worst
from checks.weights.numbers import WeightLimits, WeightNumbers, graded

COLUMNS = {
    "max_w": "max_w",
    "min_w": "min_w",
    "mean_w": "mean_w",
    "kl_mu_old": "kl_k1",
    "kl_k3": "kl_k3",
    "ess": "ess",
    "mean_abs_dlogp": "mean_abs_dlogp",
}
"""Columns of `steps` and the metrics they are."""
_QUIET = WeightNumbers(1.0, 1.0, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0)


def logged_metrics(steps: pl.DataFrame) -> dict[str, float]:
    """Largest, smallest and mean over the logged steps, of what was logged."""
    known = {metric: steps[column].drop_nulls() for column, metric in COLUMNS.items()}
    return {
        metric: float({"max_w": values.max, "min_w": values.min}.get(metric, values.mean)())  # pyright: ignore[reportArgumentType]
        for metric, values in known.items()
        if len(values)
    }


def logged_faults(steps: pl.DataFrame, limits: WeightLimits) -> tuple[Status, list[Evidence]]:
    """The steps whose own numbers are beyond a limit."""
    found: list[Evidence] = []
    for row in steps.select("adapter", "step", *COLUMNS).iter_rows(named=True):
        known = {metric: row[column] for column, metric in COLUMNS.items() if row[column] is not None}
        status, beyond = graded(_QUIET._replace(**known), limits)
        if status != "ok":
            found.append(
                Evidence(
                    step=row["step"],
                    adapter=row["adapter"],
                    status=status,
                    value=known.get("mean_abs_dlogp"),
                    text=", ".join(beyond),
                    detail=known,
                )
            )
    found.sort(key=lambda each: each.status != "fail")
    return worst([each.status or "ok" for each in found]), list(kept(found)[0])
