"""A table that grows at its end without being copied each time."""

from collections.abc import Callable

import polars as pl

from console.watch.held import TABLES
from console.watch.holding import fitted

_PIECES = 64
"""Most pieces at the end before they become one."""


class GrowingTable:
    """Pieces of one table in the order they came."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._pieces: list[pl.DataFrame] = []
        self._frame: pl.DataFrame | None = None

    def add(self, rows: pl.DataFrame) -> None:
        """Adds rows at the end."""
        if rows.is_empty():
            return
        self._pieces.append(fitted(rows, self._name))
        self._frame = None
        if len(self._pieces) > _PIECES:
            self._join()

    def frame(self) -> pl.DataFrame:
        """All of it."""
        if self._frame is None:
            pieces = self._pieces or [pl.DataFrame(schema=dict(TABLES[self._name]))]
            self._frame = pl.concat(pieces, rechunk=False)
        return self._frame

    def change(self, key: str, keys: pl.Series, changed: Callable[[pl.DataFrame], pl.DataFrame]) -> pl.Series:
        """Other values in the rows of some keys, each of which one row at most has: the pieces with such a row are made
        anew, the newest first, and no others. Gives the keys that no row has yet."""
        for place in reversed(range(len(self._pieces))):
            if keys.is_empty():
                break
            piece = self._pieces[place]
            found = piece[key].filter(piece[key].is_in(keys.implode()))
            if found.is_empty():
                continue
            self._pieces[place], self._frame = changed(piece), None
            keys = keys.filter(~keys.is_in(found.implode()))
        return keys

    def _join(self) -> None:
        """Makes the small pieces one; the large one before them is taken in when they have grown to a fourth of it."""
        first, *rest = self._pieces
        small = pl.concat(rest, rechunk=True)
        grown = 4 * small.height >= first.height
        self._pieces = [pl.concat([first, small], rechunk=True)] if grown else [first, small]
