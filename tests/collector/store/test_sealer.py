"""Sealing by count, size and age; merging of small segments; removal after the grace period."""

import sqlite3
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from collector.config import StoreConfig
from collector.records import Event
from collector.store.compaction import SMALL_SEGMENTS, mergeable
from collector.store.journal import Segment
from collector.store.layout import SegmentName
from collector.store.reader import Reader
from collector.store.verify import verify
from collector.store.writer import Writer


def event(number: int, size: int = 10) -> Event:
    return Event(at=datetime(2026, 11, 29, tzinfo=UTC), kind=f"k{number}", text="x" * size)


def segments(store: Path) -> list[str]:
    return sorted(path.name for path in (store / "segments/events").glob("collector.*.parquet"))


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_many_rows_are_sealed(tmp_path: Path) -> None:
    with Writer(tmp_path, "collector", StoreConfig(seal_rows=50)) as writer:
        for number in range(120):
            writer.append(event(number))
        wait_for(lambda: len(segments(tmp_path)) == 2)
        with Reader(tmp_path).snapshot() as snapshot:
            assert snapshot.frame("events")["seq"].to_list() == list(range(1, 121))
    assert segments(tmp_path) == [
        "collector.000000000001-000000000050.0.parquet",
        "collector.000000000051-000000000100.0.parquet",
    ]


def test_large_rows_are_sealed_though_they_are_few(tmp_path: Path) -> None:
    with Writer(tmp_path, "collector", StoreConfig(seal_bytes=10_000)) as writer:
        for number in range(25):
            writer.append(event(number, 1000)).result(5)
        wait_for(lambda: len(segments(tmp_path)) == 2)


def test_old_rows_are_sealed_though_they_are_few(tmp_path: Path) -> None:
    with Writer(tmp_path, "collector", StoreConfig(seal_interval_s=0.2)) as writer:
        writer.append(event(1)).result(5)
        wait_for(lambda: len(segments(tmp_path)) == 1)


def test_small_segments_are_merged_and_removed_after_the_grace_period(tmp_path: Path) -> None:
    replaced = threading.Event()

    def note(point: str) -> None:
        if point == "replaced":
            replaced.set()

    with Writer(tmp_path, "collector", StoreConfig(seal_interval_s=0.1, grace_s=600), hook=note) as writer:
        for number in range(SMALL_SEGMENTS):
            writer.append(event(number)).result(5)
            if number < SMALL_SEGMENTS - 1:
                writer.seal()
        merged = f"collector.{1:012d}-{SMALL_SEGMENTS:012d}.1.parquet"
        assert replaced.wait(60)
        assert merged in segments(tmp_path)
        assert len(segments(tmp_path)) == SMALL_SEGMENTS + 1
        with Reader(tmp_path).snapshot() as snapshot:
            assert [path.name for path in snapshot.sealed_segments("events")] == [merged]
            assert snapshot.frame("events")["seq"].to_list() == list(range(1, SMALL_SEGMENTS + 1))
    with Writer(tmp_path, "collector", StoreConfig(grace_s=600)) as writer:
        assert len(segments(tmp_path)) == SMALL_SEGMENTS + 1
    with Writer(tmp_path, "collector", StoreConfig(grace_s=0.01)) as writer:
        wait_for(lambda: segments(tmp_path) == [merged])
    assert verify(tmp_path).clean


def entry(lo: int, hi: int, size: int = 10) -> Segment:
    name = str(SegmentName("w", lo, hi, 0))
    return Segment(name, "events", lo, hi, hi - lo + 1, size, "", "")


def test_only_a_run_of_small_neighbours_that_fit_together_is_merged() -> None:
    config = StoreConfig(seal_rows=100, seal_bytes=1000)
    small = [entry(10 * n + 1, 10 * n + 10) for n in range(9)]
    assert mergeable(small, config) == small
    assert mergeable(small[:7], config) == []
    assert mergeable([*small[:7], entry(71, 170), *small[8:]], config) == []
    assert mergeable([entry(1, 60), *[entry(61 + n, 61 + n) for n in range(8)]], config)[0].lo == 61
    assert mergeable([entry(10 * n + 1, 10 * n + 10, size=300) for n in range(9)], config) == []


def test_a_hot_record_that_was_damaged_is_not_sealed(tmp_path: Path) -> None:
    with Writer(tmp_path, "collector") as writer:
        for number in range(1, 11):
            writer.append(event(number)).result(5)
        db = sqlite3.connect(tmp_path / "journals/collector.sqlite", isolation_level=None)
        (body,) = db.execute("SELECT body FROM hot_events WHERE seq = 4").fetchone()
        damaged = body.replace(b"k4", b"k5")
        db.execute("UPDATE hot_events SET body = ? WHERE seq = 4", (damaged,))
        db.close()
        writer.seal()
        with Reader(tmp_path).snapshot() as snapshot:
            assert snapshot.frame("events")["kind"].to_list() == [f"k{n}" for n in range(1, 11) if n != 4]
            assert "a record failed its crc32 when it was to be sealed (records 4 to 4" in snapshot.damage[0]
        assert writer.append(event(11)).result(5).seq == 11
    ((_, loss),) = verify(tmp_path).losses
    assert (tmp_path / str(loss.kept_at) / "4.body").read_bytes() == damaged
