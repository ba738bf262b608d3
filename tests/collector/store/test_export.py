"""An export holds exactly what was written, in each of its three forms."""

import errno
import os
import struct
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from collector.errors import UserError
from collector.records import REGISTRY_TABLES, TABLES, Event, Turn
from collector.store.export import EXPORTED, export_store
from collector.store.json_lines import RECORD_NAMES, json_lines
from collector.store.reader import Reader
from collector.store.replacing import replacing
from collector.store.writer import Writer


def nothing(table: str, rows: int) -> None:
    """No progress."""


def decoded(path: Path) -> dict[str, list[Any]]:
    """Lines decoded by the records' own types, by table."""
    kinds = {RECORD_NAMES[table]: (table, record) for table, record in (TABLES | REGISTRY_TABLES).items()}
    found: dict[str, list[Any]] = {table: [] for table in EXPORTED}
    for line in path.read_bytes().splitlines():
        fields = msgspec.json.decode(line)
        table, record = kinds[fields.pop("record")]
        # Lax: a float that JSON cannot hold stands there as its name.
        found[table].append(msgspec.convert(fields, record, strict=False))
    return found


def test_json_lines_decode_to_the_records_written(small_store: Any, tmp_path: Path):
    to = tmp_path / "log.jsonl"
    assert export_store(small_store.path, to, force=False, on_rows=nothing) == []
    found = decoded(to)
    assert set(small_store.records) == set(EXPORTED)
    for table, records in small_store.records.items():
        assert found[table] == records, table
    assert all(found[table] for table in EXPORTED)


def test_json_fields_are_json_and_not_text(small_store: Any, tmp_path: Path):
    to = tmp_path / "log.jsonl"
    export_store(small_store.path, to, force=False, on_rows=nothing)
    lines = [msgspec.json.decode(line) for line in to.read_bytes().splitlines()]
    first = lines[0]
    assert first["record"] == "turn"
    assert first["prompt_ids"] == list(range(1000, 1040))
    assert first["request"]["messages"] == [{"role": "user", "content": "hello a"}]
    assert first["request"]["tools"] == [{"name": "ls", "n": 2**60}]
    assert first["weight_versions"] == [
        {"version": 3, "start": 0, "end": 2},
        {"version": "step-4", "start": 2, "end": 5},
    ]
    assert first["started_at"] == "2026-01-02T03:04:05.678902Z"
    assert not {"writer", "seq", "crc32"} & set(first)
    (version,) = [line for line in lines if line["record"] == "version" and line["version"] == 1]
    assert version["gate"] == {"verdict": "pass", "lower": -0.01}
    assert version["trained_on"] == [["collector", 1, 5]]
    assert {line["record"] for line in lines} == set(RECORD_NAMES.values())


def test_every_float32_comes_back_bit_equal(tmp_path: Path):
    bits = [0x00000001, 0x007FFFFF, 0x3DCCCCCD, 0x80000000, 0xBF800001, 0xFF7FFFFF, 0xFF800000, 0xBEAAAAAB]
    logprobs = list(struct.unpack("<8f", struct.pack("<8I", *bits)))
    turn = Turn(
        turn_id="t", session_id="s", turn=1, tenant="x", api="generate", started_at="2026-01-01T00:00:00Z",
        prompt_ids=[1], completion_ids=[2] * 8, sampled_logprobs=logprobs, weight_versions=[],
    )  # fmt: skip
    turn = msgspec.convert(msgspec.to_builtins(turn) | {"sampled_logprobs": logprobs}, Turn)
    with Writer(tmp_path / "store", "collector") as writer:
        writer.append(turn).result(10)
    export_store(tmp_path / "store", tmp_path / "log.jsonl", force=False, on_rows=nothing)
    line = msgspec.json.decode((tmp_path / "log.jsonl").read_bytes().splitlines()[0])
    back = [float(value) for value in line["sampled_logprobs"]]
    assert [struct.unpack("<I", struct.pack("<f", value))[0] for value in back] == bits
    assert line["sampled_logprobs"][6] == "-Infinity"


def test_parquet_holds_what_a_reader_gives(small_store: Any, tmp_path: Path):
    export_store(small_store.path, tmp_path / "log", force=False, on_rows=nothing)
    assert sorted(path.name for path in (tmp_path / "log").iterdir()) == sorted(
        f"{table}.parquet" for table in EXPORTED
    )
    with Reader(small_store.path).snapshot() as snapshot:
        for table in TABLES:
            exported = pq.read_table(tmp_path / "log" / f"{table}.parquet")
            assert exported.column_names == [*TABLES[table].__struct_encode_fields__, "writer", "seq"]
            assert exported.equals(snapshot.arrow(table).drop_columns("crc32")), table
    for table, record in REGISTRY_TABLES.items():
        exported = pl.read_parquet(tmp_path / "log" / f"{table}.parquet")
        assert exported.columns == list(record.__struct_encode_fields__)
        assert exported.height == len(small_store.records[table])


def test_a_duckdb_export_stands_alone(small_store: Any, tmp_path: Path):
    export_store(small_store.path, tmp_path / "log.duckdb", force=False, on_rows=nothing)
    for path in small_store.path.rglob("*"):
        if path.is_file():
            path.unlink()
    with duckdb.connect(tmp_path / "log.duckdb", read_only=True) as connection:
        kinds = connection.execute("SELECT table_name, table_type FROM information_schema.tables").fetchall()
        assert sorted(kinds) == sorted((table, "BASE TABLE") for table in EXPORTED)
        rows = connection.execute("SELECT turn_id, prompt_ids, sampled_logprobs FROM turns ORDER BY seq").fetchall()
        turns = small_store.records["turns"]
        assert rows == [(turn.turn_id, turn.prompt_ids, turn.sampled_logprobs) for turn in turns]
        steps = connection.execute("SELECT tokens, grad_norm, loss FROM steps ORDER BY seq").fetchall()
        assert steps == [(step.tokens, step.grad_norm, step.loss) for step in small_store.records["steps"]]
        gate = "SELECT gate->>'$.verdict', trained_on FROM versions WHERE version = 1"
        assert connection.execute(gate).fetchall() == [
            ("pass", [{"writer": "collector", "first_seq": 1, "last_seq": 5}])
        ]


@pytest.mark.parametrize("name", ["log.jsonl", "log", "log.duckdb"])
def test_an_export_is_replaced_only_when_forced(small_store: Any, tmp_path: Path, name: str):
    to = tmp_path / name
    export_store(small_store.path, to, force=False, on_rows=nothing)
    before = to.stat().st_ino
    with pytest.raises(UserError, match="exists already"):
        export_store(small_store.path, to, force=False, on_rows=nothing)
    assert to.stat().st_ino == before
    export_store(small_store.path, to, force=True, on_rows=nothing)
    assert to.stat().st_ino != before
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, "store"])


def test_a_folder_with_anything_else_in_it_is_never_replaced(small_store: Any, tmp_path: Path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.tex").write_text("years of work")
    with pytest.raises(UserError, match=r"thesis\.tex.*which no export wrote"):
        export_store(small_store.path, tmp_path / "home", force=True, on_rows=nothing)
    assert (tmp_path / "home" / "thesis.tex").read_text() == "years of work"


def test_a_failed_export_leaves_nothing_behind(small_store: Any, tmp_path: Path):
    def fail(table: str, rows: int) -> None:
        raise RuntimeError("no more")

    for name in ("log.jsonl", "log", "log.duckdb"):
        with pytest.raises((RuntimeError, duckdb.Error)):
            export_store(small_store.path, tmp_path / name, force=False, on_rows=fail)
    assert os.listdir(tmp_path) == ["store"]


@pytest.mark.parametrize("name", ["log.csv", "log.parquet", "log.jsonl.gz", "log.db"])
def test_a_suffix_that_no_export_has_is_refused(small_store: Any, tmp_path: Path, name: str):
    with pytest.raises(UserError, match=r"no export ends in \.\w+, expected FILE\.jsonl, FILE\.duckdb, or a name"):
        export_store(small_store.path, tmp_path / name, force=True, on_rows=nothing)
    assert os.listdir(tmp_path) == ["store"]


@pytest.mark.parametrize("name", ["log.jsonl", "log", "log.duckdb"])
def test_a_disk_that_takes_no_more_is_one_line_and_leaves_nothing(tmp_path: Path, name: str):
    with Writer(tmp_path / "store", "collector") as writer:
        for _ in range(100):
            writer.append(Event(at=datetime.now(UTC), kind="alert", text=os.urandom(4000).hex()))
    # A file of a limited size stands for a full disk: writing more fails in the same places.
    code = (
        "import resource, sys; from console.cli import main; "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000)); sys.exit(main(sys.argv[1:]))"
    )
    words = ["export", "--store", str(tmp_path / "store"), "--to", str(tmp_path / name)]
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2, done.stderr
    *counts, line = done.stderr.splitlines()
    assert line.startswith(f"roundhouse export: {tmp_path / name}: ")
    assert line.endswith("File too large; nothing was written there")
    assert all(count.endswith(" rows") for count in counts)
    assert os.listdir(tmp_path) == ["store"]


def test_a_folder_where_nothing_can_be_written_or_deleted_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(path: Path, **_: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    monkeypatch.setattr(Path, "unlink", refuse)
    said = pytest.raises(UserError, match=r"/log: Read-only file system; nothing was written there$")
    with said, replacing(tmp_path / "log", force=False, owned=[]) as fresh:
        refuse(fresh)


def test_a_missing_folder_is_one_clear_line(small_store: Any, tmp_path: Path):
    with pytest.raises(UserError, match="no such folder, expected it to hold log"):
        export_store(small_store.path, tmp_path / "nowhere" / "log", force=False, on_rows=nothing)


def test_progress_counts_every_row(small_store: Any, tmp_path: Path):
    counted: dict[str, int] = {}

    def count(table: str, rows: int) -> None:
        counted[table] = counted.get(table, 0) + rows

    export_store(small_store.path, tmp_path / "log.duckdb", force=False, on_rows=count)
    assert counted == {table: len(records) for table, records in small_store.records.items()}


def test_a_batch_larger_than_a_slice_gives_every_row_once_and_in_order():
    logprobs = pa.array([[n / 8] * 100_000 for n in range(25)], pa.list_(pa.float32()))
    columns = {name: pa.nulls(25) for name in TABLES["scores"].__struct_encode_fields__}
    columns |= {"turn_id": pa.array([f"t{n}" for n in range(25)]), "trainer_logprobs": logprobs}
    batch = pa.RecordBatch.from_pydict(columns)
    assert batch.nbytes > 2 * 4 * 2**20
    lines = [msgspec.json.decode(line) for line in json_lines("scores", batch)]
    assert [(line["turn_id"], line["trainer_logprobs"]) for line in lines] == [
        (f"t{n}", [n / 8] * 100_000) for n in range(25)
    ]
