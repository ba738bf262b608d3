"""A store written out: the native log as Parquet files or JSON lines, or a DuckDB database with real tables."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false
# (pyarrow carries no types)

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from collector.errors import UserError
from collector.records import REGISTRY_TABLES, TABLES
from collector.store.json_lines import json_lines
from collector.store.reader import Reader, Snapshot
from collector.store.registry_tables import registry_tables
from collector.store.replacing import replacing
from collector.store.table_scan import TableScan

OnRows = Callable[[str, int], None]
"""Called with a table and how many rows of it have been written since the last call."""
_DUCKDB_MEMORY = "1GB"
EXPORTED = (*TABLES, *REGISTRY_TABLES)
"""The tables of an export."""


def export_store(store: Path, to: Path, *, force: bool, on_rows: OnRows) -> Sequence[str]:
    """Writes one snapshot to `to`: a `.jsonl`, a `.duckdb`, or, without a suffix, a folder of Parquet files.

    Returns what could not be read of the store, a line each.
    """
    write = {".jsonl": _write_json_lines, ".duckdb": _write_duckdb, "": _write_parquet}.get(to.suffix)
    if write is None:
        raise UserError(
            f"{to}: no export ends in {to.suffix}, expected FILE.jsonl, FILE.duckdb, or a name without a suffix for a "
            "folder of Parquet files"
        )
    owned = [f"{table}.parquet" for table in EXPORTED]
    with Reader(store).snapshot() as snapshot, replacing(to, force=force, owned=owned) as fresh:
        write(_Source(snapshot, registry_tables(store), on_rows), fresh)
        return list(dict.fromkeys(snapshot.damage))


class _Source:
    def __init__(self, snapshot: Snapshot, registry: Mapping[str, pa.Table], on_rows: OnRows) -> None:
        self._snapshot = snapshot
        self._registry = registry
        self._on_rows = on_rows

    @property
    def refusal(self) -> UserError | None:
        """Why a read of the store ended early."""
        return self._snapshot.refusal

    def schema(self, table: str) -> pa.Schema:
        """The record's columns, then `writer` and `seq`; the checksum is of the stored form and stays behind."""
        if table in self._registry:
            return self._registry[table].schema
        schema = self._snapshot.schema(table)
        return schema.remove(schema.get_field_index("crc32"))

    def batches(self, table: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        if table in self._registry:
            batches = iter(self._registry[table].select(list(columns)).to_batches())
        else:
            batches = self._snapshot.batches(table, columns=columns)
        for batch in batches:
            yield batch
            self._on_rows(table, batch.num_rows)


def _write_json_lines(source: _Source, path: Path) -> None:
    with path.open("wb") as file:
        for table in EXPORTED:
            for batch in source.batches(table, source.schema(table).names):
                file.writelines(json_lines(table, batch))


def _write_parquet(source: _Source, path: Path) -> None:
    path.mkdir()
    for table in EXPORTED:
        schema = source.schema(table)
        with pq.ParquetWriter(path / f"{table}.parquet", schema, compression="zstd") as file:
            for batch in source.batches(table, schema.names):
                file.write_batch(batch)


def _write_duckdb(source: _Source, path: Path) -> None:
    try:
        _fill_duckdb(source, path)
    except duckdb.OperationalError as error:
        # The first line is the cause; what follows is about transactions, or the stack.
        raise OSError(str(error).partition("\n")[0]) from error


def _fill_duckdb(source: _Source, path: Path) -> None:
    with duckdb.connect(path, config={"memory_limit": _DUCKDB_MEMORY}) as connection:
        for table in EXPORTED:

            def read(columns: Sequence[str], equal: Mapping[str, str], table: str = table) -> Iterator[pa.RecordBatch]:
                assert not equal
                return source.batches(table, columns)

            connection.register("exported", TableScan(source.schema(table), read))
            try:
                connection.execute(f"CREATE TABLE {table} AS FROM exported")
            except duckdb.Error as error:
                if source.refusal is not None:
                    raise source.refusal from error
                raise
            connection.unregister("exported")
