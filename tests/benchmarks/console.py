"""What the console costs on a store of 200,000 turns and 10,000 steps, in a real terminal.

    python tests/benchmarks/console.py [--quick] [--store DIR] [--log FILE] [--only PART ...]

`--log FILE` is a log for the part `biglog`; without it one of 1 GB is written and deleted.

Prints one JSON line. Processor time is of the console's own process, in percent of one core; that of the process that
reads tokens stands beside it. `--store` is made if it is not there, and kept; parts that write work on a copy of it.
A simulated day is the turns, steps and events of a day, written within a minute.
"""

import argparse
import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from collector.records import Event
from collector.store.writer import Writer
from console.watch.views.signal_grading import MOST_REST_S
from tests.benchmarks.line_log import write_line_log
from tests.benchmarks.pty_console import PtyConsole
from tests.benchmarks.synthetic_store import scores_of, session, step_of, write_store

SLEEP_S = 5.0
VIEW = "max_w"
"""Stands on the first screen once it shows a store."""
LOG_READ = "LOG read"
"""Stands in row 1 once all of a log was read."""
SHORT_BYTES = 2 * 10**6


class Sizes(NamedTuple):
    """How much is measured."""

    turns: int
    steps: int
    seconds: float
    keys: int
    day_sessions: int
    log_bytes: int


FULL = Sizes(200_000, 10_000, 20.0, 60, 1_500, 10**9)
QUICK = Sizes(2_000, 200, 4.0, 15, 50, 2 * 10**7)
Part = Callable[[Path, Sizes], dict[str, object]]


def first_frame(store: Path, sizes: Sizes) -> dict[str, object]:
    """From the start of the process to the frame, and to the first view of the store."""
    found: list[tuple[float, float]] = []
    for _ in range(3):
        with _console(store) as console:
            frame = console.wait_for("Signals", 60)
            found.append((frame, console.wait_for(VIEW, 300)))
    frames, views = zip(*found, strict=True)
    return {
        "frame_s": round(min(frames), 3),
        "frames_s": [round(each, 3) for each in frames],
        "view_s": round(min(views), 2),
    }


def idle(store: Path, sizes: Sizes) -> dict[str, object]:
    """Nobody writes and nobody presses a key."""
    with _console(store) as console:
        _ready(console)
        return _cost(console, sizes.seconds)


def live(store: Path, sizes: Sizes) -> dict[str, object]:
    """Turns, an event and now and then a step, four times a second."""
    # Long enough that what is made anew seldom falls in it as often as it does in an hour.
    seconds = 4 * sizes.seconds
    with _copied(store) as copy, _console(copy) as console:
        _ready(console)
        with _writing(copy, seconds + 10):
            console.read(5)
            behind: list[float] = []
            cost = _cost(console, seconds, lambda: behind.append(_behind_s(console.text())))
            ordered = sorted(behind)
            return cost | {"view_behind_p50_s": statistics.median(ordered), "view_behind_max_s": ordered[-1]}


def keys(store: Path, sizes: Sizes) -> dict[str, object]:
    """From a key to the frame that it leads to, among lanes and among rows."""
    with _console(store) as console:
        _ready(console)
        lanes = _pressed(console, sizes.keys)
        console.press("5")
        console.settle(1.0, 30)
        return {"lanes": lanes, "rows": _pressed(console, sizes.keys)}


def keys_while_written(store: Path, sizes: Sizes) -> dict[str, object]:
    """The same while the store is written four times a second and its tokens are read for the first time."""
    with _copied(store) as copy, _console(copy) as console, _writing(copy, 600):
        console.wait_for(VIEW, 300)
        return {"lanes": _pressed(console, sizes.keys)}


def day(store: Path, sizes: Sizes) -> dict[str, object]:
    """Memory while a day's records come in, and once they did."""
    with _copied(store) as copy, _console(copy) as console:
        _ready(console)
        found = [console.rss_mb()]
        with Writer(copy, "day-collector") as collector, Writer(copy, "day-trainer") as trainer:
            source = random.Random(1)
            for number in range(sizes.day_sessions):
                turns = session(10_000_000 + number, source, datetime.now(UTC), version=0)
                futures = [collector.append(turn) for turn in turns]
                futures += [trainer.append(score) for score in scores_of(turns, 1_000_000 + number, 0)]
                step = 1_000_000 + number
                futures.append(trainer.append(step_of("refund", step, datetime.now(UTC), source)))
                for future in futures:
                    future.result(60)
                console.read(60 / sizes.day_sessions)
                if (number + 1) % max(1, sizes.day_sessions // 4) == 0:
                    found.append(console.rss_mb())
        # What a view still shows of before is held for as long as it may rest.
        console.read(MOST_REST_S + 15)
        found.append(console.rss_mb())
    return {"rss_mb": [round(each, 1) for each in found], "turns": sizes.day_sessions * 8}


def sleeping(store: Path, sizes: Sizes) -> dict[str, object]:
    """Keys while every look at the store, and every reading of tokens, sleeps 5 s."""
    with PtyConsole([__file__, "--sleeping-child", str(store)]) as console:
        console.wait_for(VIEW, 300)
        return {"lanes": _pressed(console, sizes.keys)}


def biglog(log: Path, sizes: Sizes) -> dict[str, object]:
    """A saved log of 1 GB: how soon its newest part is shown, and what the console takes while the rest is read and
    once it was, beside what it takes on the first steps of it alone."""
    with _short(log) as short, PtyConsole(["-m", "console", "watch", str(short)]) as console:
        small_s = console.wait_for(LOG_READ, 300)
        small_mb = _logs_shown(console, sizes)
    with PtyConsole(["-m", "console", "watch", str(log)]) as console:
        part_s = console.wait_for("newest", 300)
        opening_cpu_s = console.cpu_s()
        console.press("6")
        found = [console.rss_mb()]
        while LOG_READ not in console.text():
            console.read(0.25)
            found.append(console.rss_mb())
        whole_s, cpu_s = time.monotonic() - console.started, console.cpu_s()
        whole_mb = _logs_shown(console, sizes)
    return {
        "bytes": log.stat().st_size,
        "short_log_s": round(small_s, 2),
        "short_log_rss_mb": small_mb,
        "part_s": round(part_s, 2),
        "part_cpu_s": round(opening_cpu_s, 2),
        "while_read_cpu_s": round(cpu_s - opening_cpu_s, 2),
        "while_read_most_rss_mb": round(max(found), 1),
        "whole_s": round(whole_s, 1),
        "whole_rss_mb": whole_mb,
    }


def _logs_shown(console: PtyConsole, sizes: Sizes) -> float:
    """Memory once the log lines are on the screen and nothing is drawn any more."""
    console.press("6")
    console.settle(2.0, 60)
    console.read(sizes.seconds)
    return round(console.rss_mb(), 1)


class _short:
    """The first lines of a log."""

    def __init__(self, log: Path) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="console-benchmark-")
        self._path = Path(self._folder.name) / "short.jsonl"
        with log.open("rb") as file:
            self._path.write_bytes(b"".join(file.readlines(SHORT_BYTES)))

    def __enter__(self) -> Path:
        return self._path

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()


PARTS: dict[str, Part] = {
    part.__name__: part for part in (first_frame, idle, live, keys, keys_while_written, day, sleeping)
}
"""Those of a store."""
ALL = (*PARTS, biglog.__name__)


def _console(store: Path) -> PtyConsole:
    return PtyConsole(["-m", "console", "watch", str(store)])


def _ready(console: PtyConsole) -> None:
    """Until the store and its tokens were read and nothing is drawn any more."""
    console.wait_for(VIEW, 300)
    end = time.monotonic() + 900
    while time.monotonic() < end:
        own, children = console.cpu_s(), console.children_cpu_s()
        console.settle(3.0, 3.0)
        read = "tokens are not read yet" not in console.text() and "are read so far" not in console.text()
        if read and console.cpu_s() - own < 0.1 and console.children_cpu_s() - children < 0.1:
            return
    raise TimeoutError(f"it does not come to rest:\n{console.text()}")


def _behind_s(text: str) -> float:
    """How far the view says that it is behind what was read; 0 where it says nothing, within two seconds."""
    said = re.search(r"view ([0-9.]+)s behind", text)
    return 0.0 if said is None else float(said[1])


def _cost(console: PtyConsole, seconds: float, look: Callable[[], None] = lambda: None) -> dict[str, object]:
    """What it costs while nobody presses a key; `look` is called every second."""
    cpu, children, drawn, begun = console.cpu_s(), console.children_cpu_s(), console.drawn_bytes, time.monotonic()
    while (left := begun + seconds - time.monotonic()) > 0:
        console.read(min(1.0, left))
        look()
    took = time.monotonic() - begun
    return {
        "cpu_percent": round(100 * (console.cpu_s() - cpu) / took, 2),
        "tokens_cpu_percent": round(100 * (console.children_cpu_s() - children) / took, 2),
        "bytes_s": round((console.drawn_bytes - drawn) / took),
        "rss_mb": round(console.rss_mb(), 1),
    }


def _pressed(console: PtyConsole, count: int) -> dict[str, object]:
    taken: list[float] = []
    unanswered, cpu = 0, console.cpu_s()
    for number in range(count):
        found = console.press("j" if number % 8 < 4 else "k")
        unanswered += found is None
        taken += [] if found is None else [1000 * found]
        console.read(0.15)
    ordered = sorted(taken)
    return {
        "p50_ms": round(statistics.median(ordered), 1),
        "p95_ms": round(ordered[int(0.95 * (len(ordered) - 1))], 1),
        "max_ms": round(ordered[-1], 1),
        "cpu_ms": round(1000 * (console.cpu_s() - cpu) / count, 1),
        "unanswered": unanswered,
    }


class _copied:
    """A copy of a store that a part may write to."""

    def __init__(self, store: Path) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="console-benchmark-")
        self._copy = Path(self._folder.name) / "store"
        shutil.copytree(store, self._copy)

    def __enter__(self) -> Path:
        return self._copy

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()


class _writing:
    """A process that writes to a store four times a second."""

    def __init__(self, store: Path, seconds: float) -> None:
        self._process = subprocess.Popen([sys.executable, __file__, "--writing-child", str(store), str(seconds)])

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()


def _write(store: Path, seconds: float) -> None:
    source, begun, number = random.Random(3), time.monotonic(), 20_000_000
    with Writer(store, "live-collector") as collector, Writer(store, "live-trainer") as trainer:
        while time.monotonic() - begun < seconds:
            turns = session(number, source, datetime.now(UTC), version=0)
            for turn in turns:
                begun_tick = time.monotonic()
                collector.append(turn)
                collector.append(Event(at=datetime.now(UTC), kind="retry", session_id=turn.session_id)).result(30)
                time.sleep(max(0.0, 0.25 - (time.monotonic() - begun_tick)))
            for score in scores_of(turns, number, 0):
                trainer.append(score)
            trainer.append(step_of("refund", number, datetime.now(UTC), source)).result(30)
            number += 1


def _sleep(store: Path) -> None:
    """The console on a store that answers after 5 s."""
    from checks.log import Log
    from console.watch import opened
    from console.watch.app import run_app
    from console.watch.held import Held
    from console.watch.options import Options
    from console.watch.source.source import Source

    class Sleeping:
        def __init__(self, source: Source) -> None:
            self._source = source

        def poll(self) -> Held | None:
            time.sleep(SLEEP_S)
            return self._source.poll()

        def signals(self) -> Sequence[int]:
            return ()

        def log(self) -> Log:
            time.sleep(SLEEP_S)
            return self._source.log()

        def close(self) -> None:
            self._source.close()

    awake = opened.open_source
    opened.open_source = lambda options, **settings: Sleeping(awake(options, **settings))
    run_app(opened.opened_app(Options(path=store)))


def main() -> int:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--store", type=Path)
    parser.add_argument("--log", type=Path)
    parser.add_argument("--only", nargs="+", choices=ALL, default=ALL)
    parser.add_argument("--writing-child", nargs=2)
    parser.add_argument("--sleeping-child", type=Path)
    args = parser.parse_args()
    if args.writing_child:
        _write(Path(args.writing_child[0]), float(args.writing_child[1]))
        return 0
    if args.sleeping_child:
        _sleep(args.sleeping_child)
        return 0
    sizes = QUICK if args.quick else FULL
    with tempfile.TemporaryDirectory(prefix="console-benchmark-") as folder:
        store = args.store or Path(folder) / "store"
        if not store.exists() and not PARTS.keys().isdisjoint(args.only):
            write_store(store, turns=sizes.turns, steps=sizes.steps)
        result: dict[str, object] = {"turns": sizes.turns, "steps": sizes.steps, "cores": os.cpu_count()}
        result["load_1min"] = round(os.getloadavg()[0], 1)
        for name in args.only:
            if name in PARTS:
                result[name] = PARTS[name](store, sizes)
            else:
                log = args.log or Path(folder) / "log.jsonl"
                if args.log is None:
                    write_line_log(log, sizes.log_bytes)
                result[name] = biglog(log, sizes)
            print(name, json.dumps(result[name]), file=sys.stderr, flush=True)
        print(json.dumps(result), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
