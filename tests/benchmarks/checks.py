"""How fast the checks go over a native log in Parquet, each of them alone, and in how much memory.

    python tests/benchmarks/checks.py [--tokens 50e6] [--tokenizer DIR] [--record DIR] [--folder DIR]

Prints one JSON line. Rates are prompt + completion tokens a second, from opening the log to the report, reading
included, on two cores; the log is written beforehand. `each` says it of every check alone: `tokens_s` reads the
columns that it needs, `measure_tokens_s` is its token measures only, one after the other on batches in memory. Peak
memory is of a process that does nothing else. `--tokens 1e9` writes 3 GB below `--folder` and deletes them after.

`martingale` compares with `martingale doctor` 0.2.0, put into an environment of its own for the occasion, on two
records that its own ledger writes: the real one given with `--record`, repeated, whose replies have two to five
tokens, and one of replies of 40 to 320. Doctor and checks run in turn, `--rounds` times; each round has its own ratio.
`same_file` reads the doctor's own SQLite file; `parquet` the same turns and scores, exported once as a native log;
`parquet_repeated` that log repeated to 5 million scored tokens, so that what a run costs whatever its log (tens of
milliseconds) counts for little. `same_question` are importance-weight and staleness, which answer what the doctor
answers, and give the same numbers by lag: that is asserted; `all_checks` do more. `scored_tokens` are those that both
sides compute a ratio of, each time it was scored. The time of `martingale --help` is subtracted from the doctor's; the
checks are timed where everything is imported. `ratio` is of seconds passed, `ratio_cpu` of processor time, all threads.
"""

import argparse
import json
import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("POLARS_MAX_THREADS", "2")
os.environ.setdefault("OMP_NUM_THREADS", "2")
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from martingale_doctor import compare
from synthetic_log import write_log

from checks.log import Log
from checks.measure import Tools
from checks.readers.open_log import open_log
from checks.suite import CHECKS, Check, run

BYTES_A_TOKEN = 4


def needs_tokenizer(check: Check) -> bool:
    """Whether it can do nothing without one."""
    return any(measure.needs_tokenizer for measure in check.measures)


def chosen(tokenizer: Path | None) -> list[Check]:
    """The checks that need a tokenizer, where one is given; else those that need none."""
    return [check for check in CHECKS if needs_tokenizer(check) == (tokenizer is not None)]


def tools_of(tokenizer: Path | None) -> Tools:
    """What `--tokenizer` gives."""
    if tokenizer is None:
        return Tools()
    from collector.rendering.tokenizer import ChatTokenizer

    return Tools(tokenizer=ChatTokenizer.from_folder(tokenizer))


def measure_seconds(log: Log, check: Check, tools: Tools) -> float | None:
    """Seconds that the check's measures take for a pass, without reading; None when it has none."""
    measures = [(kind, kind(tools)) for kind in check.measures]
    if not measures:
        return None
    columns = list(dict.fromkeys(name for kind, _ in measures for name in kind.turn_columns))
    scores = list(dict.fromkeys(name for kind, _ in measures for name in kind.score_columns))
    spent = 0.0
    for batch in log.batches(columns, scores):
        started = time.perf_counter()
        for _, measure in measures:
            measure.add(batch)
        spent += time.perf_counter() - started
    started = time.perf_counter()
    for _, measure in measures:
        measure.frame()
    return spent + time.perf_counter() - started


def together(path: Path, tokenizer: Path | None) -> dict[str, Any]:
    """All of them in one run, in this process."""
    tools = tools_of(tokenizer)
    before = resource.getrusage(resource.RUSAGE_SELF)
    started = time.perf_counter()
    report = run(open_log(path), checks=chosen(tokenizer), tools=tools)
    took = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {
        "checks": len(report.findings),
        "tokens": report.counts.tokens,
        "turns": report.counts.turns,
        "seconds": round(took, 3),
        "cores_used": round(cpu / took, 2),
        "tokens_s": round(report.counts.tokens / took),
        "peak_mb": round(after.ru_maxrss / 1024),
        "peak_before_mb": round(before.ru_maxrss / 1024),
        "status": {finding.check: finding.status for finding in report.findings},
    }


def apart(path: Path, tokens: int, tokenizer: Path | None) -> dict[str, dict[str, int | None]]:
    """Each check alone, in this process."""
    tools = tools_of(tokenizer)
    rates: dict[str, dict[str, int | None]] = {}
    for check in chosen(tokenizer):
        started = time.perf_counter()
        run(open_log(path), checks=[check], tools=tools)
        took = time.perf_counter() - started
        alone = measure_seconds(open_log(path), check, tools)
        rates[check.name] = {
            "tokens_s": round(tokens / took),
            "measure_tokens_s": None if alone is None else round(tokens / alone),
        }
    return rates


def in_child(path: Path, what: str, tokenizer: Path | None, tokens: int) -> dict[str, Any]:
    """One of the two above in a process of its own."""
    command = [sys.executable, __file__, "--child", what, "--log", str(path), "--tokens", str(tokens)]
    command += ["--tokenizer", str(tokenizer)] if tokenizer is not None else []
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"the measured process failed: {done.stderr}")
    return json.loads(done.stdout)


def measured(folder: Path, tokens: int, tokenizer: Path | None, *, each: bool) -> dict[str, Any]:
    """A log of that size, written and checked."""
    room = shutil.disk_usage(folder).free
    if room < BYTES_A_TOKEN * tokens:
        raise SystemExit(f"{folder} has {room / 1e9:.1f} GB free, expected {BYTES_A_TOKEN * tokens / 1e9:.1f}")
    log = folder / "log"
    started = time.perf_counter()
    written = write_log(log, tokens)
    result: dict[str, Any] = {
        "log": {
            **written._asdict(),
            "bytes": sum(path.stat().st_size for path in log.iterdir()),
            "write_s": round(time.perf_counter() - started, 1),
        },
        "together": in_child(log, "together", None, written.tokens),
    }
    if each:
        result["each"] = in_child(log, "apart", None, written.tokens)
    if tokenizer is not None:
        result["with_tokenizer"] = {
            "together": in_child(log, "together", tokenizer, written.tokens),
            "each": in_child(log, "apart", tokenizer, written.tokens),
        }
    shutil.rmtree(log)
    return result


def main() -> int:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--tokens", type=float, default=50e6, help="prompt + completion tokens of the log")
    parser.add_argument("--no-each", action="store_true", help="leave out the rate of each check alone")
    parser.add_argument("--tokenizer", type=Path, help="a model folder: measures the checks that need a tokenizer too")
    parser.add_argument("--record", type=Path, help="a folder with martingale's tokens.db, to compare with its doctor")
    parser.add_argument("--record-tokens", type=float, default=2e5, help="scored tokens of the records compared")
    parser.add_argument("--rounds", type=int, default=3, help="how often doctor and checks are compared")
    parser.add_argument("--folder", type=Path, help="where to write (default: a temporary folder)")
    parser.add_argument("--child", choices=["together", "apart"], help=argparse.SUPPRESS)
    parser.add_argument("--log", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    tokens = int(args.tokens)
    if args.child is not None:
        one = (
            together(args.log, args.tokenizer) if args.child == "together" else apart(args.log, tokens, args.tokenizer)
        )
        print(json.dumps(one))
        return 0
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[:2]))
    folder = Path(tempfile.mkdtemp(prefix="roundhouse-bench-", dir=args.folder))
    try:
        result: dict[str, Any] = {
            "benchmark": "checks",
            "cores": 2,
            "python": platform.python_version(),
            "load_before": os.getloadavg()[0],
            **measured(folder, tokens, args.tokenizer, each=not args.no_each),
            "martingale": compare(args.record, folder, tokens=int(args.record_tokens), rounds=args.rounds),
        }
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
