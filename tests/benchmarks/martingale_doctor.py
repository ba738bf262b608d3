"""The checks beside `martingale doctor` on records of its own kind, in one run."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
# (pyarrow carries no types)

import json
import resource
import statistics
import subprocess
import sys
import time
import venv
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import martingale_record
import polars as pl
import pyarrow.parquet as pq

from checks.columns import SCORE_COLUMNS
from checks.log import Batch
from checks.readers.open_log import open_log
from checks.report import Report
from checks.suite import CHECKS, run

PACKAGE = "martingale==0.2.0"
PARQUET_TOKENS = 5_000_000
_ROWS_AT_ONCE = 1024
_COLUMNS = (
    "prompt_ids",
    "completion_ids",
    "sampled_logprobs",
    "weight_versions",
    "stated_prompt_tokens",
    "temperature",
    "top_p",
    "top_k",
    "finished_at",
)
_ALL = tuple(check for check in CHECKS if not any(measure.needs_tokenizer for measure in check.measures))
_QUESTION = tuple(check for check in _ALL if check.name in ("importance-weight", "staleness"))
"""What the doctor answers: ratios and their ESS by lag."""


class Taken(NamedTuple):
    """What one run took."""

    seconds: float
    cpu_s: float


def compare(record: Path | None, folder: Path, *, tokens: int, rounds: int) -> dict[str, Any]:
    """Rates and ratios for each kind of record; a reason where there is nothing to compare with."""
    if record is None or not (record / "tokens.db").is_file():
        return {"skipped": "no --record with a tokens.db"}
    python = folder / "venv" / "bin" / "python"
    venv.create(folder / "venv", with_pip=True)
    installed = subprocess.run([python, "-m", "pip", "install", "-q", PACKAGE], capture_output=True, check=False)
    if installed.returncode != 0:
        return {"skipped": f"{PACKAGE} cannot be installed: {installed.stderr.decode().strip().splitlines()[-1]}"}
    source = folder / "tokens.db"
    source.write_bytes((record / "tokens.db").read_bytes())
    martingale_record.repeated(python, source, folder / "short", tokens)
    martingale_record.of_long_replies(python, folder / "long", tokens)
    doctor = python.with_name("martingale")
    return {
        "rounds": rounds,
        "real_record_repeated": _compared(folder / "short", doctor, rounds),
        "record_of_long_replies": _compared(folder / "long", doctor, rounds),
    }


def _compared(record: Path, doctor: Path, rounds: int) -> dict[str, Any]:
    """The doctor and the checks in turn, `rounds` times, so that both meet the machine in the same state."""
    exported, repeated = record / "exported", record / "repeated"
    log = record / "tokens.db"
    whole = run(open_log(log), checks=_ALL)
    scored = _scored(whole)
    times = -(-PARQUET_TOKENS // scored)
    _export(log, exported, 1)
    _export(log, repeated, times)
    ours: dict[str, tuple[int, Callable[[], Report]]] = {
        f"{where}_{what}": (copies, lambda path=path, checks=checks: run(open_log(path), checks=checks))
        for where, path, copies in (
            ("same_file", log, 1),
            ("parquet", exported, 1),
            ("parquet_repeated", repeated, times),
        )
        for what, checks in (("all_checks", _ALL), ("same_question", _QUESTION))
    }
    taken: dict[str, list[Taken]] = {name: [] for name in ("doctor", *ours)}
    for _ in range(rounds):
        started = _command([str(doctor), "--help"])
        theirs = _command([str(doctor), "doctor", "--dir", str(record), "--json", str(record / "report.json")])
        taken["doctor"].append(Taken(theirs.seconds - started.seconds, theirs.cpu_s - started.cpu_s))
        for name, (copies, check) in ours.items():
            report, took = _timed(check)
            taken[name].append(took)
            _assert_same(report, json.loads((record / "report.json").read_text()), copies)
    return {
        "scored_tokens": scored,
        "turns": whole.counts.turns,
        "bytes": log.stat().st_size,
        "doctor": _rates(scored, taken["doctor"]),
        **{
            name: {"scored_tokens": scored * copies, **_rates(scored * copies, taken[name])}
            | _ratios(copies, taken["doctor"], taken[name])
            for name, (copies, _) in ours.items()
        },
    }


def _rates(tokens: int, taken: Sequence[Taken]) -> dict[str, Any]:
    return {
        "scored_tokens_s": round(tokens / statistics.median(each.seconds for each in taken)),
        "scored_tokens_s_spread": sorted(round(tokens / each.seconds) for each in taken),
        "scored_tokens_cpu_s": round(tokens / statistics.median(each.cpu_s for each in taken)),
    }


def _ratios(copies: int, theirs: Sequence[Taken], ours: Sequence[Taken]) -> dict[str, Any]:
    """How many times as fast as the doctor of the same round; `ratio_cpu` counts the time of all threads."""
    pairs = list(zip(theirs, ours, strict=True))
    seconds = sorted(copies * one.seconds / other.seconds for one, other in pairs)
    cpu = [copies * one.cpu_s / other.cpu_s for one, other in pairs]
    return {
        "ratio": round(statistics.median(seconds), 1),
        "ratio_spread": [round(each, 1) for each in seconds],
        "ratio_cpu": round(statistics.median(cpu), 1),
    }


def _scored(report: Report) -> int:
    return sum(int(row["tokens"] or 0) for row in report.finding("importance-weight").breakdown)


def _assert_same(report: Report, theirs: dict[str, Any], copies: int) -> None:
    """Both sides gave the same numbers by lag."""
    ours = {row["lag"]: row for row in report.finding("importance-weight").breakdown}
    assert sorted(ours, key=str) == sorted((each["lag"] for each in theirs["by_lag"]), key=str)
    for each in theirs["by_lag"]:
        row = ours[each["lag"]]
        assert row["tokens"] == copies * each["n_tokens"]
        expected = float(Fraction(each["mean_abs_log_ratio"]))
        assert abs(float(row["mean_abs_dlogp"] or 0) - expected) <= 1e-9 * expected, (row, expected)


def _export(log: Path, folder: Path, times: int) -> None:
    """The record's turns and scores as native Parquet, so many times over, each time as sessions of their own."""
    folder.mkdir()
    batches = list(open_log(log).batches(_COLUMNS, SCORE_COLUMNS))
    writers: dict[str, pq.ParquetWriter] = {}
    turns, scores = (pl.concat(each, how="vertical_relaxed") for each in zip(*_numbered(batches), strict=True))
    at_once = -(-_ROWS_AT_ONCE // turns.height)
    for first in range(0, times, at_once):
        copies = [pl.lit(str(copy)) for copy in range(first, min(times, first + at_once))]
        turn_id, session_id = pl.format("{}-{}", "turn_id", "copy"), pl.format("{}-{}", "session_id", "copy")
        for table, rows in (("turns", turns), ("scores", scores)):
            copied = pl.concat([rows.with_columns(copy=copy) for copy in copies])
            named = [turn_id.alias("turn_id"), *([session_id.alias("session_id")] if table == "turns" else [])]
            _write(folder, writers, table, copied.with_columns(named).drop("copy"))
    for writer in writers.values():
        writer.close()


def _numbered(batches: Sequence[Batch]) -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:
    """Turns and scores with a turn_id in common."""
    before = 0
    for turns, scores in batches:
        number = pl.col("row").cast(pl.Int64) + before
        before += turns.height
        yield (
            turns.with_row_index("row").with_columns(turn_id=number.cast(pl.String)).drop("row"),
            scores.with_columns(turn_id=number.cast(pl.String)).drop("row"),
        )


def _write(folder: Path, writers: dict[str, pq.ParquetWriter], table: str, rows: pl.DataFrame) -> None:
    """As an export has them: float32 lists, and no column that holds nothing."""
    held = rows.select(column for column in rows if column.null_count() < len(column))
    arrow = held.with_columns(pl.col(pl.List(pl.Float64)).cast(pl.List(pl.Float32))).to_arrow()
    if table not in writers:
        writers[table] = pq.ParquetWriter(folder / f"{table}.parquet", arrow.schema, compression="zstd")
    writers[table].write_table(arrow)


def _timed(check: Callable[[], Report]) -> tuple[Report, Taken]:
    seconds, cpu = time.perf_counter(), time.process_time()
    report = check()
    return report, Taken(time.perf_counter() - seconds, time.process_time() - cpu)


def _command(command: list[str]) -> Taken:
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=sys.stderr, check=True)
    seconds, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    return Taken(seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
