"""Which held-out suite an adapter's numbers are of: numbers of two suites are never pooled and never compared."""

from collections.abc import Mapping

import polars as pl

Suites = Mapping[str | None, tuple[str | None, ...]]
"""Adapter to its suites; the first is the one that its numbers are of."""

RECENT = 5
"""Evaluated steps, the newest, by which the suite is chosen."""


def suites_of(samples: pl.DataFrame) -> Suites:
    """The suites of each adapter, from `stepped` samples, those left out that do not say `solved`.

    First stands the one that most of the newest evaluated steps were tried on: it tells of the run as it is now, and a
    suite that was tried once does not take its place. Of two alike, the one with more samples of a task, which tells
    pass@k too; then by name.
    """
    known = samples.drop_nulls("solved")
    per_task = known.group_by("adapter", "suite").agg(per_task=pl.len() / pl.col("task_id").n_unique())
    steps = known.select("adapter", "suite", "step").unique()
    newest = steps.filter(pl.col("step").rank("dense", descending=True).over("adapter") <= RECENT)
    recent = newest.group_by("adapter", "suite").agg(recent=pl.len())
    told = per_task.join(recent, on=["adapter", "suite"], how="left", nulls_equal=True)
    by = {"adapter": False, "recent": True, "per_task": True, "suite": False}
    ordered = told.sort(*by, descending=list(by.values()), nulls_last=list(by.values()))
    return {
        key[0]: tuple(frame["suite"])
        for key, frame in ordered.partition_by("adapter", as_dict=True, maintain_order=True).items()
    }


def of_first_suite(samples: pl.DataFrame) -> pl.DataFrame:
    """The samples of the suite that each adapter's numbers are of."""
    chosen = pl.DataFrame(
        [(adapter, suites[0]) for adapter, suites in suites_of(samples).items()],
        schema={"adapter": samples.schema["adapter"], "suite": samples.schema["suite"]},
        orient="row",
    )
    return samples.join(chosen, on=["adapter", "suite"], how="semi", nulls_equal=True, maintain_order="left")


def suites_text(samples: pl.DataFrame) -> str:
    """Which suite the numbers are of and which they are not of; empty where there is one only."""
    found = suites_of(samples).values()
    if all(len(suites) == 1 for suites in found):
        return ""
    chosen = sorted({_name(suites[0]) for suites in found})
    others = sorted({_name(suite) for suites in found for suite in suites[1:]} - {*chosen})
    return f"suite {', '.join(chosen)}" + (f", not {', '.join(others)}" if others else "")


def _name(suite: str | None) -> str:
    return "without a name" if suite is None else suite
