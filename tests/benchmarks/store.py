"""How fast the store makes turns durable, how long an acknowledgement takes, and how a long session grows on disk.

    python tests/benchmarks/store.py [--quick] [--only PART ...] [--folder DIR]

Prints one JSON line. Rates are turns a second from the first append to the last acknowledgement; what is written is
made beforehand and outside the clock. `bare_sqlite` writes the same records in the same run: encoded once as JSON,
one row a record, WAL, synchronous=FULL, the same rows a transaction.
"""

import argparse
import gc
import json
import multiprocessing
import os
import platform
import random
import shutil
import sqlite3
import statistics
import string
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from collector.config import StoreConfig
from collector.records import ChatRequest, Turn, VersionSpan
from collector.store.reader import Reader
from collector.store.writer import Writer

PROMPT_TOKENS, COMPLETION_TOKENS = 100, 500
TURNS_PER_SESSION = 20
WORDS = [
    "".join(random.Random(n).choices(string.ascii_lowercase, k=random.Random(n).randint(2, 9))) for n in range(3_000)
]
AT = datetime(2026, 1, 1, tzinfo=UTC)


class Sizes(NamedTuple):
    """How much of each part is measured."""

    plain_turns: int
    request_turns: int
    waves: int
    paced_s: float
    disk_turns: int


FULL = Sizes(plain_turns=10_000, request_turns=1_500, waves=3, paced_s=8.0, disk_turns=200)
QUICK = Sizes(plain_turns=1_500, request_turns=200, waves=2, paced_s=2.0, disk_turns=200)


def prose(source: random.Random, letters: int) -> str:
    """Words of a fixed vocabulary: compresses about as English does."""
    return " ".join(source.choices(WORDS, k=letters // 6))[:letters]


def noise(source: random.Random, letters: int) -> str:
    """Text with six bits of chance in each letter: hardly compresses."""
    return "".join(source.choices(string.ascii_letters + string.digits + "+/", k=letters))


def tools(source: random.Random) -> list[dict[str, object]]:
    """24 tool definitions, 60 KB as JSON, as a coding agent sends with every call."""
    return [
        {
            "type": "function",
            "function": {
                "name": f"tool_{n}",
                "description": prose(source, 2_000),
                "parameters": {
                    "type": "object",
                    "properties": {key: {"type": "string", "description": prose(source, 60)} for key in "abcd"},
                    "required": ["a", "b"],
                },
            },
        }
        for n in range(24)
    ]


def turn(session: str, number: int, source: random.Random, *, prompt: list[int] | None = None) -> Turn:
    """One turn of 500 sampled tokens."""
    completion = source.choices(range(150_000), k=COMPLETION_TOKENS)
    logprobs = np.float32([0.0 if source.random() < 0.35 else -source.expovariate(1.5) for _ in completion]).tolist()
    return Turn(
        turn_id=f"{session}-{number}",
        session_id=session,
        turn=number,
        parent_turn_id=f"{session}-{number - 1}" if number > 1 else None,
        link="extends" if number > 1 else "root",
        tenant="bench",
        adapter="bot",
        adapter_version=3,
        api="chat",
        started_at=AT,
        first_token_at=AT,
        finished_at=AT,
        prompt_ids=prompt or source.choices(range(150_000), k=PROMPT_TOKENS),
        completion_ids=completion,
        sampled_logprobs=logprobs,
        logprob_mode="scaled",
        weight_versions=[VersionSpan(version=3, start=0, end=COMPLETION_TOKENS)],
        temperature=1.0,
        finish_reason="stop",
        trainable=True,
        response={"role": "assistant", "content": prose(source, 2_000)},
    )


def plain(count: int, seed: int) -> list[Turn]:
    """Turns without request text, each the first of its session."""
    source = random.Random(seed)
    models = [turn(f"m{n}", 1, source) for n in range(min(count, 1_000))]
    return [
        msgspec.structs.replace(models[n % len(models)], turn_id=f"p{seed}-{n}", session_id=f"p{seed}-{n}")
        for n in range(count)
    ]


def growing(count: int, seed: int, *, grow_prompt: bool = False) -> list[Turn]:
    """Sessions of 20 turns as a coding agent makes them: 60 KB of tools each time, a history that grows to 24 KB."""
    source = random.Random(seed)
    shared_tools = tools(source)
    turns: list[Turn] = []
    while len(turns) < count:
        session = f"g{seed}-{len(turns)}"
        messages: list[dict[str, object]] = [{"role": "system", "content": prose(source, 4_000)}]
        prompt = source.choices(range(150_000), k=PROMPT_TOKENS)
        for number in range(1, TURNS_PER_SESSION + 1):
            messages.append({"role": "tool", "tool_call_id": f"call_{number}", "content": prose(source, 900)})
            # As the collector gets it: decoded from the body, sharing no object with the turn before.
            body = msgspec.json.encode(ChatRequest(messages=messages, tools=shared_tools))
            made = turn(session, number, source, prompt=list(prompt) if grow_prompt else None)
            turns.append(msgspec.structs.replace(made, request=msgspec.json.decode(body, type=ChatRequest)))
            messages.append({"role": "assistant", "content": prose(source, 300)})
            prompt += [*made.completion_ids, *source.choices(range(150_000), k=PROMPT_TOKENS)]
    return turns[:count]


def incompressible(count: int, seed: int) -> list[Turn]:
    """Turns with 76 KB of distinct text that hardly compresses: the worst that a client can send."""
    source = random.Random(seed)
    return [
        msgspec.structs.replace(
            turn(f"w{seed}-{n}", 1, source),
            request=ChatRequest(messages=[{"role": "user", "content": noise(source, 76_000)}]),
        )
        for n in range(count)
    ]


class Speed(NamedTuple):
    """Of one wave: by the clock, and by the processor, which other load on the machine does not change much."""

    turns_s: float
    cpu_us_a_turn: float


def speed(write: Callable[[Sequence[Turn]], None], turns: Sequence[Turn]) -> Speed:
    """Writes turns and times it until the last is durable."""
    gc.collect()
    gc.freeze()
    start, cpu = time.perf_counter(), time.process_time()
    write(turns)
    took, burnt = time.perf_counter() - start, time.process_time() - cpu
    gc.unfreeze()
    return Speed(len(turns) / took, 1e6 * burnt / len(turns))


def store_writer(writer: Writer) -> Callable[[Sequence[Turn]], None]:
    """Appends turns and waits until the last is durable."""

    def write(turns: Sequence[Turn]) -> None:
        futures = [writer.append(one) for one in turns]
        for future in futures:
            future.result(120)

    return write


def bare_writer(path: Path, group: int) -> Callable[[Sequence[Turn]], None]:
    """The same records, each as JSON in one row of a bare SQLite file."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE turns (seq INTEGER PRIMARY KEY, turn_id TEXT, body BLOB)")

    def write(turns: Sequence[Turn]) -> None:
        for start in range(0, len(turns), group):
            rows = [(one.turn_id, msgspec.json.encode(one)) for one in turns[start : start + group]]
            connection.execute("BEGIN")
            connection.executemany("INSERT INTO turns (turn_id, body) VALUES (?, ?)", rows)
            connection.execute("COMMIT")

    return write


def acknowledgements_ms(writer: Writer, turns: Sequence[Turn], per_second: float | None) -> list[float]:
    """Milliseconds from each append to its acknowledgement, at a steady pace or as fast as the queue takes them."""
    waited: list[float] = []
    futures: list[Future[Any]] = []
    begin = time.perf_counter()
    for n, one in enumerate(turns):
        if per_second is not None:
            time.sleep(max(0.0, begin + n / per_second - time.perf_counter()))
        started = time.perf_counter()
        future = writer.append(one)
        future.add_done_callback(lambda _, started=started: waited.append((time.perf_counter() - started) * 1e3))
        futures.append(future)
    for future in futures:
        future.result(120)
    return waited


def percentiles(waited_ms: Sequence[float]) -> dict[str, float]:
    """p50, p99 and the longest."""
    p50, p99 = np.percentile(waited_ms, [50, 99])
    return {"p50_ms": round(p50, 2), "p99_ms": round(p99, 2), "max_ms": round(max(waited_ms), 2), "n": len(waited_ms)}


class Polling(NamedTuple):
    """What one live reader found."""

    polls: int
    errors: list[str]
    violations: list[str]
    snapshot_ms: list[float]


def poll(store: Path, started_all: Any, stop: Any, found: Any) -> None:
    """Reads the whole store again and again, and checks that each record is there once and none goes away."""
    polls, errors, violations, took, seen = 0, list[str](), list[str](), list[float](), 0
    started_all.wait(120)
    while not stop.is_set():
        started = time.perf_counter()
        try:
            with Reader(store).snapshot() as snapshot:
                seqs = snapshot.frame("turns", columns=["seq"])["seq"].to_numpy()
        except Exception as error:  # noqa: BLE001 (whatever it is, the benchmark reports it)
            errors.append(repr(error))
        else:
            took.append((time.perf_counter() - started) * 1e3)
            if not np.array_equal(np.sort(seqs), np.arange(1, len(seqs) + 1)):
                violations.append(f"{len(seqs)} rows are not 1 to {len(seqs)}")
            if len(seqs) < seen:
                violations.append(f"{len(seqs)} rows after {seen}")
            seen = len(seqs)
        polls += 1
        time.sleep(0.1)
    found.put(Polling(polls, errors, violations, took))


def paced(folder: Path, sizes: Sizes, make: Callable[[int, int], list[Turn]], per_second: float) -> dict[str, object]:
    """Acknowledgement at a steady pace while three processes read the store."""
    store = folder / f"paced{per_second:.0f}"
    turns = make(int(per_second * sizes.paced_s), 77)
    spawn = multiprocessing.get_context("spawn")
    started_all, stop, found = spawn.Barrier(4), spawn.Event(), spawn.Queue()
    # Rows are sealed every second, so that the readers meet segments as they appear.
    with Writer(store, "collector", StoreConfig(seal_interval_s=1.0)) as writer:
        readers = [spawn.Process(target=poll, args=(store, started_all, stop, found)) for _ in range(3)]
        for reader in readers:
            reader.start()
        started_all.wait(120)
        waited = acknowledgements_ms(writer, turns, per_second)
        stop.set()
        reports: list[Polling] = [found.get(timeout=60) for _ in readers]
        for reader in readers:
            reader.join(60)
    return {
        **percentiles(waited),
        "readers": {
            "polls": sum(report.polls for report in reports),
            "errors": [error for report in reports for error in report.errors][:3],
            "violations": [violation for report in reports for violation in report.violations][:3],
            "snapshot_p50_ms": round(statistics.median(took for report in reports for took in report.snapshot_ms), 1),
        },
    }


def disk(folder: Path, count: int) -> dict[str, object]:
    """Bytes of the sealed segments of one session at each quarter, and how straight the line through them is."""
    store = folder / "disk"
    source = random.Random(5)
    shared_tools = tools(source)
    prompt = source.choices(range(150_000), k=PROMPT_TOKENS)
    messages: list[dict[str, object]] = [{"role": "system", "content": prose(source, 4_000)}]
    at: list[int] = []
    sealed: list[int] = []
    uncompressed = 0
    with Writer(store, "collector") as writer:
        for number in range(1, count + 1):
            messages.append({"role": "tool", "tool_call_id": f"call_{number}", "content": prose(source, 900)})
            one = turn("long", number, source, prompt=list(prompt))
            request = ChatRequest(messages=list(messages), tools=shared_tools)
            writer.append(msgspec.structs.replace(one, request=request)).result(60)
            uncompressed += 4 * len(prompt) + 8 * COMPLETION_TOKENS + len(msgspec.json.encode(request))
            messages.append({"role": "assistant", "content": prose(source, 300)})
            prompt += [*one.completion_ids, *source.choices(range(150_000), k=PROMPT_TOKENS)]
            if number % (count // 4) == 0:
                writer.seal()
                at.append(number)
                sealed.append(size_of(store / "segments" / "turns"))
    slope, intercept = np.polyfit(at, sealed, 1)
    residual = np.asarray(sealed) - (slope * np.asarray(at) + intercept)
    spread = np.asarray(sealed) - np.mean(sealed)
    return {
        "turns": at,
        "segment_bytes": sealed,
        "store_bytes_closed": size_of(store),
        "bytes_if_each_turn_were_whole": uncompressed,
        "bytes_per_turn": round(float(slope)),
        "r_squared": round(1 - float(residual @ residual) / float(spread @ spread), 5),
        "last_quarter_over_first": round((sealed[3] - sealed[2]) / sealed[0], 3),
    }


def size_of(folder: Path) -> int:
    """Bytes of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def rates(
    folder: Path, sizes: Sizes, name: str, make: Callable[[int, int], list[Turn]], count: int
) -> dict[str, object]:
    """Turns a second of the store and of bare SQLite, and the store's acknowledgement at full speed."""
    group = StoreConfig().group_commit_rows
    bare = bare_writer(folder / f"{name}.sqlite", group)
    with Writer(folder / name, "collector") as writer:
        ours, theirs = list[Speed](), list[Speed]()
        for wave in range(sizes.waves):
            # The same turns, one after the other, so that both meet the machine in the same state.
            ours.append(speed(store_writer(writer), make(count, wave)))
            theirs.append(speed(bare, make(count, wave)))
        waited = acknowledgements_ms(writer, make(count, 99), None)
        expected = count * (sizes.waves + 1)
    with Reader(folder / name).snapshot() as snapshot:
        stored = snapshot.frame("turns", columns=["turn_id"])
    assert stored.height == stored["turn_id"].n_unique() == expected, (stored.height, expected)
    return {
        "turns_s": round(statistics.median(wave.turns_s for wave in ours)),
        "turns_s_waves": [round(wave.turns_s) for wave in ours],
        "cpu_us_a_turn": round(statistics.median(wave.cpu_us_a_turn for wave in ours)),
        "bare_sqlite_turns_s": round(statistics.median(wave.turns_s for wave in theirs)),
        "bare_sqlite_cpu_us_a_turn": round(statistics.median(wave.cpu_us_a_turn for wave in theirs)),
        "over_bare_sqlite": round(
            statistics.median(one.turns_s / other.turns_s for one, other in zip(ours, theirs, strict=True)), 2
        ),
        "full_speed": percentiles(waited),
    }


def parts(folder: Path, sizes: Sizes) -> Iterator[tuple[str, Callable[[], dict[str, object]]]]:
    """Everything that is measured, by name."""
    yield "plain", lambda: rates(folder, sizes, "plain", plain, sizes.plain_turns)
    yield "request_76kb", lambda: rates(folder, sizes, "request", growing, sizes.request_turns)
    yield "request_76kb_distinct", lambda: rates(folder, sizes, "distinct", incompressible, sizes.request_turns)
    yield "paced_50", lambda: paced(folder, sizes, growing, 50)
    yield "paced_500", lambda: paced(folder, sizes, plain, 500)
    yield "disk", lambda: disk(folder, sizes.disk_turns)


def main() -> int:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="a short run, for the harness itself")
    parser.add_argument("--only", nargs="+", metavar="PART", help="measure only these parts")
    parser.add_argument("--folder", type=Path, help="where to write (default: a temporary folder)")
    args = parser.parse_args()
    sizes = QUICK if args.quick else FULL
    folder = Path(tempfile.mkdtemp(prefix="roundhouse-bench-", dir=args.folder))
    result: dict[str, object] = {
        "benchmark": "store",
        "quick": args.quick,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "load_before": os.getloadavg()[0],
        "tokens_a_turn": COMPLETION_TOKENS,
    }
    try:
        for name, measure in parts(folder, sizes):
            if args.only is None or name in args.only:
                result[name] = measure()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
