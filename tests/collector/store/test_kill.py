"""Flow: processes killed with SIGKILL while they write; every acknowledged record is there, once and bit-equal."""

import importlib.util
import os
import random
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from collector.config import StoreConfig
from collector.records import Record, Turn
from collector.store.reader import Reader
from collector.store.verify import verify
from collector.store.writer import Writer

CHILD = Path(__file__).with_name("kill_child.py")
POINTS = ("committed", "tmp_written", "renamed", "catalogued", "replaced", "inspected", "orphan_deleted", "repaired")
"""Of a commit, a seal, a merge and a start: see the calls of `hook` in collector/store."""


class Victims:
    """Forks writers and kills them, at a point or after a time."""

    def __init__(self, store: Path, log: Path) -> None:
        self.store, self.log = store, log
        command = [sys.executable, str(CHILD), str(store), str(log)]
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
        self._parent = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self.rounds = 0

    def kill_at(self, point: str, countdown: int) -> None:
        """Lets a writer run until it reaches a point for the countdown-th time."""
        self._order(point, countdown)
        assert self._answer() == -signal.SIGKILL, f"the writer ended by itself before {point}"

    def kill_after(self, seconds: float) -> None:
        """Lets a writer run for a while."""
        pid = self._order("-", 1)
        time.sleep(seconds)
        os.kill(pid, signal.SIGKILL)
        assert self._answer() == -signal.SIGKILL

    def acknowledged(self) -> dict[str, int]:
        """Key to seq of every record that was ever acknowledged; a half-written last line does not count."""
        if not self.log.exists():
            return {}
        lines = self.log.read_text().splitlines(keepends=True)
        pairs = [line.split() for line in lines if line.endswith("\n")]
        keys = {key: int(seq) for seq, key in pairs}
        assert len(keys) == len(pairs)
        return keys

    def end(self) -> None:
        """Ends the process that forks."""
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        self._parent.stdin.close()
        self._parent.wait(20)
        self._parent.stdout.close()

    def _order(self, point: str, countdown: int) -> int:
        self.rounds += 1
        assert self._parent.stdin is not None
        self._parent.stdin.write(f"{self.rounds} {point} {countdown}\n")
        self._parent.stdin.flush()
        return self._answer()

    def _answer(self) -> int:
        assert self._parent.stdout is not None
        return int(self._parent.stdout.readline())


@pytest.fixture
def victims(tmp_path: Path) -> Iterator[Victims]:
    made = Victims(tmp_path / "store", tmp_path / "acknowledged.log")
    yield made
    made.end()


def written(rounds: int, last: dict[int, int]) -> dict[str, Record]:
    """Every record up to the last number of each round, made anew."""
    spec = importlib.util.spec_from_file_location("kill_child", CHILD)
    assert spec is not None
    assert spec.loader is not None
    child = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(child)
    made: dict[str, Record] = {}
    for number in range(1, rounds + 1):
        for _, (key, record) in zip(range(last.get(number, 0)), child.records(number), strict=False):
            made[key] = record
    return made


def check(victims: Victims) -> int:
    """Nothing acknowledged is lost, nothing is there twice, seqs are dense, every content is what was written."""
    acknowledged = victims.acknowledged()
    with Reader(victims.store).snapshot() as snapshot:
        turns = snapshot.frame("turns").rename({"turn_id": "key"})
        events = snapshot.frame("events").rename({"kind": "key"})
        assert snapshot.damage == ()
    seqs: dict[str, int] = {}
    last: dict[int, int] = {}
    for frame in (turns, events):
        for key, seq in frame.select("key", "seq").rows():
            assert key not in seqs, f"{key} is there twice"
            seqs[key] = seq
            round_number, number = map(int, key.split("/"))
            last[round_number] = max(last.get(round_number, 0), number)
    assert sorted(seqs.values()) == list(range(1, len(seqs) + 1))
    assert {key: seqs.get(key) for key in acknowledged} == acknowledged
    expected = written(victims.rounds, last)
    for row in turns.iter_rows(named=True):
        assert_equal(row, expected[row["key"]])
    for row in events.iter_rows(named=True):
        assert row["text"] == expected[row["key"]].text  # type: ignore[attr-defined]
    return len(acknowledged)


def assert_equal(row: dict[str, Any], turn: Record) -> None:
    assert isinstance(turn, Turn)
    assert row["prompt_ids"] == turn.prompt_ids, turn.turn_id
    assert row["completion_ids"] == turn.completion_ids
    packed = struct.pack(f"{len(turn.sampled_logprobs)}f", *turn.sampled_logprobs)
    assert struct.pack(f"{len(row['sampled_logprobs'])}f", *row["sampled_logprobs"]) == packed
    assert row["request"] == msgspec.json.encode(turn.request).decode()
    assert row["started_at"] == turn.started_at


def check_clean(victims: Victims) -> None:
    """After a start that repairs what the last kill left, verify finds nothing and the writer goes on."""
    with Writer(victims.store, "collector", StoreConfig(seal_interval_s=1e9)) as writer:
        assert writer.repaired == []
    verified = verify(victims.store)
    assert verified.clean, verified


def rounds_at_points(victims: Victims, source: random.Random, times: int) -> None:
    for _ in range(times):
        for point in POINTS:
            if point == "orphan_deleted":
                victims.kill_at("renamed", 1)
                victims.kill_at(point, 1)
            elif point in ("inspected", "repaired"):
                victims.kill_at(point, 1)
            else:
                victims.kill_at(point, source.randrange(1, 4 if point != "committed" else 40))


def test_nothing_acknowledged_is_lost_by_a_kill(victims: Victims) -> None:
    source = random.Random(3)
    rounds_at_points(victims, source, 1)
    for _ in range(3):
        victims.kill_after(source.uniform(0.1, 0.5))
    assert check(victims) > 50
    check_clean(victims)
    assert victims.rounds == 12


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_nothing_acknowledged_is_lost_by_two_hundred_kills(victims: Victims) -> None:
    source = random.Random(4)
    while victims.rounds < 210:
        rounds_at_points(victims, source, 1)
        for _ in range(12):
            victims.kill_after(source.uniform(0.02, 0.8))
        check(victims)
    acknowledged = check(victims)
    check_clean(victims)
    print(f"{victims.rounds} kills, {acknowledged} acknowledged, 0 lost, 0 twice")
