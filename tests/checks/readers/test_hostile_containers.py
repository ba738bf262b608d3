"""Pickles, databases and Parquet files that lie or would run something: nothing is run, all is counted."""

import pickle
import sqlite3
import zipfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as arrow
import pyarrow.parquet as parquet
import pytest

from checks.readers.file_head import FileHead
from checks.readers.format import Format
from checks.readers.formats import FORMATS
from collector.errors import UserError
from tests.checks.readers.hostility import (
    BY_NAME,
    every_kind,
    outcome,
    seed_of,
)
from tests.checks.readers.seeds import SEEDS


@every_kind()
def test_junk_in_the_columns_of_a_table_is_counted(name: str, index: int, tmp_path: Path) -> None:
    path = seed_of(name, index)(tmp_path)
    if FileHead.of(path).is_parquet:
        table = parquet.read_table(path)
        for column in table.column_names:
            for junk in (arrow.array(["x"] * table.num_rows), arrow.nulls(table.num_rows), arrow.array([2**40])):
                at = table.column_names.index(column)
                parquet.write_table(table.set_column(at, column, junk[: table.num_rows]), path)
                outcome(BY_NAME[name], path)
            parquet.write_table(table.drop_columns([column]), path)
            outcome(BY_NAME[name], path)
    elif FileHead.of(path).is_sqlite:
        with closing(sqlite3.connect(path)) as connection:
            named = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            for table in named:
                for column in [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]:
                    for junk in (b"\xff\x00", "[]", '{"a": 1e999}', 2**62, 1.5):
                        connection.execute("SAVEPOINT before")
                        try:
                            connection.execute(f"UPDATE {table} SET {column} = ?", (junk,))
                        except sqlite3.IntegrityError:
                            connection.execute("ROLLBACK TO before")
                            continue
                        connection.execute("RELEASE before")
                        connection.commit()
                        outcome(BY_NAME[name], path)
    else:
        pytest.skip("neither Parquet nor SQLite")


class _Runs:
    """Unpickled, it would make a file."""

    def __init__(self, made: Path) -> None:
        self._made = made

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self._made,)


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)
@pytest.mark.parametrize("container", ["pkl", "pt"])
def test_no_reader_runs_what_a_pickle_says(form: Format, container: str, tmp_path: Path) -> None:
    made = tmp_path / "made"
    hostile = pickle.dumps({"samples": [_Runs(made)], "rollout_id": _Runs(made)})
    path = tmp_path / f"1.{container}"
    if container == "pt":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("1/data.pkl", hostile)
            archive.writestr("1/version", "3")
    else:
        path.write_bytes(hostile)
    try:
        form.recognise(FileHead.of(path))
        outcome(form, path)
    except UserError:
        pass
    assert not made.exists()


def sqlite_file(path: Path, *statements: str) -> Path:
    """A database made by some statements."""
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()
    return path


SQLITE_TABLES = {"rllm-gateway": ("traces", "trace_sessions")}


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)
def test_a_database_of_views_and_triggers_is_not_run(form: Format, tmp_path: Path) -> None:
    tables = SQLITE_TABLES.get(form.name, ("traces", "trace_sessions", "sequences", "llm_revisions", "wire_rows"))
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS data, i AS trace_id FROM n"
    path = sqlite_file(
        tmp_path / "x.db",
        "CREATE TABLE held (a)",
        *(f"CREATE VIEW {table} AS {endless}" for table in tables),
        "CREATE TRIGGER t INSERT ON held BEGIN SELECT load_extension('evil'); END",
    )
    assert outcome(form, path)[0] == 0


def test_damaged_pages_of_a_database_are_counted_and_what_came_before_is_read(tmp_path: Path) -> None:
    for name, seeds in SEEDS.items():
        for seed in seeds if name in BY_NAME else ():
            folder = tmp_path / f"{name}{seeds.index(seed)}"
            folder.mkdir()
            path = seed(folder)
            if not FileHead.of(path).is_sqlite:
                continue
            whole = path.read_bytes()
            for at in range(100, len(whole), 997):
                path.write_bytes(whole[:at] + b"\xa5" * 64 + whole[at + 64 :])
                outcome(BY_NAME[name], path)


def test_a_parquet_that_lies_about_its_rows_is_counted(tmp_path: Path) -> None:
    for name, seeds in SEEDS.items():
        for seed in seeds if name in BY_NAME else ():
            folder = tmp_path / f"{name}{seeds.index(seed)}"
            folder.mkdir()
            path = seed(folder)
            if not FileHead.of(path).is_parquet:
                continue
            whole = path.read_bytes()
            footer = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
            for at in range(footer, len(whole) - 4, 29):
                for byte in (0x00, 0x7F):
                    path.write_bytes(whole[:at] + bytes([byte]) + whole[at + 1 :])
                    outcome(BY_NAME[name], path)
