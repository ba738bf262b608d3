"""A reader says what a journal lacks of what was acknowledged, and never cries wolf beside a writer."""

import shutil
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from collector.config import StoreConfig
from collector.records import Event
from collector.store.export import export_store
from collector.store.mark import read_mark
from collector.store.reader import Reader
from collector.store.writer import Writer
from console.cli import main

NOW = datetime(2026, 11, 29, tzinfo=UTC)
CALM = StoreConfig(seal_interval_s=1e9)


def event(number: int) -> Event:
    return Event(at=NOW, kind=f"k{number}", text="x" * 300)


@pytest.fixture
def cut_store(tmp_path: Path) -> Path:
    """Copied from a running writer: of 20 acknowledged records, the write-ahead log has lost the last ones."""
    live, store = tmp_path / "live", tmp_path / "store"
    with Writer(live, "collector", CALM) as writer:
        for number in range(1, 21):
            writer.append(event(number)).result(5)
        shutil.copytree(live, store, ignore=shutil.ignore_patterns("*-shm"))
    log = store / "journals/collector.sqlite-wal"
    log.write_bytes(log.read_bytes()[: log.stat().st_size * 3 // 4])
    return store


def test_a_lost_tail_is_said_before_any_writer_starts(cut_store: Path) -> None:
    for tables in (None, ["events"], ["turns"]):
        with Reader(cut_store).snapshot(tables) as snapshot:
            (line,) = snapshot.damage
    with Reader(cut_store).snapshot() as snapshot:
        last = max(snapshot.frame("events")["seq"])
    assert 0 < last < 20
    journal = cut_store / "journals/collector.sqlite"
    assert line == (
        f"{journal}: the last record is {last}, so the tail is lost, expected record 20, which was acknowledged; "
        "run roundhouse verify"
    )


def test_sql_and_export_of_a_store_with_a_lost_tail_fail(cut_store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sql", "select count(*) as n from events", "--store", str(cut_store), "--json"]) == 1
    assert "not read: " in capsys.readouterr().err
    for name in ("log", "log.jsonl", "log.duckdb"):
        assert main(["export", "--store", str(cut_store), "--to", str(cut_store.with_name(name))]) == 1
        assert "expected record 20, which was acknowledged; run roundhouse verify" in capsys.readouterr().err


def unlink(path: Path) -> None:
    path.unlink()


def cut_to_nothing(path: Path) -> None:
    path.write_bytes(b"")


def make_unreadable(path: Path) -> None:
    path.write_bytes(b"\1" * 1024)


@pytest.mark.parametrize("damage", [unlink, cut_to_nothing, make_unreadable])
def test_a_mark_that_cannot_be_read_is_said(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    with Writer(tmp_path, "collector", CALM) as writer:
        writer.append(event(1)).result(5)
    damage(tmp_path / "journals/collector.mark")
    with Reader(tmp_path).snapshot() as snapshot:
        assert snapshot.frame("events").height == 1
        (line,) = snapshot.damage
    assert "collector.mark: no readable mark, expected the acknowledged high-water mark" in line


def test_a_record_that_is_missing_from_the_middle_is_said(tmp_path: Path) -> None:
    with Writer(tmp_path, "collector", CALM) as writer:
        for number in range(1, 6):
            writer.append(event(number)).result(5)
        with writer._opened.journal.transaction() as db:  # pyright: ignore[reportPrivateUsage]
            db.execute("DELETE FROM hot_events WHERE seq = 3")
    with Reader(tmp_path).snapshot(["turns"]) as snapshot:
        (line,) = snapshot.damage
    assert "4 records, expected 5, one for each seq" in line


def test_no_reader_is_alarmed_by_a_running_writer(tmp_path: Path) -> None:
    """Readers poll from before each writer's first start through commits, seals and merges."""
    looks, alarms = [0], list[str]()

    def poll(store: Path, done: threading.Event) -> None:
        while not done.is_set():
            acknowledged = read_mark(store / "journals/collector.mark") or 0
            with Reader(store).snapshot() as snapshot:
                seqs = snapshot.frame("events", columns=["seq"])["seq"].to_list()
                alarms.extend(snapshot.damage)
            assert seqs == list(range(1, len(seqs) + 1))
            assert len(seqs) >= acknowledged
            looks[0] += 1

    for start in range(3):
        store, done = tmp_path / str(start), threading.Event()
        (store / "journals").mkdir(parents=True)
        errors: list[BaseException] = []
        readers = [threading.Thread(target=_caught, args=(poll, store, done, errors)) for _ in range(2)]
        for reader in readers:
            reader.start()
        config = StoreConfig(seal_rows=25, seal_interval_s=0.02, grace_s=30.0)
        with Writer(store, "collector", config) as writer:
            for number in range(1, 121):
                writer.append(event(number)).result(10)
        done.set()
        for reader in readers:
            reader.join(10)
        assert errors == []
    assert alarms == []
    assert looks[0] >= 10


def _caught(
    poll: Callable[[Path, threading.Event], None], store: Path, done: threading.Event, errors: list[BaseException]
) -> None:
    try:
        poll(store, done)
    except BaseException as error:
        errors.append(error)
        raise


def test_an_undamaged_export_says_nothing(tmp_path: Path) -> None:
    with Writer(tmp_path / "store", "collector", CALM) as writer:
        writer.append(event(1)).result(5)
    assert export_store(tmp_path / "store", tmp_path / "log", force=False, on_rows=lambda table, rows: None) == []
