"""Damage of every kind: noticed, named in one line, set aside, the rest readable, and writing goes on."""

import os
import random
import shutil
import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from collector.config import StoreConfig
from collector.errors import StoreError
from collector.records import Event, Route
from collector.store.journal import PAGE_BYTES, create
from collector.store.layout import Layout
from collector.store.mark import Mark, read_mark
from collector.store.reader import Reader
from collector.store.registry import Registry
from collector.store.verify import verify
from collector.store.writer import Writer
from collector.store.writer_lock import WriterLock
from console.cli import main

NOW = datetime(2026, 11, 29, tzinfo=UTC)
CALM = StoreConfig(seal_interval_s=1e9)
FRAME_BYTES = 24 + PAGE_BYTES


def event(number: int) -> Event:
    return Event(at=NOW, kind=f"k{number}", text=random.Random(number).randbytes(400).hex())


def fill(store: Path, hot: int, sealed: int = 0) -> None:
    """A closed store: sealed rows first, then hot ones, in the database file and not in a log."""
    with Writer(store, "collector", CALM) as writer:
        for number in range(1, sealed + 1):
            writer.append(event(number))
        writer.seal()
        for number in range(sealed + 1, sealed + hot + 1):
            writer.append(event(number))


def fill_with_log(store: Path, commits: int) -> None:
    """A store whose rows are all in the write-ahead log, as after a power loss."""
    live = store.with_name("live")
    with Writer(live, "collector", CALM) as writer:
        for number in range(1, commits + 1):
            writer.append(event(number)).result(5)
        shutil.copytree(live, store, ignore=shutil.ignore_patterns("*-shm"))


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 0x10
    path.write_bytes(content)


def kinds(store: Path) -> set[str]:
    with Reader(store).snapshot() as snapshot:
        frame = snapshot.frame("events")
    assert frame["text"].to_list() == [event(int(kind[1:])).text for kind in frame["kind"]]
    return set(frame["kind"])


def journal(store: Path) -> Path:
    return store / "journals/collector.sqlite"


def log(store: Path) -> Path:
    return store / "journals/collector.sqlite-wal"


def goes_on(store: Path, first_seq: int) -> None:
    """A writer opens, uses no seq twice, and the store is clean once its losses are accepted."""
    with Writer(store, "collector", CALM) as writer:
        assert writer.append(event(first_seq)).result(5).seq == first_seq
    assert verify(store, accept=True).faults == []
    assert verify(store).clean


def lost(store: Path) -> set[int]:
    return {seq for _, loss in verify(store).losses for seq in range(loss.lo, loss.hi + 1)}


def test_a_whole_store_is_clean(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill(tmp_path, hot=5, sealed=7)
    assert main(["verify", str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"{tmp_path}: clean; 12 records, 1 segments, 0 erased\n"
    assert not (tmp_path / "quarantine").exists()


def test_a_registry_with_routes_is_clean(tmp_path: Path) -> None:
    fill(tmp_path, hot=1)
    with Registry(tmp_path) as registry:
        registry.register_adapter("demo", tenant="t", base_model="m", actor="a", reason="r")
        routes = [Route(tenant="t", adapter="demo", version=0)]
        registry.replace_routes("t", routes, expected_revision=0, actor="a", reason="r")
    assert verify(tmp_path).clean


def test_a_flipped_bit_in_a_record_costs_that_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill(tmp_path, hot=50)
    position = journal(tmp_path).read_bytes().index((event(20).text or "").encode()) + 100
    flip(journal(tmp_path), position)
    with Reader(tmp_path).snapshot() as snapshot:
        assert snapshot.frame("events").height == 49
        assert "1 hot rows of events fail their crc32; run roundhouse verify" in snapshot.damage[0]
    assert main(["verify", str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert "journals/collector.sqlite: events record 20 fails its crc32, expected the bytes that were written; " in out
    assert "lost: 1 record of collector, 20 (" in out
    assert kinds(tmp_path) == {f"k{number}" for number in range(1, 51) if number != 20}
    assert list((tmp_path / "quarantine").glob("collector-*/collector.sqlite"))
    assert main(["verify", str(tmp_path)]) == 1
    goes_on(tmp_path, 51)


def flip_everywhere(folder: Path, places_a_page: int) -> None:
    whole = folder / "whole"
    fill(whole, hot=120, sealed=30)
    source = random.Random(5)
    pages = journal(whole).stat().st_size // PAGE_BYTES
    usual = (1, 4, 9, 20)
    noticed = 0
    for page in range(pages):
        offsets = [*source.sample(usual, min(2, places_a_page)), *source.sample(range(PAGE_BYTES), places_a_page)]
        for offset in offsets[:places_a_page]:
            store = folder / f"{page}-{offset}"
            shutil.copytree(whole, store)
            flip(journal(store), page * PAGE_BYTES + offset)
            found = verify(store)
            readable = kinds(store)
            missing = {f"k{seq}" for seq in range(1, 151)} - readable
            assert missing == {f"k{seq}" for seq in lost(store)}
            assert not missing or found.faults
            assert found.clean is (not found.faults)
            noticed += not found.clean
            shutil.rmtree(store)
    assert noticed > pages / 4


def test_a_flipped_bit_anywhere_in_a_journal_is_noticed_or_harmless(tmp_path: Path) -> None:
    """Header, b-tree pages, records, catalogue: whatever a bit hits, no record that is given is wrong."""
    flip_everywhere(tmp_path, places_a_page=1)


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_flipped_bits_in_many_places_of_a_journal_are_noticed_or_harmless(tmp_path: Path) -> None:
    flip_everywhere(tmp_path, places_a_page=25)


def test_a_flipped_bit_in_a_b_tree_page_costs_at_most_that_page(tmp_path: Path) -> None:
    fill(tmp_path, hot=200)
    content = journal(tmp_path).read_bytes()
    leaf = content.index((event(100).text or "").encode()) // PAGE_BYTES * PAGE_BYTES
    content = bytearray(content)
    content[leaf : leaf + 8] = b"\xff" * 8
    journal(tmp_path).write_bytes(content)
    with pytest.raises(StoreError, match=r"malformed.*run roundhouse verify"):
        Reader(tmp_path).snapshot()
    assert not verify(tmp_path).clean
    gone = lost(tmp_path)
    assert 100 in gone
    assert len(gone) < 30
    assert kinds(tmp_path) == {f"k{seq}" for seq in range(1, 201) if seq not in gone}
    goes_on(tmp_path, 201)


@pytest.mark.parametrize("auto_vacuum", [0, 2], ids=["of before", "of now"])
def test_a_destroyed_first_page_costs_nothing(tmp_path: Path, auto_vacuum: int) -> None:
    """Also in a file from before free pages were kept account of, whose tables have their roots elsewhere."""
    journal(tmp_path).parent.mkdir()
    made = sqlite3.connect(journal(tmp_path), isolation_level=None)
    create(made, journal(tmp_path), "collector", auto_vacuum=auto_vacuum)
    made.close()
    fill(tmp_path, hot=40, sealed=20)
    content = journal(tmp_path).read_bytes()
    journal(tmp_path).write_bytes(bytes(PAGE_BYTES) + content[PAGE_BYTES:])
    assert not verify(tmp_path).clean
    assert kinds(tmp_path) == {f"k{seq}" for seq in range(1, 61)}
    goes_on(tmp_path, 61)


def test_a_lost_journal_leaves_its_segments(tmp_path: Path) -> None:
    fill(tmp_path, hot=10, sealed=20)
    journal(tmp_path).unlink()
    found = verify(tmp_path)
    assert not found.clean
    assert lost(tmp_path) == set(range(21, 31))
    assert kinds(tmp_path) == {f"k{seq}" for seq in range(1, 21)}
    goes_on(tmp_path, 31)


def test_turns_that_cannot_be_read_beside_a_running_writer_are_a_fault(tmp_path: Path, conversation: Any) -> None:
    with Writer(tmp_path, "collector", CALM) as writer:
        for turn in conversation("s", 40):
            writer.append(turn)
    db = sqlite3.connect(journal(tmp_path))
    (root,) = db.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'hot_turns'").fetchone()
    db.close()
    content = bytearray(journal(tmp_path).read_bytes())
    content[(root - 1) * PAGE_BYTES : (root - 1) * PAGE_BYTES + 8] = b"\xff" * 8
    journal(tmp_path).write_bytes(content)
    before = journal(tmp_path).read_bytes()
    lock = WriterLock(Layout(tmp_path), "collector")
    try:
        found = verify(tmp_path)
    finally:
        lock.release()
    assert not found.clean
    unreadable = "database disk image is malformed, expected readable pages"
    action = "stop the writer and run verify again to set it aside"
    assert f"journals/collector.sqlite: {unreadable}; {action}" in [str(fault) for fault in found.faults]
    assert journal(tmp_path).read_bytes() == before


def test_a_flipped_bit_in_the_middle_of_the_log_costs_at_most_one_page(tmp_path: Path) -> None:
    store = tmp_path / "store"
    fill_with_log(store, 120)
    frames = (log(store).stat().st_size - 32) // FRAME_BYTES
    flip(log(store), 32 + frames // 2 * FRAME_BYTES + 24 + PAGE_BYTES - 300)
    found = verify(store)
    assert "expected record 120, which was acknowledged" in str(found.faults[0])
    gone = lost(store)
    assert len(gone) <= 1
    assert kinds(store) == {f"k{seq}" for seq in range(1, 121) if seq not in gone}
    goes_on(store, 121)


@pytest.mark.parametrize("position", [0, 9, 17, 25, 32 + 9, 32 + 17, 32 + 5 * FRAME_BYTES + 10])
def test_a_flipped_bit_in_a_header_of_the_log_costs_nothing(tmp_path: Path, position: int) -> None:
    store = tmp_path / "store"
    fill_with_log(store, 40)
    flip(log(store), position)
    assert not verify(store).clean
    assert kinds(store) == {f"k{seq}" for seq in range(1, 41)}
    goes_on(store, 41)


@pytest.mark.parametrize("cut", [1, 100, 4000, 5 * FRAME_BYTES])
def test_a_truncated_log_is_a_lost_tail(tmp_path: Path, cut: int) -> None:
    store = tmp_path / "store"
    fill_with_log(store, 60)
    os.truncate(log(store), log(store).stat().st_size - cut)
    found = verify(store)
    assert "so the tail is lost, expected record 60, which was acknowledged" in str(found.faults[0])
    gone = lost(store)
    assert gone
    assert gone == set(range(min(gone), 61))
    assert kinds(store) == {f"k{seq}" for seq in range(1, min(gone))}
    goes_on(store, 61)


@pytest.mark.parametrize("tail", [bytes(9000), random.Random(1).randbytes(9000)])
def test_zeros_or_garbage_behind_the_log_cost_nothing(tmp_path: Path, tail: bytes) -> None:
    store = tmp_path / "store"
    fill_with_log(store, 30)
    with log(store).open("ab") as file:
        file.write(tail)
    assert verify(store).clean
    assert len(kinds(store)) == 30
    goes_on(store, 31)


def test_a_lost_log_is_noticed_by_the_writer_too(tmp_path: Path) -> None:
    store = tmp_path / "store"
    fill_with_log(store, 20)
    log(store).unlink()
    with Writer(store, "collector", CALM) as writer:
        (line,) = writer.repaired
        assert writer.append(event(99)).result(5).seq == 22
    with Reader(store).snapshot() as snapshot:
        said = snapshot.frame("events").filter(pl.col("kind") == "quarantined")
    assert said.select("seq", "severity", "text").rows() == [(21, "fail", line)]
    assert not verify(store).clean
    assert lost(store) == set(range(1, 21))


def test_a_missing_mark_is_noticed_and_written_anew(tmp_path: Path) -> None:
    fill(tmp_path, hot=5)
    mark = tmp_path / "journals/collector.mark"
    mark.unlink()
    found = verify(tmp_path)
    assert [str(fault) for fault in found.faults] == [
        "journals/collector.mark: no readable mark, expected the acknowledged high-water mark; it is written anew"
    ]
    assert read_mark(mark) == 5
    assert verify(tmp_path).clean


def test_a_torn_write_of_the_mark_leaves_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / "mark"
    mark = Mark(path)
    for seq in (5, 6, 7):
        mark.write(seq)
    mark.close()
    assert read_mark(path) == 7
    flip(path, 0)
    assert read_mark(path) == 6
    flip(path, 512)
    assert read_mark(path) is None


def damage_segment(store: Path, damage: Callable[[bytearray], None]) -> Path:
    (segment,) = (store / "segments/events").glob("collector.*.parquet")
    content = bytearray(segment.read_bytes())
    damage(content)
    segment.write_bytes(content)
    return segment


def test_a_flipped_bit_in_the_body_of_a_segment_costs_what_it_hits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(tmp_path, hot=10, sealed=3000)

    def hit_the_first_row_group(content: bytearray) -> None:
        content[20_000] ^= 1

    segment = damage_segment(tmp_path, hit_the_first_row_group)
    with pytest.raises(StoreError, match=r"collector.*parquet.*expected a whole segment; run roundhouse verify"):
        kinds(tmp_path)
    assert main(["verify", str(tmp_path)]) == 1
    assert f"segments/events/{segment.name}: sha256 " in capsys.readouterr().out
    gone = lost(tmp_path)
    assert 0 < len(gone) <= 2048
    assert max(gone) <= 2048
    assert kinds(tmp_path) == {f"k{seq}" for seq in range(1, 3011) if seq not in gone}
    assert list((tmp_path / "quarantine").rglob(segment.name))
    goes_on(tmp_path, 3011)


def test_a_flipped_bit_in_the_footer_of_a_segment_is_noticed(tmp_path: Path) -> None:
    fill(tmp_path, hot=10, sealed=30)

    def hit_the_footer(content: bytearray) -> None:
        content[-6] ^= 0x40

    damage_segment(tmp_path, hit_the_footer)
    assert not verify(tmp_path).clean
    assert lost(tmp_path) == set(range(1, 31))
    assert kinds(tmp_path) == {f"k{seq}" for seq in range(31, 41)}
    goes_on(tmp_path, 41)


def test_a_missing_segment_is_noticed(tmp_path: Path) -> None:
    fill(tmp_path, hot=10, sealed=30)
    damage_segment(tmp_path, lambda content: None).unlink()
    assert "no such file, expected a sealed segment" in str(verify(tmp_path).faults[0])
    assert lost(tmp_path) == set(range(1, 31))
    goes_on(tmp_path, 41)


def test_an_orphan_is_noticed_and_moved_aside(tmp_path: Path) -> None:
    fill(tmp_path, hot=10, sealed=30)
    segment = damage_segment(tmp_path, lambda content: None)
    orphan = segment.with_name("collector.000000000031-000000000040.0.parquet")
    shutil.copy(segment, orphan)
    half_written = segment.with_name("collector.000000000041-000000000050.0.parquet.tmp")
    half_written.write_bytes(b"half")
    found = verify(tmp_path)
    assert [(fault.where, fault.found) for fault in found.faults] == [
        (f"segments/events/{orphan.name}", "an orphan"),
        (f"segments/events/{half_written.name}", "an orphan"),
    ]
    assert not orphan.exists()
    assert list((tmp_path / "quarantine").rglob(orphan.name))
    assert verify(tmp_path).clean
    assert len(kinds(tmp_path)) == 40


def test_a_file_of_no_writer_is_noticed(tmp_path: Path) -> None:
    fill(tmp_path, hot=1)
    (tmp_path / "segments/turns/notes.txt").write_text("")
    assert "segments/turns/notes.txt: a file of no writer" in str(verify(tmp_path).faults[0])


def test_turns_that_extend_a_lost_one_are_reported_and_read_as_null(tmp_path: Path, conversation: Any) -> None:
    turns = conversation("s", 30, added=40, sampled=60)
    with Writer(tmp_path, "collector", CALM) as writer:
        for turn in turns:
            writer.append(turn)
    db = sqlite3.connect(journal(tmp_path))
    (body,) = db.execute("SELECT body FROM hot_turns WHERE seq = 20").fetchone()
    db.close()
    flip(journal(tmp_path), journal(tmp_path).read_bytes().index(body[40:200]) + 8)
    lines = [str(fault) for fault in verify(tmp_path).faults]
    chain = next(line for line in lines if "extends is lost" in line)
    with Reader(tmp_path).snapshot() as snapshot:
        frame = snapshot.frame("turns")
        damage = snapshot.damage
    broken = frame.filter(frame["prompt_ids"].is_null())["seq"].to_list()
    assert broken
    assert broken[0] == 21
    assert f"the turn that record 21 to {broken[-1]} extends is lost" in chain
    assert [line for line in damage if "record 21 of collector: the turn its prompt extends is lost" in line]
    whole = {turn.turn_id: turn.prompt_ids for turn in turns}
    for turn_id, prompt in frame.filter(frame["prompt_ids"].is_not_null()).select("turn_id", "prompt_ids").rows():
        assert prompt == whole[turn_id]
    assert frame.height == 29


def test_a_store_in_use_is_checked_and_left_alone(tmp_path: Path) -> None:
    with Writer(tmp_path, "collector", StoreConfig(seal_rows=20, seal_interval_s=0.05, grace_s=0.1)) as writer:
        for number in range(1, 300):
            writer.append(event(number))
        found = verify(tmp_path)
        assert found.clean, found
        orphan = tmp_path / "segments/events/collector.000000000900-000000000901.0.parquet"
        orphan.write_bytes(b"")
        (fault,) = verify(tmp_path).faults
        assert str(fault).endswith("stop the writer and run verify again to set it aside")
        assert orphan.exists()


def test_a_salvage_that_a_crash_cut_short_is_completed(tmp_path: Path) -> None:
    fill(tmp_path, hot=30)
    fresh = journal(tmp_path).with_suffix(".sqlite.new")
    journal(tmp_path).rename(fresh)
    log(tmp_path).write_bytes(b"left behind")
    assert verify(tmp_path).clean
    assert not fresh.exists()
    assert len(kinds(tmp_path)) == 30
    shutil.copy(journal(tmp_path), fresh)
    assert verify(tmp_path).clean
    assert not fresh.exists()


def test_json_says_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import json

    fill(tmp_path, hot=3)
    assert main(["verify", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "clean": True, "records": 3, "segments": 0, "erased": 0, "faults": [], "losses": [],
    }  # fmt: skip
    assert main(["verify", str(tmp_path / "none")]) == 2
    assert "no such folder, expected a store" in capsys.readouterr().err
