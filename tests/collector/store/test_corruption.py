"""Damage by kind and by file: verify exits non-zero, says where, sets it aside, and the rest is readable and true."""

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from collector.store.journal import PAGE_BYTES
from collector.store.verify import verify
from console.cli import main
from tests.collector.store.test_verify import event, fill, fill_with_log, flip, goes_on, journal, kinds, log

RECORDS = 60
Damage = Callable[[Path], None]


def cut(size: int) -> Damage:
    """Takes bytes off the end."""
    return lambda path: os.truncate(path, path.stat().st_size - size)


def overwrite(tail: bytes) -> Damage:
    """Puts other bytes over the last ones."""

    def damage(path: Path) -> None:
        content = path.read_bytes()
        path.write_bytes(content[: -len(tail)] + tail)

    return damage


def flip_at(share: float) -> Damage:
    """Turns one bit, at a share of the file."""
    return lambda path: flip(path, int(path.stat().st_size * share))


def flip_record(path: Path) -> None:
    """Turns a bit of a record's text."""
    flip(path, path.read_bytes().index((event(20).text or "").encode()) + 50)


TAILS: dict[str, Damage] = {
    "cut by 1": cut(1),
    "cut by 100": cut(100),
    "cut by 4000": cut(4000),
    "zeros over the end": overwrite(bytes(4000)),
    "garbage over the end": overwrite(random.Random(7).randbytes(4000)),
}


@pytest.mark.parametrize("name", TAILS)
def test_a_damaged_end_of_the_log(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    store = tmp_path / "store"
    fill_with_log(store, RECORDS)
    TAILS[name](log(store))
    survives(store, capsys, "journals/collector.sqlite", lost_at_least=1)


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
def test_a_flipped_bit_in_the_log(tmp_path: Path, share: float, capsys: pytest.CaptureFixture[str]) -> None:
    """Each commit writes its page whole again, so a flipped bit may cost nothing; it is seen all the same."""
    store = tmp_path / "store"
    fill_with_log(store, RECORDS)
    flip_at(share)(log(store))
    survives(store, capsys, "journals/collector.sqlite", lost_at_least=0)


DATABASE: dict[str, Damage] = {
    "a record": flip_record,
    "cut by a page": cut(PAGE_BYTES),
    "cut by 100": cut(100),
    "zeros over a page": overwrite(bytes(PAGE_BYTES)),
    "garbage over the end": overwrite(random.Random(8).randbytes(3 * PAGE_BYTES)),
}


@pytest.mark.parametrize("name", DATABASE)
def test_a_damaged_database_file(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    fill(tmp_path, hot=RECORDS)
    DATABASE[name](journal(tmp_path))
    survives(tmp_path, capsys, "journals/collector.sqlite", lost_at_least=1)


SEGMENT: dict[str, Damage] = {
    **TAILS,
    "a bit of the footer": lambda path: flip(path, path.stat().st_size - 30),
    "a bit of the footer's length": lambda path: flip(path, path.stat().st_size - 7),
    "a bit of the body": flip_at(0.3),
    "the magic at the start": lambda path: flip(path, 1),
    "nothing left": lambda path: os.truncate(path, 0),
}


@pytest.mark.parametrize("name", SEGMENT)
def test_a_damaged_segment(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    fill(tmp_path, hot=10, sealed=RECORDS - 10)
    (segment,) = (tmp_path / "segments/events").glob("collector.*.parquet")
    SEGMENT[name](segment)
    survives(tmp_path, capsys, f"segments/events/{segment.name}", lost_at_least=0)


def survives(store: Path, capsys: pytest.CaptureFixture[str], where: str, *, lost_at_least: int) -> None:
    """Damage is told by exit code and by name, set aside, and costs no record that is not said to be lost."""
    assert main(["verify", str(store)]) == 1
    assert where in capsys.readouterr().out
    assert any(path.is_file() for path in (store / "quarantine").rglob("*"))
    gone = {seq for _, loss in verify(store).losses for seq in range(loss.lo, loss.hi + 1)}
    assert len(gone) >= lost_at_least
    # Of what is left every text is compared with what was written.
    assert kinds(store) == {f"k{seq}" for seq in range(1, RECORDS + 1) if seq not in gone}
    goes_on(store, RECORDS + 1)
