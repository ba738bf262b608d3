"""The ways of sampling that a log or a store holds."""

from pathlib import Path

import polars as pl

from checks.doctor.point import Point
from checks.doctor.setup_points import EngineSide, Setup, TrainerSide
from checks.readers.open_log import open_log

_SAMPLING = (
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
)
_MODES = ("scaled", "raw", "truncated", "unknown")


def log_setups(path: Path) -> tuple[list[Setup], list[Point]]:
    """Each way of sampling, most used first, and what the log's runs say of themselves."""
    log = open_log(path)
    columns = ["logprob_mode", *_SAMPLING]
    counted = [batch.turns.group_by(columns).agg(turns=pl.len().cast(pl.Int64)) for batch in log.batches(columns)]
    runs = log.table("runs")
    if not counted:
        return [], _run_points(runs)
    ways = pl.concat(counted, how="vertical_relaxed").group_by(columns).agg(pl.col("turns").sum())
    setups = [
        Setup(
            trainer=TrainerSide(),
            engine=EngineSide(
                logprob_mode=row["logprob_mode"] if row["logprob_mode"] in _MODES else None,
                **{name: row[name] for name in _SAMPLING},
            ),
            turns=row["turns"],
        )
        for row in ways.sort(["turns", *columns], descending=True).iter_rows(named=True)
    ]
    return setups, _run_points(runs)


def _run_points(runs: pl.DataFrame) -> list[Point]:
    points: list[Point] = []
    for name, column in (("precision of the runs", "precision"), ("log-probability mode of the runs", "logprob_mode")):
        values: list[str] = runs[column].drop_nulls().unique(maintain_order=True).to_list()
        if not values:
            points.append(Point(name=name, status="no_data", said="no run of the log says it"))
            continue
        several = len(values) > 1
        points.append(
            Point(
                name=name,
                status="warn" if several else "ok",
                said=", ".join(values),
                advice="runs of different settings are not one distribution: check them apart" if several else None,
            )
        )
    return points
