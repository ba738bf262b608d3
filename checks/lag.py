"""How far behind the trainer the weights were that sampled a token: its lag."""

import polars as pl

KEYS = ("adapter", "sampling_version", "trainer_version", "trainer_step")
"""The columns that a lag is made of; `sampling_version` is null where the log does not say it as a number."""
LABEL = r"(?i)^\s*(?:.*@)?(?:(?:(?:global[_-]?)?step|version|ver|v)[\s:_-]*)?(\d{1,18})\s*$"
"""An engine's label that is a number: `7`, `v7`, `step_7`, `name@7`. Any other label is no version."""


def label_version(label: pl.Expr) -> pl.Expr:
    """The version that an engine's label is, as Int64; null where it is a name or a hash."""
    return label.str.extract(LABEL, 1).cast(pl.Int64)


def with_lag(frame: pl.DataFrame, versions: pl.DataFrame) -> pl.DataFrame:
    """The frame with `lag`: the trainer's step (or version) minus that of the weights that sampled; null if unknown.

    Both sides are always in one unit. Where the table `versions` knows steps of the adapter, that is optimizer
    steps: `trainer_step`, else the step of `trainer_version`, minus the step of the sampling version (0 for version 0,
    the base model). Without such a table it is versions, read as optimizer steps: `trainer_version`, else
    `trainer_step`, minus the sampling version. Never clipped: a negative lag is an error in the log or the loop.
    """
    steps = versions.drop_nulls("optimizer_step").select("adapter", "version", "optimizer_step")
    steps = steps.unique(["adapter", "version"], keep="last", maintain_order=True)
    known = steps.select("adapter").unique().with_columns(steps_known=pl.lit(True))
    joined = frame.join(known, on="adapter", how="left", nulls_equal=True, maintain_order="left")
    for side in ("sampling", "trainer"):
        table = steps.rename({"version": f"{side}_version", "optimizer_step": f"{side}_at"})
        joined = joined.join(
            table, on=["adapter", f"{side}_version"], how="left", nulls_equal=True, maintain_order="left"
        )
    of_base = pl.when(pl.col("sampling_version") == 0).then(pl.lit(0, dtype=pl.Int64))
    in_steps = pl.coalesce("trainer_step", "trainer_at") - pl.coalesce("sampling_at", of_base)
    in_versions = pl.coalesce("trainer_version", "trainer_step") - pl.col("sampling_version")
    lag = pl.when(pl.col("steps_known")).then(in_steps).otherwise(in_versions).cast(pl.Int64)
    return joined.with_columns(lag=lag).drop("steps_known", "sampling_at", "trainer_at")
