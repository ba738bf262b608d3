"""A table that DuckDB reads piece by piece: only the columns a query names, as often as it scans them."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false
# (pyarrow carries no types)

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.dataset as ds

# What may narrow a scan: comparisons of a key with a plain value, joined by nothing but `and`.
_EQUAL = re.compile(r"\((session_id|turn_id) == \"([A-Za-z0-9._:-]+)\"\)")
_NOT_ONLY_AND = re.compile(r" or |invert|if_else|\\")


class ReadBatches(Protocol):
    """Gives the batches of a table anew at each call."""

    def __call__(self, columns: Sequence[str], equal: Mapping[str, str]) -> Iterator[pa.RecordBatch]:
        """The named columns of the rows whose keys equal `equal`; further rows do no harm."""
        ...


class TableScan(ds.Dataset):  # pyright: ignore[reportUntypedBaseClass]
    """What DuckDB takes for an Arrow dataset: it asks for columns and a filter at each scan."""

    # Arrow's own initialiser refuses every subclass; DuckDB only calls `schema` and `scanner`.
    def __init__(self, schema: pa.Schema, read_batches: ReadBatches) -> None:
        self._schema = schema
        self._read_batches = read_batches

    @property
    def schema(self) -> pa.Schema:
        """Every column the table has."""
        return self._schema

    # DuckDB passes these two by name and nothing else. Any: an Arrow expression.
    def scanner(self, columns: Sequence[str] | None = None, filter: Any = None) -> ds.Scanner:
        """One pass over the rows that pass `filter`, with `columns` of them; all when None."""
        wanted = list(columns) if columns is not None else self._schema.names
        # A filter may name further columns. Its text names every one of them; one too many does no harm.
        text = "" if filter is None else str(filter)
        read = [name for name in self._schema.names if name in wanted or name in text]
        schema = narrowed(self._schema, read)
        batches = self._read_batches(read, implied_equal(text))
        # Batches are large: none is made before the one in hand is used.
        return ds.Scanner.from_batches(batches, schema=schema, columns=wanted, filter=filter, batch_readahead=1)


def implied_equal(filter_text: str) -> dict[str, str]:
    """Keys that a filter, as Arrow writes it, holds to one value."""
    return {} if _NOT_ONLY_AND.search(filter_text) else dict(_EQUAL.findall(filter_text))


def narrowed(schema: pa.Schema, columns: Sequence[str]) -> pa.Schema:
    """A schema of some of the columns."""
    return pa.schema([schema.field(name) for name in columns])
