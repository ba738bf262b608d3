"""One SQL query over one snapshot of a store, in an in-memory DuckDB that can touch nothing else."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false
# (pyarrow carries no types)

import tempfile
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa

from collector.config import PriceConfig
from collector.errors import UserError
from collector.records import TABLES
from collector.store.reader import Reader, Snapshot
from collector.store.registry_tables import registry_tables
from collector.store.sql_views import sql_views
from collector.store.table_scan import TableScan
from collector.terminal_text import terminal_safe

_READING = (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN)
_FETCH_ROWS = 1_000
_KEYWORDS = "at, constraint, from or to"


class QueryResult(NamedTuple):
    """What a query gave."""

    names: list[str]
    """Column names, made distinct."""
    types: list[Any]
    """DuckDB's type of each column; Any: its type objects have no public name."""
    rows: Iterator[tuple[Any, ...]]
    """The rows, fetched as they are taken; Any: whatever the query computes."""
    damage: Callable[[], Sequence[str]]
    """What could not be read of the store, a line each; complete once the rows are taken."""


@contextmanager
def run_query(
    store: Path, query: str, *, memory_limit: str = "25%", prices: PriceConfig | None = None
) -> Generator[QueryResult]:
    """Runs one reading statement over the tables of a store; the rows live as long as the context.

    `prices` are those of the view `costs`.

    What does not fit in `memory_limit`, a size or a share of this machine's memory, spills to a temporary folder.
    """
    with (
        tempfile.TemporaryDirectory(prefix="roundhouse-sql-") as spill,
        Reader(store).snapshot() as snapshot,
        open_tables(
            store, snapshot, spill=Path(spill), memory_limit=memory_limit, prices=prices or PriceConfig()
        ) as connection,
    ):
        try:
            _check_reads(connection, query)
            connection.execute(query)
            columns: list[tuple[Any, ...]] = connection.description or []
            yield QueryResult(
                names=_distinct([column[0] for column in columns]),
                types=[column[1] for column in columns],
                rows=_rows(connection),
                damage=lambda: list(dict.fromkeys(snapshot.damage)),
            )
        except duckdb.Error as error:
            raise snapshot.refusal or UserError(_one_line(error)) from error


@contextmanager
def open_tables(
    store: Path, snapshot: Snapshot, *, spill: Path, memory_limit: str, prices: PriceConfig
) -> Generator[duckdb.DuckDBPyConnection]:
    """An in-memory DuckDB with the tables and views of a store, locked so that it reaches nothing else."""
    connection = duckdb.connect(
        config={
            "enable_external_access": "false",
            "autoload_known_extensions": "false",
            "autoinstall_known_extensions": "false",
            "allow_community_extensions": "false",
            "temp_directory": str(spill),
            "memory_limit": memory_limit,
        }
    )
    try:
        lock = threading.Lock()
        for table in TABLES:
            connection.register(table, TableScan(snapshot.schema(table), partial(_batches, snapshot, lock, table)))
        for table, rows in registry_tables(store).items():
            connection.register(table, rows)
        for name, query in sql_views(prices).items():
            connection.execute(f"CREATE VIEW {name} AS {query}")
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("SET lock_configuration = true")
        yield connection
    finally:
        connection.close()


def _batches(
    snapshot: Snapshot, lock: threading.Lock, table: str, columns: Sequence[str], equal: Mapping[str, str]
) -> Iterator[pa.RecordBatch]:
    batches = snapshot.batches(table, columns=columns, session_id=equal.get("session_id"), turn_id=equal.get("turn_id"))
    while True:
        # DuckDB scans from several threads, and a snapshot is made for one at a time.
        with lock:
            batch = next(batches, None)
        if batch is None:
            return
        yield batch


def _check_reads(connection: duckdb.DuckDBPyConnection, query: str) -> None:
    statements = connection.extract_statements(query)
    if len(statements) != 1 or statements[0].type not in _READING:
        kinds = ", ".join(statement.type.name for statement in statements) or "nothing"
        raise UserError(f"the query is {kinds}, expected one SELECT (or WITH, FROM, DESCRIBE, SHOW, EXPLAIN)")


def _rows(connection: duckdb.DuckDBPyConnection) -> Iterator[tuple[Any, ...]]:
    while rows := connection.fetchmany(_FETCH_ROWS):
        yield from rows


def _distinct(names: list[str]) -> list[str]:
    distinct: list[str] = []
    for name in names:
        candidate, n = name, 0
        while candidate in distinct:
            n += 1
            candidate = f"{name}_{n}"
        distinct.append(candidate)
    return distinct


def _one_line(error: duckdb.Error) -> str:
    # DuckDB repeats the query with a caret below the message; the message names the place by itself.
    message = " ".join(str(error).split("\n\nLINE ")[0].split())
    hint = f" (columns named {_KEYWORDS} go in double quotes)" if isinstance(error, duckdb.ParserException) else ""
    return terminal_safe(message) + hint
