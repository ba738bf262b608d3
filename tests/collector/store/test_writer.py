"""The writer: durable answers, refusals, and full or locked disks."""

import asyncio
import os
import resource
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from collector.config import StoreConfig
from collector.errors import StoreError
from collector.records import Event
from collector.store.mark import read_mark
from collector.store.reader import Reader
from collector.store.verify import verify
from collector.store.writer import Ack, Writer

NOW = datetime(2026, 11, 29, tzinfo=UTC)


def event(number: int, text: str = "") -> Event:
    return Event(at=NOW, kind=f"k{number}", text=text)


def kinds(store: Path) -> list[str]:
    with Reader(store).snapshot() as snapshot:
        return snapshot.frame("events")["kind"].to_list()


def test_an_acknowledged_record_can_be_read_and_is_marked(tmp_path: Path) -> None:
    with Writer(tmp_path, "collector") as writer:
        assert writer.append(event(1)).result(5) == Ack("collector", 1)
        assert read_mark(tmp_path / "journals/collector.mark") == 1
        assert kinds(tmp_path) == ["k1"]
        assert writer.durable_seq == 1


def test_seqs_are_dense_over_tables_and_restarts(tmp_path: Path, conversation: Any) -> None:
    seqs: list[int] = []
    for start in range(3):
        with Writer(tmp_path, "collector") as writer:
            futures = [writer.append(turn) for turn in conversation(f"s{start}", 3)]
            futures.append(writer.append(event(start)))
            seqs += [future.result(5).seq for future in futures]
            if start == 1:
                writer.seal()
    assert seqs == list(range(1, 13))


def test_records_appended_before_close_are_durable(tmp_path: Path) -> None:
    writer = Writer(tmp_path, "collector")
    futures = [writer.append(event(number)) for number in range(3000)]
    writer.close()
    assert [future.result(0).seq for future in futures] == list(range(1, 3001))
    assert len(kinds(tmp_path)) == 3000
    with pytest.raises(StoreError, match="the writer is closed"):
        writer.append(event(1)).result(0)


def test_many_threads_get_each_seq_once(tmp_path: Path) -> None:
    seqs: list[int] = []
    with Writer(tmp_path, "collector") as writer:

        def run() -> None:
            for number in range(60):
                seqs.append(writer.append(event(number)).result(20).seq)

        threads = [threading.Thread(target=run) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(seqs) == list(range(1, 481))


def test_a_second_writer_is_refused_with_the_holders_pid(tmp_path: Path) -> None:
    with Writer(tmp_path, "collector"), Writer(tmp_path, "trainer"):
        with pytest.raises(StoreError, match=rf"locked by the process with pid {os.getpid()}, expected no other"):
            Writer(tmp_path, "collector")
        imports = "from collector.store.writer import Writer; from pathlib import Path"
        code = f"{imports}; Writer(Path({str(tmp_path)!r}), 'collector')"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
        assert f"pid {os.getpid()}" in done.stderr
    Writer(tmp_path, "collector").close()


@pytest.mark.parametrize("name", ["", "Trainer", "a.b", "../x", "a" * 65])
def test_a_writers_name_must_be_a_file_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(StoreError, match="writer name"):
        Writer(tmp_path, name)


def test_a_record_that_cannot_be_stored_fails_alone(tmp_path: Path) -> None:
    with Writer(tmp_path, "collector") as writer:
        bad = Event(at=datetime(2026, 1, 1), kind="k")
        futures = [writer.append(record) for record in (event(1), bad, event(2))]
        assert [futures[0].result(5).seq, futures[2].result(5).seq] == [1, 2]
        with pytest.raises(StoreError, match=r"Event cannot be stored: time .* has no time zone"):
            futures[1].result(5)
        assert (writer.failed_total, writer.queued, writer.failure) == (1, 0, None)


def test_a_full_queue_pushes_threads_back_and_fails_at_once_in_an_event_loop(tmp_path: Path) -> None:
    gate = threading.Event()
    entered = threading.Event()

    def hold(point: str) -> None:
        if point == "committed":
            entered.set()
            gate.wait(20)

    with Writer(tmp_path, "collector", StoreConfig(queue_rows=5, group_commit_rows=2), hook=hold) as writer:
        first = writer.append(event(0))
        assert entered.wait(10)
        waiting = [writer.append(event(number)) for number in range(1, 5)]
        assert writer.queued == 5

        async def in_loop() -> None:
            with pytest.raises(StoreError, match="5 records wait to be written, expected at most 5"):
                writer.append(event(9)).result(0)

        asyncio.run(in_loop())
        pushed_back: list[Any] = []
        thread = threading.Thread(target=lambda: pushed_back.append(writer.append(event(5))))
        thread.start()
        thread.join(0.2)
        assert thread.is_alive()
        gate.set()
        thread.join(10)
        assert [future.result(10).seq for future in [first, *waiting, *pushed_back]] == [1, 2, 3, 4, 5, 6]
        assert writer.failed_total == 1


def test_a_slow_disk_delays_the_answer_and_not_the_caller(tmp_path: Path) -> None:
    gate = threading.Event()
    entered = threading.Event()

    def hold(point: str) -> None:
        if point == "committed":
            entered.set()
            assert gate.wait(60)

    with Writer(tmp_path, "collector", hook=hold) as writer:
        future = writer.append(event(1))
        assert entered.wait(60)
        assert not future.done()
        gate.set()
        assert future.result(60).seq == 1


@pytest.fixture
def tiny_disk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A file system of 12 MiB, or as many as the test asks for."""
    mib: int = getattr(request, "param", 12)
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={mib}m", "tmpfs", str(disk)], capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"NOT TESTED, a full disk: no tmpfs may be mounted here ({mounted.stderr.strip()})")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_full_disk_fails_the_records_and_none_is_torn(tiny_disk: Path) -> None:
    store = tiny_disk / "store"
    acknowledged: list[str] = []
    with Writer(store, "collector", StoreConfig(seal_interval_s=1e9, seal_bytes=2**40)) as writer:
        ballast = tiny_disk / "ballast"
        ballast.write_bytes(bytes(4 * 2**20))
        refusals: list[str] = []
        for number in range(400):
            try:
                writer.append(event(number, os.urandom(50_000).hex())).result(20)
                acknowledged.append(f"k{number}")
            except StoreError as error:
                refusals.append(str(error))
            if len(refusals) == 3:
                break
        assert ["disk is full" in refusal for refusal in refusals] == [True] * 3
        assert writer.failed_total == 3
        assert writer.failure
        assert "disk is full" in writer.failure
        assert kinds(store) == acknowledged
        ballast.unlink()
        for _ in range(100):
            if writer.failure is None:
                break
            time.sleep(0.1)
        assert writer.failure is None
        assert writer.append(event(1000)).result(20).seq == len(acknowledged) + 1
    assert kinds(store) == [*acknowledged, "k1000"]
    assert verify(store).clean


def test_a_full_disk_keeps_rows_hot_until_they_can_be_sealed(tiny_disk: Path) -> None:
    store = tiny_disk / "store"
    with Writer(store, "collector", StoreConfig(seal_interval_s=1e9)) as writer:
        for number in range(30):
            writer.append(event(number, os.urandom(50_000).hex())).result(20)
        ballast = tiny_disk / "ballast"
        with ballast.open("wb") as file:
            file.write(bytes(shutil.disk_usage(tiny_disk).free - 100_000))
        with pytest.raises(OSError, match="No space left"):
            writer.seal()
        assert len(kinds(store)) == 30
        assert not list((store / "segments/events").glob("collector.*"))
        ballast.unlink()
        writer.seal()
        assert len(kinds(store)) == 30
    assert verify(store).clean


@pytest.mark.parametrize("tiny_disk", [24], indirect=True)
def test_a_log_that_cannot_be_moved_into_the_database_is_counted_and_costs_no_record(tiny_disk: Path) -> None:
    store = tiny_disk / "store"
    with Writer(store, "collector", StoreConfig(seal_interval_s=1e9, seal_bytes=2**40)) as writer:
        stored = 0
        # At 16 MiB of records the log is to be moved, and 24 MiB have no room for both.
        while writer.append(event(stored, os.urandom(500_000).hex())).exception(20) is None:
            stored += 1
        assert 16 * 2**20 <= stored * 1_000_000 <= 24 * 2**20
        assert writer.failed_checkpoints_total == 1
        assert kinds(store) == [f"k{number}" for number in range(stored)]


def test_no_free_file_descriptor_fails_no_record(tmp_path: Path) -> None:
    with Writer(tmp_path, "collector") as writer:
        writer.append(event(0)).result(5)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 10, hard))
        taken: list[int] = []
        try:
            with suppress(OSError):
                while True:
                    taken.append(os.open("/dev/null", os.O_RDONLY))
            assert writer.append(event(1)).result(5).seq == 2
            with pytest.raises(Exception, match=r"Too many open files|unable to open database file"):
                writer.seal()
        finally:
            for descriptor in taken:
                os.close(descriptor)
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        writer.seal()
    assert kinds(tmp_path) == ["k0", "k1"]
    assert verify(tmp_path).clean


def test_a_store_that_cannot_be_written_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError) as refused:
        Writer(tmp_path / "file" / "store", "collector")
    assert str(refused.value) == (
        f"{tmp_path}/file/store: Not a directory, expected a folder to write in; check its rights and its disk"
    )


def test_a_journal_of_another_version_is_refused(tmp_path: Path) -> None:
    import sqlite3

    Writer(tmp_path, "collector").close()
    db = sqlite3.connect(tmp_path / "journals/collector.sqlite")
    db.execute("UPDATE meta SET value = '99' WHERE key = 'schema_version'")
    db.execute("PRAGMA user_version = 99")
    db.commit()
    db.close()
    for open_it in (lambda: Writer(tmp_path, "collector"), lambda: Reader(tmp_path).snapshot()):
        with pytest.raises(StoreError, match="schema version 99, expected 1; use the release of roundhouse"):
            open_it()


def test_a_commit_whose_mark_failed_is_answered_with_an_error_and_its_seq_stays_taken(tmp_path: Path) -> None:
    """The record is there, though nobody was told: at most once, and no other record gets its seq."""
    fail: list[str] = []

    def hook(point: str) -> None:
        if point == "committed" and fail:
            raise OSError(fail.pop())

    with Writer(tmp_path, "collector", hook=hook) as writer:
        writer.append(event(1)).result(5)
        fail.append("the disk is gone")
        with pytest.raises(StoreError, match="the disk is gone; expected to write to it"):
            writer.append(event(2)).result(5)
        assert writer.append(event(3)).result(5).seq == 3
        assert writer.failure is None
        writer.seal()
    assert kinds(tmp_path) == ["k1", "k2", "k3"]
    assert verify(tmp_path).clean


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_fault_of_ours_leaves_no_caller_waiting(tmp_path: Path) -> None:
    def hook(point: str) -> None:
        assert point != "committed", "a fault of ours"

    writer = Writer(tmp_path, "collector", hook=hook)
    futures = [writer.append(event(number)) for number in range(10)]
    for future in futures:
        with pytest.raises(StoreError, match="the writer stopped on AssertionError"):
            future.result(10)
    with pytest.raises(StoreError):
        writer.append(event(11)).result(10)
    with pytest.raises(StoreError, match="the writer stopped on AssertionError"):
        writer.seal()
    writer.close()
    Writer(tmp_path, "collector").close()
    assert kinds(tmp_path)[0] == "k0"


def test_a_callback_that_appends_does_not_wait_for_itself(tmp_path: Path) -> None:
    answers: list[Any] = []
    with Writer(tmp_path, "collector", StoreConfig(queue_rows=2)) as writer:

        def again(_: Any) -> None:
            answers.extend(writer.append(event(number)) for number in range(10, 15))

        writer.append(event(1)).add_done_callback(again)
        while len(answers) < 5:
            time.sleep(0.01)
    assert [answer.exception() is None for answer in answers] == [True, True, False, False, False]


def test_a_turn_is_not_stored_against_one_that_was_refused(tmp_path: Path, conversation: Any) -> None:
    first, second, third = conversation("s", 3)
    refused = msgspec.structs.replace(second, tenant=5)
    with Writer(tmp_path, "collector") as writer:
        futures = [writer.append(turn) for turn in (first, refused, third)]
        with pytest.raises(StoreError, match="Expected `str`, got `int`"):
            futures[1].result(5)
        futures[2].result(5)
    with Reader(tmp_path).snapshot() as snapshot:
        turns = snapshot.frame("turns", columns=["turn_id", "seq", "prompt_ids", "prefix_seq"])
    assert turns["prompt_ids"].to_list() == [first.prompt_ids, third.prompt_ids]
    assert turns["prefix_seq"].to_list() == [None, None]
