"""SQL over one snapshot: right answers, nothing read that is not asked for, and nothing outside the store."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from collector.config import PriceConfig
from collector.errors import UserError
from collector.records import REGISTRY_TABLES, TABLES
from collector.store.meanings import column_meanings
from collector.store.reader import Reader
from collector.store.sql import open_tables, run_query
from collector.store.sql_views import VIEWS, sql_views
from collector.store.table_scan import TableScan, implied_equal


def rows(store: Path, query: str) -> list[tuple[Any, ...]]:
    with run_query(store, query) as result:
        return list(result.rows)


@pytest.mark.parametrize("table", [*TABLES, *REGISTRY_TABLES])
def test_every_table_has_the_columns_of_its_record_and_every_row(small_store: Any, table: str):
    record = (TABLES | REGISTRY_TABLES)[table]
    keys = ["writer", "seq", "crc32"] if table in TABLES else []
    with run_query(small_store.path, f"FROM {table}") as result:
        assert result.names == [*record.__struct_encode_fields__, *keys]
        assert len(list(result.rows)) == len(small_store.records[table])


def test_a_view_has_the_columns_and_types_that_are_described(small_store: Any):
    types = {"VARCHAR": "str", "BIGINT": "int", "DOUBLE": "float"}
    for view in VIEWS:
        described = [(column.column, column.annotation.removesuffix(" | None")) for column in column_meanings(view)]
        with run_query(small_store.path, f"FROM {view}") as result:
            found = [(name, types[str(kind)]) for name, kind in zip(result.names, result.types, strict=True)]
            assert found == described
            filled = [column.column for column in column_meanings(view) if not column.annotation.endswith("None")]
            places = [result.names.index(name) for name in filled]
            written = list(result.rows)
            assert written
            assert all(row[place] is not None for row in written for place in places)


def test_every_view_is_described_and_nothing_else():
    assert list(sql_views(PriceConfig())) == list(VIEWS)


def test_sealed_and_hot_rows_count_once(small_store: Any):
    turns = small_store.records["turns"]
    tokens = sum(len(turn.prompt_ids) for turn in turns)
    query = "SELECT count(*), count(DISTINCT turn_id), sum(len(prompt_ids))::INT FROM turns"
    assert rows(small_store.path, query) == [(9, 9, tokens)]


def test_prompts_and_requests_are_whole(small_store: Any):
    found = rows(
        small_store.path, "SELECT turn_id, prompt_ids, json_array_length(request->'$.messages') FROM turns ORDER BY seq"
    )
    written = [(t.turn_id, t.prompt_ids, len(t.request.messages)) for t in small_store.records["turns"]]
    assert found == written


def test_filters_joins_and_repeated_scans_agree_with_python(small_store: Any):
    turns = small_store.records["turns"]
    query = "SELECT turn_id FROM turns WHERE session_id = 'b' AND turn > 1 ORDER BY turn"
    assert rows(small_store.path, query) == [("b-1",), ("b-2",)]
    query = "SELECT turn_id FROM turns WHERE session_id = 'a' OR turn_id = 'b-2' ORDER BY 1"
    assert rows(small_store.path, query) == [(f"a-{n}",) for n in range(6)] + [("b-2",)]
    query = "SELECT turn_id FROM turns WHERE NOT (session_id = 'a') ORDER BY 1"
    assert rows(small_store.path, query) == [("b-0",), ("b-1",), ("b-2",)]
    query = """
        SELECT c.turn_id, len(c.prompt_ids) - len(p.prompt_ids)
        FROM turns c JOIN turns p ON c.parent_turn_id = p.turn_id"""
    assert sorted(rows(small_store.path, query)) == [(t.turn_id, 7) for t in turns if t.parent_turn_id is not None]
    query = "SELECT t.turn_id, s.trainer_step FROM turns t JOIN scores s USING (turn_id)"
    assert rows(small_store.path, query) == [("a-0", 9)] * 2


def test_a_registry_table_joins_a_journalled_one(small_store: Any):
    query = """
        SELECT v.state, count(*)
        FROM turns t JOIN versions v ON t.adapter = v.adapter AND t.adapter_version = v.version GROUP BY 1"""
    assert rows(small_store.path, query) == [("candidate", 9)]
    assert rows(small_store.path, "SELECT tenant, weight FROM routes") == [("acme", 0.75)]


def test_infinity_and_the_smallest_numbers_keep_their_place(small_store: Any):
    assert rows(small_store.path, "SELECT count(*) FROM steps WHERE grad_norm > 1e300") == [(2,)]
    assert rows(small_store.path, "SELECT count(*) FROM steps WHERE grad_norm < 1e-300 AND grad_norm > 0") == [(2,)]


REFUSED = [
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM read_parquet('/etc/passwd')",
    "SELECT * FROM glob('/etc/*')",
    "SELECT * FROM sniff_csv('/etc/passwd')",
    "FROM '/etc/passwd'",
    "EXPLAIN ANALYZE COPY (SELECT 1) TO '{tmp}/out.csv'",
    "COPY turns TO '{tmp}/out.csv'",
    "COPY (SELECT 1) TO '{tmp}/out.csv'",
    "EXPORT DATABASE '{tmp}/out'",
    "ATTACH '{tmp}/out.duckdb'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET enable_external_access = true",
    "SET memory_limit = '1TB'",
    "PRAGMA enable_external_access",
    "CREATE SECRET (TYPE s3)",
    "CALL enable_logging(storage = 'file', storage_path = '{tmp}/log')",
    "SELECT 1; COPY (SELECT 1) TO '{tmp}/out.csv'",
    "DELETE FROM turns",
    "DROP VIEW turns",
    "FROM store",
    "FROM small_store",
]


@pytest.mark.parametrize("query", REFUSED)
def test_nothing_outside_the_store_can_be_touched(small_store: Any, tmp_path: Path, query: str):
    (tmp_path / "beside").mkdir()
    with pytest.raises(UserError):
        rows(small_store.path, query.replace("{tmp}", str(tmp_path / "beside")))
    assert list((tmp_path / "beside").iterdir()) == []


# run_query refuses all but reading statements; here they reach DuckDB itself, the second wall.
@pytest.mark.parametrize("query", [q for q in REFUSED if q.split()[0] in ("COPY", "ATTACH", "INSTALL", "SET", "CALL")])
def test_duckdb_itself_refuses_what_reaches_it(small_store: Any, tmp_path: Path, query: str):
    (tmp_path / "beside").mkdir()
    with (
        Reader(small_store.path).snapshot() as snapshot,
        open_tables(
            small_store.path, snapshot, spill=tmp_path / "spill", memory_limit="1GB", prices=PriceConfig()
        ) as connection,
        pytest.raises(duckdb.Error, match=r"operations are disabled by configuration|configuration has been locked"),
    ):
        connection.execute(query.replace("{tmp}", str(tmp_path / "beside")))
    assert list((tmp_path / "beside").iterdir()) == []


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT foo FROM turns", 'Binder Error: Referenced column "foo" not found'),
        (
            "SELECT at FROM steps",
            r"Parser Error: syntax error .* \(columns named at, constraint, from or to go in double",
        ),
        ("FROM nope", "Catalog Error: Table with name nope does not exist"),
        ("SELECT turn_id::INT FROM turns", "Conversion Error: Could not convert string '[ab]-0'"),
        ("", "the query is nothing, expected one SELECT"),
        ("SELECT 1; SELECT 2", "the query is SELECT, SELECT, expected one SELECT"),
        ("SELECT E'\\x1b[2J'::INT", r"Could not convert string '\\x1b\[2J'"),
    ],
)
def test_an_sql_mistake_is_one_clear_line(small_store: Any, query: str, message: str):
    with pytest.raises(UserError, match=message) as raised:
        rows(small_store.path, query)
    assert str(raised.value).isprintable()


def test_the_columns_said_to_need_quotes_are_those_that_do():
    names = {name for record in (TABLES | REGISTRY_TABLES).values() for name in record.__struct_encode_fields__}
    with duckdb.connect() as connection:

        def parses(name: str) -> bool:
            try:
                connection.execute(f'SELECT {name}, 2 FROM (SELECT 1 AS "{name}")').fetchall()
            except duckdb.ParserException:
                return False
            return True

        assert {name for name in names if not parses(name)} == {"at", "constraint", "from", "to"}


def test_equal_column_names_are_told_apart(small_store: Any):
    with run_query(small_store.path, "SELECT 1 AS a, 2 AS a, 3 AS a_1") as result:
        assert result.names == ["a", "a_1", "a_1_1"]


def test_a_large_sort_spills_to_its_own_folder_and_cleans_up(small_store: Any, tmp_path: Path, monkeypatch: Any):
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    monkeypatch.chdir(tmp_path)
    # 100 MB of text do not fit in 60 MB.
    strings = "SELECT repeat('x', 94) || (i + 100000) AS s FROM range(1000000) t(i)"
    query = f"SELECT max(r) FROM (SELECT row_number() OVER (ORDER BY s) AS r FROM ({strings}))"
    with run_query(small_store.path, query, memory_limit="60MB") as result:
        assert list(result.rows) == [(1_000_000,)]
    assert list((tmp_path / "tmp").iterdir()) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["store", "tmp"]


class Counted:
    """A table that remembers what was asked of it."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table
        self.asked: list[tuple[list[str], dict[str, str]]] = []

    def __call__(self, columns: Sequence[str], equal: Mapping[str, str]) -> Any:
        self.asked.append((list(columns), dict(equal)))
        return iter(self.table.select(list(columns)).to_batches())


def scanned(query: str) -> tuple[list[tuple[Any, ...]], list[tuple[list[str], dict[str, str]]]]:
    table = pa.table({
        "session_id": ["s1", "s1", "s2"], "turn_id": ["x", "y", "z"], "turn": [1, 2, 3],
        "prompt_ids": [[1], [2], [3]], "value": [1.0, float("nan"), None],
    })  # fmt: skip
    source = Counted(table)
    with duckdb.connect() as connection:
        connection.register("turns", TableScan(table.schema, source))
        return connection.execute(query).fetchall(), source.asked


KEYS = ["session_id", "turn_id", "turn"]
S1 = {"session_id": "s1"}


@pytest.mark.parametrize(
    ("query", "answer", "asked"),
    [
        ("SELECT count(*) FROM turns", [(3,)], [(["session_id"], {})]),
        ("SELECT max(turn) FROM turns", [(3,)], [(["turn"], {})]),
        ("SELECT turn FROM turns WHERE session_id = 's1'", [(1,), (2,)], [(["session_id", "turn"], S1)]),
        ("SELECT turn FROM turns WHERE turn_id = 'y' AND session_id = 's1'", [(2,)], [(KEYS, S1 | {"turn_id": "y"})]),
        ("SELECT turn FROM turns WHERE turn_id = 'y' OR session_id = 's2'", [(2,), (3,)], [(KEYS, {})]),
        # DuckDB holds NaN above every number; Arrow, which filters here, does not.
        ("SELECT turn FROM turns WHERE value > 5", [(2,)], [(["turn", "value"], {})]),
        ("SELECT a.turn FROM turns a JOIN turns b ON a.turn = b.turn + 2", [(3,)], [(["turn"], {})] * 2),
        ("SELECT * EXCLUDE (prompt_ids, value) FROM turns LIMIT 1", [("s1", "x", 1)], [(KEYS, {})]),
    ],
)
def test_only_what_a_query_names_is_read(query: str, answer: Any, asked: Any):
    found, reads = scanned(query)
    assert found == answer
    assert reads == asked


@pytest.mark.parametrize(
    ("text", "equal"),
    [
        ('(session_id == "s1")', {"session_id": "s1"}),
        ('((turn > 3) and (turn_id == "a-b_c.d:e"))', {"turn_id": "a-b_c.d:e"}),
        ('((session_id == "s1") or (turn == 1))', {}),
        ('invert((session_id == "s1"))', {}),
        ('(session_id == "it \\"quotes\\"")', {}),
        ('((tenant == "(session_id == \\"s1\\")") and (turn == 1))', {}),
        ('(parent_turn_id == "x")', {}),
        ('(session_id != "x")', {}),
    ],
)
def test_a_filter_narrows_a_scan_only_where_it_surely_implies_it(text: str, equal: dict[str, str]):
    assert implied_equal(text) == equal
