"""Opening a path: a store or native tables as a unit, other folders file by file, and what is passed over is said."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest

from checks.readers.open_log import open_log
from collector.errors import UserError

TURN = {"session_id": "x", "prompt_ids": [1], "completion_ids": [2]}
STEP = {"record": "step", "step": 1, "grad_norm": 2.0}


def lines(path: Path, *records: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def test_files_of_a_folder_are_joined_and_the_rest_is_said(tmp_path: Path):
    lines(tmp_path / "a.jsonl", TURN)
    lines(tmp_path / "deep" / "er" / "b.jsonl", TURN | {"session_id": "y"})
    lines(tmp_path / "steps.jsonl", STEP)
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / "empty.jsonl").touch()
    lines(tmp_path / "else.json", {"alpha": 1, "beta": 2})
    lines(tmp_path / ".hidden" / "c.jsonl", TURN | {"session_id": "z"})
    lines(tmp_path / ".d.jsonl", TURN | {"session_id": "z"})
    log = open_log(tmp_path)
    (batch,) = log.batches(())
    assert batch.turns["session_id"].to_list() == ["x", "y"]
    assert log.table("steps")["grad_norm"].to_list() == [2.0]
    source = log.source()
    assert (source.files, source.unreadable, source.skipped) == (3, 0, 3)
    assert [(Path(one.place).name, one.reason) for one in source.skipped_first] == [
        ("empty.jsonl", "is empty"),
        ("else.json", "JSON with keys of no known format: alpha, beta"),
        ("notes.txt", "no known format"),
    ]


def test_a_store_among_other_files_is_one_log_with_them(exported: Any, tmp_path: Path):
    shutil.copytree(exported.folder / "store", tmp_path / "run" / "store")
    (tmp_path / "run" / "store" / "loose.jsonl").write_text(json.dumps(TURN))
    lines(tmp_path / "run" / "metrics.jsonl", STEP)
    log = open_log(tmp_path / "run")
    turns = pl.concat([batch.turns for batch in log.batches(())])
    assert turns.height == len(exported.turns)
    assert sorted(log.table("steps")["grad_norm"].to_list()) == [2.0, float("inf")]
    assert log.source().format == "native"
    assert log.source().reason.startswith("a store: ")


def test_native_parquet_and_lines_are_one_log(exported: Any, tmp_path: Path):
    shutil.copytree(exported.folder / "log", tmp_path / "log")
    lines(tmp_path / "more.jsonl", TURN)
    log = open_log(tmp_path)
    assert sum(batch.turns.height for batch in log.batches(())) == len(exported.turns) + 1
    assert log.turns_expected() is None
    assert log.source().skipped == 0


@pytest.mark.parametrize("form", ["store", "log", "log.duckdb", "log.jsonl"])
def test_native_may_be_forced(exported: Any, form: str):
    log = open_log(exported.folder / form, reads="native")
    assert sum(batch.turns.height for batch in log.batches(())) == len(exported.turns)


def test_a_forced_format_reads_a_file_that_does_not_look_like_it(tmp_path: Path):
    path = lines(tmp_path / "odd.txt", {"session_id": "s", "completion_ids": [1]})
    with pytest.raises(UserError, match="JSON with keys of no known format: completion_ids, session_id"):
        open_log(path)
    (batch,) = open_log(path, reads="native").batches(())
    assert batch.turns["session_id"].to_list() == ["s"]


def test_forced_on_parquet_without_the_columns_is_refused_by_name(tmp_path: Path):
    pl.DataFrame({"session_id": ["s"], "prompt_ids": [[1]]}).write_parquet(tmp_path / "t.parquet")
    with pytest.raises(UserError, match="has no column completion_ids, expected turns of the native log"):
        open_log(tmp_path / "t.parquet", reads="native")


def test_an_unknown_name_is_refused(tmp_path: Path):
    with pytest.raises(UserError, match="no format 'nativ', expected one of native"):
        open_log(lines(tmp_path / "a.jsonl", TURN), reads="nativ")


@pytest.mark.parametrize(
    ("content", "says"),
    [(b"", "is empty"), (b"\x00" * 50, "no known format"), (b"PAR1 and no more", "Parquet with columns of no known")],
)
def test_a_file_that_is_no_log_is_refused_in_one_line(tmp_path: Path, content: bytes, says: str):
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(UserError, match=says) as refused:
        open_log(tmp_path / "x")
    assert "\n" not in str(refused.value)


def test_a_folder_without_a_log_says_what_it_holds(tmp_path: Path):
    with pytest.raises(UserError, match="holds no files"):
        open_log(tmp_path)
    (tmp_path / "x.txt").write_text("hello")
    with pytest.raises(UserError, match=r"holds 1 file, none of a known format; x\.txt: no known format"):
        open_log(tmp_path)
    with pytest.raises(UserError, match="does not exist; give a log file"):
        open_log(tmp_path / "nowhere")


def test_links_to_folders_and_what_is_no_file_are_left_alone(tmp_path: Path):
    lines(tmp_path / "a.jsonl", TURN)
    (tmp_path / "loop").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "pipe.jsonl")
    assert open_log(tmp_path).source().files == 1


def test_a_broken_archive_beside_a_log_is_passed_over_with_its_reason(tmp_path: Path):
    lines(tmp_path / "a.jsonl", TURN)
    (tmp_path / "b.jsonl.gz").write_bytes(b"not gzip at all")
    (skipped,) = open_log(tmp_path).source().skipped_first
    assert "cannot be read" in skipped.reason


def test_too_many_files_are_refused(tmp_path: Path):
    for name in range(20_001):
        os.close(os.open(tmp_path / str(name), os.O_CREAT))
    with pytest.raises(UserError, match="holds more than 20000 files, expected the logs of one run"):
        open_log(tmp_path)


def test_a_database_that_no_export_wrote_is_refused(tmp_path: Path):
    path = tmp_path / "other.duckdb"
    with duckdb.connect(path) as connection:
        connection.execute("CREATE TABLE turns (session_id VARCHAR)")
    with pytest.raises(UserError, match="holds turns, expected a table turns with completion_ids, prompt_ids"):
        open_log(path)
    lines(tmp_path / "a.jsonl", TURN)
    assert open_log(tmp_path).source().skipped == 1


def test_a_view_in_a_database_reaches_no_file(tmp_path: Path):
    secret = tmp_path / "secret.csv"
    secret.write_text("session_id,prompt_ids,completion_ids\ns,[1],[2]\n")
    with duckdb.connect(tmp_path / "v.duckdb") as connection:
        connection.execute(f"CREATE VIEW turns AS FROM read_csv('{secret}')")
    with pytest.raises(UserError, match="holds nothing, expected a table turns"):
        open_log(tmp_path / "v.duckdb")


def test_a_damaged_database_is_refused_in_one_line(exported: Any, tmp_path: Path):
    content = (exported.folder / "log.duckdb").read_bytes()
    (tmp_path / "cut.duckdb").write_bytes(content[:9_000])
    with pytest.raises(UserError, match=r"cut\.duckdb: .*expected a") as refused:
        list(open_log(tmp_path / "cut.duckdb").batches(()))
    assert "\n" not in str(refused.value)


def test_a_database_with_a_quote_in_its_path_is_read(exported: Any, tmp_path: Path):
    path = tmp_path / "it's.duckdb"
    shutil.copy(exported.folder / "log.duckdb", path)
    assert open_log(path).turns_expected() == len(exported.turns)
