"""A store as a log: what its journals, segments and registry hold at one moment, while a collector may write on."""

# pyright: reportUnknownParameterType=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# (pyarrow carries no types)

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from checks.log import Unreadable
from checks.readers.tables import Origin
from collector.records import TABLES
from collector.store.reader import Reader
from collector.store.registry_tables import registry_tables


def is_store(folder: Path) -> bool:
    """Whether a folder is a store: it has journals, or the marks of journals that are lost."""
    journals = folder / "journals"
    return journals.is_dir() and any(path.suffix in (".sqlite", ".mark") for path in journals.iterdir())


class StoreTables:
    """One snapshot, taken at the start, that every pass reads; it holds no lock."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._snapshot = Reader(path).snapshot()
        self._registry = registry_tables(path)
        self._rows: dict[str, int] = {}

    @property
    def origin(self) -> Origin:
        """The store, and how many segments it has."""
        segments = sum(len(self._snapshot.sealed_segments(table)) for table in TABLES)
        reason = f"a store: journals and {segments} sealed segments, as they were when it was opened"
        return Origin(str(self._path), reason, segments)

    def columns(self, table: str) -> Sequence[str]:
        """Those of the record, and the keys."""
        if table in self._registry:
            return self._registry[table].schema.names
        return self._snapshot.schema(table).names if table in TABLES else ()

    def batches(
        self, table: str, columns: Sequence[str], *, sessions: Collection[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Writer by writer in the order of seq, prompts rebuilt."""
        if table in self._registry:
            yield from self._registry[table].select(list(columns)).to_batches()
            return
        one = next(iter(sessions)) if sessions is not None and len(sessions) == 1 else None
        yield from self._snapshot.batches(table, columns=columns, session_id=one)

    def rows(self, table: str) -> int | None:
        """Counted by reading one column."""
        if table not in self._rows:
            self._rows[table] = 0
            for batch in self.batches(table, self.columns(table)[:1]):
                self._rows[table] += batch.num_rows
        return self._rows[table]

    def unreadable(self) -> Sequence[Unreadable]:
        """The damage that the snapshot knows of."""
        return [Unreadable(place=str(self._path), reason=line) for line in dict.fromkeys(self._snapshot.damage)]
