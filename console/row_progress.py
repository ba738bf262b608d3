"""How many rows of which table have been written: one line redrawn on a terminal, a line per table elsewhere."""

import time
from typing import TextIO

_REDRAW_S = 0.1


class RowProgress:
    """Counts rows per table and shows the count while it grows."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._rows: dict[str, int] = {}
        self._drawn_at = 0.0
        self._table: str | None = None

    def __enter__(self) -> "RowProgress":
        return self

    def __exit__(self, *_: object) -> None:
        self._finish()

    def add(self, table: str, rows: int) -> None:
        """Counts `rows` more of `table`."""
        if self._table not in (None, table):
            self._finish()
        self._table = table
        self._rows[table] = self._rows.get(table, 0) + rows
        now = time.monotonic()
        if self._out.isatty() and now - self._drawn_at >= _REDRAW_S:
            self._drawn_at = now
            print(f"\r{self._line()}", end="", file=self._out, flush=True)

    def summary(self) -> str:
        """The tables that had rows, with their counts."""
        return ", ".join(f"{rows:,} {table}" for table, rows in self._rows.items() if rows) or "no rows"

    def _finish(self) -> None:
        if self._table is not None:
            print(f"\r{self._line()}" if self._out.isatty() else self._line(), file=self._out, flush=True)
        self._table = None

    def _line(self) -> str:
        return f"{self._table}: {self._rows.get(self._table or '', 0):,} rows"
