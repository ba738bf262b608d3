"""Snapshots over hot rows and sealed segments."""

import os
import shutil
import struct
import subprocess
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pyarrow.parquet as pq
import pytest

from collector.config import StoreConfig
from collector.errors import StoreError
from collector.records import TABLES, Event, Feedback, Score, Span, Turn, VersionSpan
from collector.store.reader import Reader
from collector.store.verify import verify
from collector.store.writer import Writer

NOW = datetime(2026, 11, 29, 12, 30, 0, 123456, tzinfo=UTC)


def fill(store: Path, turns: list[Turn], *, seal_after: int) -> None:
    with Writer(store, "collector") as writer:
        for number, turn in enumerate(turns, 1):
            writer.append(turn)
            if number == seal_after:
                writer.seal()


def as_json(turn: Turn) -> str:
    return msgspec.json.encode(turn.request).decode()


@pytest.mark.parametrize("seal_after", [0, 25, 60])
def test_turns_come_back_exactly_from_hot_rows_and_segments(tmp_path: Path, conversation: Any, seal_after: int) -> None:
    sessions = [conversation(f"s{number}", 20) for number in range(3)]
    turns = [turn for together in zip(*sessions, strict=True) for turn in together]
    fill(tmp_path, turns, seal_after=seal_after)
    with Reader(tmp_path).snapshot() as snapshot:
        frame = snapshot.frame("turns")
        assert len(snapshot.sealed_segments("turns")) == (seal_after > 0)
        assert snapshot.damage == ()
    assert frame["seq"].to_list() == list(range(1, 61))
    assert frame["writer"].unique().to_list() == ["collector"]
    assert frame["turn_id"].to_list() == [turn.turn_id for turn in turns]
    assert frame["prompt_ids"].to_list() == [turn.prompt_ids for turn in turns]
    assert frame["completion_ids"].to_list() == [turn.completion_ids for turn in turns]
    singles = [struct.unpack("12f", struct.pack("12f", *turn.sampled_logprobs)) for turn in turns]
    assert [tuple(row) for row in frame["sampled_logprobs"].to_list()] == singles
    assert frame["request"].to_list() == [as_json(turn) for turn in turns]
    assert frame["response"].to_list() == [msgspec.json.encode(turn.response).decode() for turn in turns]
    assert frame["started_at"].to_list() == [turn.started_at for turn in turns]
    assert frame["weight_versions"].to_list()[0] == [{"version": "3", "start": 0, "end": 12}]
    assert frame["temperature"].to_list() == [1.0] * 60
    assert frame["top_p"].null_count() == 60


@pytest.mark.parametrize("sealed", [False, True])
def test_empty_lists_nulls_and_odd_floats_stay_what_they_are(tmp_path: Path, sealed: bool) -> None:
    nan = struct.unpack("<f", struct.pack("<I", 0x7FC00123))[0]
    odd = [nan, float("inf"), float("-inf"), -0.0, struct.unpack("<f", struct.pack("<I", 1))[0]]
    failed = Turn(
        turn_id="t", session_id="s", turn=1, tenant="a", api="chat", started_at=NOW,
        prompt_ids=[], completion_ids=[], sampled_logprobs=[], weight_versions=[], finish_reason="error",
    )  # fmt: skip
    masked = msgspec.structs.replace(
        failed, turn_id="m", prompt_ids=[2**31 - 1, -(2**31)], loss_mask=[0, 1], temperature=float("nan"),
        weight_versions=[VersionSpan(version="default", start=0, end=0)],
    )  # fmt: skip
    with Writer(tmp_path, "collector") as writer:
        writer.append(failed)
        writer.append(masked)
        writer.append(Score(turn_id="t", trainer_step=1, trainer_logprobs=odd, entropies=[]))
        writer.append(Span(role="engine", kind="wait", from_=NOW, to=NOW)).result(5)
        if sealed:
            writer.seal()
    with Reader(tmp_path).snapshot() as snapshot:
        turns, scores, spans = snapshot.frame("turns"), snapshot.frame("scores"), snapshot.frame("spans")
    assert turns["prompt_ids"].to_list() == [[], [2**31 - 1, -(2**31)]]
    assert turns["completion_ids"].to_list() == [[], []]
    assert turns["weight_versions"].to_list() == [[], [{"version": "default", "start": 0, "end": 0}]]
    assert turns["loss_mask"].to_list() == [None, [0, 1]]
    assert turns["request"].to_list() == [None, None]
    assert turns["temperature"][0] is None
    assert turns["temperature"].is_nan()[1]
    bits = scores["trainer_logprobs"].explode().to_numpy().tobytes()
    assert bits == struct.pack("<5I", 0x7FC00123, 0x7F800000, 0xFF800000, 0x80000000, 1)
    assert scores["entropies"].to_list() == [[]]
    assert scores["advantages"].to_list() == [None]
    assert spans["from"].to_list() == [NOW]


def test_columns_and_filters_narrow_a_frame(tmp_path: Path, conversation: Any) -> None:
    turns = [*conversation("a", 30), *conversation("b", 30)]
    fill(tmp_path, turns, seal_after=40)
    with Reader(tmp_path).snapshot() as snapshot:
        only = snapshot.frame("turns", columns=["seq", "prompt_ids"], session_id="b")
        assert only.columns == ["seq", "prompt_ids"]
        assert only["seq"].to_list() == list(range(31, 61))
        assert only["prompt_ids"].to_list() == [turn.prompt_ids for turn in turns[30:]]
        one = snapshot.frame("turns", turn_id="a-29")
        assert one["prompt_ids"].to_list() == [turns[28].prompt_ids]
        assert one["request"].to_list() == [as_json(turns[28])]
        assert snapshot.frame("turns", session_id="none").height == 0
        deltas = snapshot.frame("turns", columns=["prompt_prefix_tokens", "new_prompt_ids"], turn_id="a-29")
        assert deltas["new_prompt_ids"].list.len().to_list() == [8]
        with pytest.raises(StoreError, match=r"table turns: no column 'nope'; expected some of turn_id"):
            snapshot.frame("turns", columns=["nope"])
        with pytest.raises(StoreError, match="table scores: has no session_id to filter by"):
            snapshot.frame("scores", session_id="a")
        with pytest.raises(StoreError, match="no table 'turn'"):
            snapshot.frame("turn")


def test_batches_give_the_same_rows_as_the_frame(tmp_path: Path, conversation: Any) -> None:
    fill(tmp_path, [*conversation("a", 30), *conversation("b", 30)], seal_after=40)
    with Reader(tmp_path).snapshot() as snapshot:
        batches = list(snapshot.batches("turns", columns=["turn_id", "prompt_ids"]))
        assert len(batches) == 2
        together = pl.concat([pl.DataFrame(pl.from_arrow(batch)) for batch in batches])
        assert together.equals(snapshot.frame("turns", columns=["turn_id", "prompt_ids"]))


def test_an_empty_store_has_every_table_with_its_columns(tmp_path: Path) -> None:
    Writer(tmp_path, "collector").close()
    with Reader(tmp_path).snapshot() as snapshot:
        for table in TABLES:
            frame = snapshot.frame(table)
            assert frame.height == 0
            assert frame.columns == snapshot.schema(table).names


def test_a_segment_is_zstd_with_floats_split_and_ids_plain(tmp_path: Path, conversation: Any) -> None:
    fill(tmp_path, conversation("a", 30), seal_after=30)
    with Reader(tmp_path).snapshot() as snapshot:
        (segment,) = snapshot.sealed_segments("turns")
    group = pq.ParquetFile(segment).metadata.row_group(0)
    columns = {group.column(index).path_in_schema: group.column(index) for index in range(group.num_columns)}
    assert {column.compression for column in columns.values()} == {"ZSTD"}
    assert "BYTE_STREAM_SPLIT" in columns["sampled_logprobs.list.element"].encodings
    assert set(columns["completion_ids.list.element"].encodings) <= {"PLAIN", "RLE"}
    schema_file = pq.read_table(tmp_path / "segments/turns/schema.parquet")
    assert (schema_file.num_rows, schema_file.schema) == (0, pq.read_schema(segment))


def test_a_snapshot_stays_as_it_was(tmp_path: Path) -> None:
    with Writer(tmp_path, "collector", StoreConfig(grace_s=600)) as writer:
        for number in range(10):
            writer.append(Event(at=NOW, kind=str(number))).result(5)
        with Reader(tmp_path).snapshot() as snapshot:
            writer.append(Event(at=NOW, kind="later")).result(5)
            writer.seal()
            assert snapshot.frame("events")["kind"].to_list() == [str(number) for number in range(10)]
        with Reader(tmp_path).snapshot() as snapshot:
            assert snapshot.frame("events").height == 11


def test_every_effect_in_a_snapshot_has_its_cause(tmp_path: Path, conversation: Any) -> None:
    """A score is written after its turn was acknowledged, so a snapshot that has the score has the turn."""
    stop = threading.Event()
    with (
        Writer(tmp_path, "collector", StoreConfig(seal_rows=50)) as collector,
        Writer(tmp_path, "trainer", StoreConfig(seal_rows=50)) as trainer,
    ):

        def write() -> None:
            for number in range(300):
                if stop.is_set():
                    return
                (turn,) = conversation(f"s{number}", 1)
                collector.append(turn).result(10)
                trainer.append(Score(turn_id=turn.turn_id, trainer_step=1, trainer_logprobs=[])).result(10)

        thread = threading.Thread(target=write)
        thread.start()
        seen = -1
        while thread.is_alive():
            with Reader(tmp_path).snapshot() as snapshot:
                scored = snapshot.frame("scores", columns=["turn_id", "seq"])
                turns = snapshot.frame("turns", columns=["turn_id", "seq"])
            assert set(scored["turn_id"]) <= set(turns["turn_id"])
            assert turns["seq"].to_list() == list(range(1, turns.height + 1))
            assert turns.height >= seen
            seen = turns.height
        stop.set()
        thread.join()
    assert seen > 0


@pytest.mark.parametrize("first", [0, 1, 11, 24, 25, 26, 30, 31])
def test_rows_from_a_seq_on_come_from_hot_rows_and_segments_with_whole_prompts(
    tmp_path: Path, conversation: Any, first: int
) -> None:
    turns = conversation("a", 30)
    fill(tmp_path, turns, seal_after=25)
    with Reader(tmp_path).snapshot() as snapshot:
        batches = snapshot.batches("turns", columns=["prompt_ids", "turn"], since={"collector": first})
        rows = [row for batch in batches for row in batch.to_pylist()]
        other = [*snapshot.batches("turns", columns=["turn"], since={"nobody": 99})]
    assert rows == [{"prompt_ids": turn.prompt_ids, "turn": turn.turn} for turn in turns if turn.turn >= first]
    assert sum(batch.num_rows for batch in other) == 30


def test_segments_that_end_before_a_seq_are_not_opened(tmp_path: Path, conversation: Any) -> None:
    fill(tmp_path, conversation("a", 30), seal_after=25)
    with Reader(tmp_path).snapshot() as snapshot:
        (segment,) = snapshot.sealed_segments("turns")
        segment.unlink()
        hot = [*snapshot.batches("turns", columns=["turn"], since={"collector": 26})]
        assert [number for batch in hot for number in batch["turn"].to_pylist()] == [26, 27, 28, 29, 30]
        with pytest.raises(StoreError, match="gone since the snapshot"):
            list(snapshot.batches("turns", columns=["turn"], since={"collector": 25}))


def read_only_mount(folder: Path) -> bool:
    done = subprocess.run(["mount", "--bind", str(folder), str(folder)], capture_output=True)
    return not done.returncode and not subprocess.run(["mount", "-o", "remount,ro,bind", str(folder)]).returncode


def test_a_read_only_copy_is_read_with_its_log(tmp_path: Path, conversation: Any) -> None:
    live, copy = tmp_path / "live", tmp_path / "copy"
    turns = conversation("a", 30)
    with Writer(live, "collector") as writer:
        for turn in turns[:10]:
            writer.append(turn)
        writer.seal()
        for turn in turns[10:]:
            writer.append(turn).result(5)
        shutil.copytree(live, copy, ignore=shutil.ignore_patterns("*-shm", "*.lock"))
    assert (copy / "journals/collector.sqlite-wal").stat().st_size > 0
    before = sorted(path.name for path in (copy / "journals").iterdir())
    if not read_only_mount(copy):
        pytest.skip("NOT TESTED, a read-only store: no folder may be mounted read-only here")
    try:
        with pytest.raises(OSError, match="Read-only file system"):
            (copy / "probe").write_text("")
        with Reader(copy).snapshot() as snapshot:
            assert snapshot.frame("turns")["prompt_ids"].to_list() == [turn.prompt_ids for turn in turns]
        with pytest.raises(StoreError, match="Read-only file system"):
            Writer(copy, "collector")
    finally:
        subprocess.run(["umount", "-l", str(copy)], check=True)
    assert sorted(path.name for path in (copy / "journals").iterdir()) == before


def test_a_reader_of_no_store_says_so(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no such folder, expected a store"):
        Reader(tmp_path / "none")
    with pytest.raises(StoreError, match="no journals/ in it, expected a store"):
        Reader(tmp_path)


def test_a_reader_leaves_no_descriptor_open(tmp_path: Path) -> None:
    with Writer(tmp_path, "collector") as writer:
        writer.append(Feedback(feedback_id="f", tenant="a", kind="thumb", at=NOW)).result(5)
        writer.seal()
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(5):
            with Reader(tmp_path).snapshot() as snapshot:
                assert snapshot.frame("feedback")["value"].to_list() == [None]
        assert len(os.listdir("/proc/self/fd")) == before


def test_a_journal_that_was_just_created_holds_nothing_yet(tmp_path: Path) -> None:
    Writer(tmp_path, "collector").close()
    (tmp_path / "journals/trainer.sqlite").write_bytes(b"")
    with Reader(tmp_path).snapshot() as snapshot:
        assert snapshot.frame("turns").height == 0
    assert verify(tmp_path).clean
