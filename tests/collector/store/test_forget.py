"""Erasure: the records go, their seqs stay, and no byte of them is left in any file."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import zstandard

from collector.config import StoreConfig
from collector.errors import StoreError
from collector.records import Event, Feedback, Reward, Score, Turn
from collector.store.arrays import FLOATS, IDS, to_bytes
from collector.store.erase import Erasure
from collector.store.forget import forget
from collector.store.reader import Reader
from collector.store.verify import verify
from collector.store.writer import Writer
from console.cli import main

NOW = datetime(2026, 11, 29, tzinfo=UTC)
CALM = StoreConfig(seal_interval_s=1e9)
SECRET = "secret-session"


def fill(store: Path, conversation: Any) -> dict[str, list[Turn]]:
    """Three sessions over two journals, half of them sealed, with what is about them."""
    sessions = {name: conversation(name, 20) for name in ("a", SECRET, "b")}
    with Writer(store, "collector", CALM) as collector, Writer(store, "trainer", CALM) as trainer:
        for number in range(20):
            for turns in sessions.values():
                collector.append(turns[number])
                trainer.append(Score(turn_id=turns[number].turn_id, trainer_step=1, trainer_logprobs=[]))
            if number == 10:
                collector.append(Feedback(feedback_id="f0", tenant="t", turn_id=f"{SECRET}-1", kind="thumb", at=NOW))
                collector.seal()
                trainer.seal()
        collector.append(Feedback(feedback_id="f1", tenant="t", turn_id=f"{SECRET}-2", kind="thumb", at=NOW))
        collector.append(Feedback(feedback_id="f2", tenant="t", session_id="a", kind="thumb", at=NOW))
        collector.append(Event(at=NOW, kind="subagent", session_id=SECRET)).result(5)
        trainer.append(Reward(session_id=SECRET, value=1.0, parts={}, mapping_sha256="", closed_at=NOW)).result(5)
    return sessions


def traces(store: Path, turns: list[Turn]) -> list[str]:
    """Files that hold a piece of the session: its name, its text, its ids or log-probabilities, plain or packed."""
    needles = [SECRET.encode()]
    for turn in turns:
        needles += [to_bytes(turn.completion_ids[:4], IDS), to_bytes(turn.sampled_logprobs[:4], FLOATS)]
    found: list[str] = []
    for path in store.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            unpacked = content + b"".join(unpack(content))
            found += [str(path) for needle in needles if needle in unpacked][:1]
    return found


def unpack(content: bytes) -> list[bytes]:
    """Every zstd frame in a file: pages of segments and bodies of records."""
    parts: list[bytes] = []
    start = content.find(b"\x28\xb5\x2f\xfd")
    while start >= 0:
        with suppress(zstandard.ZstdError):
            parts.append(zstandard.ZstdDecompressor().decompressobj().decompress(content[start:]))
        start = content.find(b"\x28\xb5\x2f\xfd", start + 4)
    return parts


def test_a_forgotten_session_leaves_tombstones_and_no_byte(tmp_path: Path, conversation: Any) -> None:
    sessions = fill(tmp_path, conversation)
    before = traces(tmp_path, sessions[SECRET])
    assert {Path(path).suffix for path in before} == {".sqlite", ".parquet"}
    gone = forget(tmp_path, [SECRET])
    assert (gone.turns, gone.records) == (20, 20 + 20 + 2 + 1 + 1)
    assert traces(tmp_path, sessions[SECRET]) == []
    found = verify(tmp_path)
    assert found.clean, found
    assert found.erased == gone.records
    with Reader(tmp_path).snapshot() as snapshot:
        turns = snapshot.frame("turns")
        assert turns.filter(turns["session_id"] == "a")["prompt_ids"].to_list() == [t.prompt_ids for t in sessions["a"]]
        assert turns.filter(turns["session_id"] == "b")["prompt_ids"].to_list() == [t.prompt_ids for t in sessions["b"]]
        assert turns.height == snapshot.frame("scores").height == 40
        assert snapshot.frame("feedback")["feedback_id"].to_list() == ["f2"]
        assert snapshot.frame("events").height == snapshot.frame("rewards").height == 0


def test_seqs_of_forgotten_records_are_not_given_again(tmp_path: Path, conversation: Any) -> None:
    with Writer(tmp_path, "collector", CALM) as writer:
        for turn in conversation(SECRET, 5):
            writer.append(turn)
    forget(tmp_path, [SECRET])
    with Writer(tmp_path, "collector", CALM) as writer:
        assert writer.append(Event(at=NOW, kind="k")).result(5).seq == 6
    assert verify(tmp_path).clean


def test_rows_of_sealed_records_leave_no_byte_in_free_pages(tmp_path: Path, conversation: Any) -> None:
    turns = conversation(SECRET, 200, added=50)
    with Writer(tmp_path, "collector", CALM) as writer:
        for turn in [*turns, *conversation("a", 1)]:
            writer.append(turn)
    with Writer(tmp_path, "collector", CALM) as writer:
        writer.seal()
    journal = str(tmp_path / "journals/collector.sqlite")
    assert journal in traces(tmp_path, turns)
    forget(tmp_path, [SECRET])
    assert traces(tmp_path, turns) == []


def test_quarantined_remains_go_too(tmp_path: Path, conversation: Any) -> None:
    turns = conversation(SECRET, 10)
    with Writer(tmp_path, "collector", CALM) as writer:
        for turn in [*turns, *conversation("a", 3)]:
            writer.append(turn)
    path = tmp_path / "journals/collector.sqlite"
    content = bytearray(path.read_bytes())
    content[content.index(to_bytes(turns[4].sampled_logprobs, FLOATS)) + 3] ^= 1
    path.write_bytes(content)
    assert not verify(tmp_path).clean
    assert any("quarantine" in trace for trace in traces(tmp_path, turns))
    assert forget(tmp_path, [SECRET]).remains > 0
    assert traces(tmp_path, turns) == []
    assert [(loss.lo, loss.kept_at) for _, loss in verify(tmp_path).losses] == [(5, None)]


def test_a_running_writer_erases_and_goes_on(tmp_path: Path, conversation: Any) -> None:
    turns = conversation(SECRET, 30)
    with Writer(tmp_path, "collector", CALM) as writer:
        for turn in turns[:20]:
            writer.append(turn).result(5)
        writer.seal()
        assert writer.erase(Erasure(frozenset([SECRET]), frozenset(turn.turn_id for turn in turns[:20]))) == 20
        for turn in turns[20:]:
            writer.append(turn).result(5)
        with Reader(tmp_path).snapshot() as snapshot:
            frame = snapshot.frame("turns")
            assert snapshot.damage == ()
        assert frame["prompt_ids"].to_list() == [turn.prompt_ids for turn in turns[20:]]
        assert frame["seq"].to_list() == list(range(21, 31))
    assert verify(tmp_path).clean


def test_nothing_is_erased_while_a_writer_runs_or_a_name_is_unknown(tmp_path: Path, conversation: Any) -> None:
    fill(tmp_path, conversation)
    with Writer(tmp_path, "trainer"), pytest.raises(StoreError, match="locked by the process with pid"):
        forget(tmp_path, [SECRET])
    with pytest.raises(StoreError, match="no session 'nobody', expected sessions of this store; nothing erased"):
        forget(tmp_path, [SECRET, "nobody"])
    assert verify(tmp_path).erased == 0


CHILD = """
import os, signal, sys
from pathlib import Path
from collector.store.erase import Erasure
from collector.store.forget import forget
def hook(point):
    if point == sys.argv[2]:
        os.kill(os.getpid(), signal.SIGKILL)
forget(Path(sys.argv[1]), [sys.argv[3]], hook=hook)
"""


@pytest.mark.parametrize("point", ["tmp_written", "renamed", "replaced"])
def test_an_erasure_that_was_killed_is_finished_by_the_next(tmp_path: Path, conversation: Any, point: str) -> None:
    sessions = fill(tmp_path, conversation)
    root = Path(__file__).parents[3]
    command = [sys.executable, "-c", CHILD, str(tmp_path), point, SECRET]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(root)}, timeout=60)
    assert done.returncode == -signal.SIGKILL
    forget(tmp_path, [SECRET])
    assert traces(tmp_path, sessions[SECRET]) == []
    assert verify(tmp_path).clean


def test_the_command_says_what_went(tmp_path: Path, conversation: Any, capsys: pytest.CaptureFixture[str]) -> None:
    fill(tmp_path, conversation)
    assert main(["forget", SECRET, "--store", str(tmp_path)]) == 0
    assert capsys.readouterr().out == (
        f"{tmp_path}: erased 44 records, 20 turns among them\n  no adapter version was trained on it\n"
    )
    assert main(["forget", SECRET, "--store", str(tmp_path)]) == 2
