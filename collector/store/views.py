"""roundhouse.duckdb: views over the sealed segments, for tools that open a DuckDB file."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false
# (pyarrow carries no types)

from pathlib import Path

import duckdb

from collector.errors import StoreError
from collector.records import TABLES
from collector.store.layout import Layout
from collector.store.reader import Reader
from collector.store.registry_tables import registry_tables
from collector.store.replacing import replacing

FILE_NAME = "roundhouse.duckdb"
"""The views' name inside a store."""


def rebuild_views(store: Path) -> Path:
    """Makes roundhouse.duckdb anew over the segments there are now; returns its path.

    The views hold absolute paths and no hot row, so they are made again after a move, a seal or an upgrade.
    The registry's tables are copied in. `turns` has the stored columns: `new_prompt_ids` instead of `prompt_ids`.
    """
    target = store / FILE_NAME
    with replacing(target, force=True, owned=()) as fresh:
        try:
            _write(store, fresh)
        except (duckdb.Error, OSError) as error:
            why = " ".join(str(error).split())
            raise StoreError(f"{target}: cannot be made ({why}); check the disk, then run roundhouse verify") from error
    return target


def _write(store: Path, path: Path) -> None:
    layout = Layout(store.absolute())
    with Reader(store).snapshot() as snapshot, duckdb.connect(path) as connection:
        for table in TABLES:
            files = [layout.schema_file(table), *snapshot.sealed_segments(table)]
            connection.execute(f"CREATE VIEW {table} AS FROM read_parquet([{', '.join(map(_quoted, files))}])")
        for table, rows in registry_tables(store).items():
            connection.register("registry_rows", rows)
            connection.execute(f"CREATE TABLE {table} AS FROM registry_rows")
            connection.unregister("registry_rows")


def _quoted(path: Path) -> str:
    text = str(path.absolute()).replace("'", "''")
    return f"'{text}'"
