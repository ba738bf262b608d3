"""Files of one run as a log: each recognised by its content, read row by row, joined."""

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import polars as pl

from checks.columns import empty
from checks.log import Batch, Source, split_scores
from checks.readers.batching import BATCH_TOKENS, TurnGatherer, readable_frame, table_of
from checks.readers.file_mark import FileMark
from checks.readers.format import Format, Unit
from checks.readers.plain_bytes import gives_own_bytes
from checks.readers.scored_batch import of_sessions
from checks.readers.unreadable import UnreadableParts
from checks.rows import Row, TurnRow
from collector.errors import UserError

_METRICS_ONLY = ("tensorboard", "trainer-metrics")
"""Formats without turns: what they say of turns is for a folder that holds no dump."""


class FileLog:
    """The units of a log, each with its format. Every pass reads the files anew."""

    def __init__(
        self,
        path: Path,
        units: Sequence[tuple[Format, Unit]],
        reason: str,
        *,
        batch_tokens: int = BATCH_TOKENS,
    ) -> None:
        self._path = path
        self._units = units
        self._reason = reason
        self._batch_tokens = batch_tokens
        self._unreadable = self._passing = UnreadableParts()
        self._tables: dict[str, pl.DataFrame] | None = None
        self._marks: dict[Path, FileMark] = {}
        self._bytes_tell: bool | None = None

    def batches(
        self,
        columns: Sequence[str],
        score_columns: Sequence[str] = (),
        *,
        sessions: Collection[str] | None = None,
    ) -> Iterator[Batch]:
        """The turns in the order of the files and their lines."""
        rest: dict[str, list[Row]] = {}
        unreadable = self._passing = UnreadableParts()
        self.refuse_replaced()
        for turns in self._turn_frames(unreadable, rest):
            batch = split_scores(turns, columns, score_columns)
            chosen = batch if sessions is None else of_sessions(batch, sessions)
            if chosen.turns.height:
                yield chosen
        self._unreadable = unreadable
        self._tables = {name: readable_frame(rows, name, unreadable) for name, rows in rest.items()}

    def refuse_replaced(self) -> None:
        """Passes must meet the same turns: a file may grow between them, but not be another, shorter or written over.

        Held against what it was when this was called first.
        """
        for file in {file for _, unit in self._units for file in unit}:
            try:
                if file not in self._marks:
                    self._marks[file] = FileMark.of(file)
                    continue
                found = self._marks[file].why_another(file)
            except OSError as error:
                said = error.strerror or str(error)
                raise UserError(f"{file} was there when the log was opened: {said}; check a copy of it") from error
            if found is not None:
                raise UserError(f"{file} was replaced or cut while it was read ({found}); check a copy of it")

    def _turn_frames(self, unreadable: UnreadableParts, rest: dict[str, list[Row]]) -> Iterator[pl.DataFrame]:
        gatherer = TurnGatherer(unreadable, batch_tokens=self._batch_tokens)
        for form, unit in self._units:
            for row in form.read(unit, unreadable):
                if not isinstance(row, TurnRow):
                    rest.setdefault(table_of(row), []).append(row)
                elif (full := gatherer.add(row)) is not None:
                    yield full
        if (last := gatherer.rest()) is not None:
            yield last

    def table(self, name: str) -> pl.DataFrame:
        """A small table, gathered during the last pass."""
        if self._tables is None:
            for _ in self.batches(()):
                pass
        assert self._tables is not None
        return self._tables.get(name, empty(name))

    def source(self) -> Source:
        """The path, the formats and what could not be read in the last pass."""
        formats = "+".join(dict.fromkeys(form.name for form, _ in self._units))
        return Source(
            path=str(self._path),
            format=formats,
            reason=self._reason,
            files=len({file for _, unit in self._units for file in unit}),
            unreadable=self._unreadable.count,
            unreadable_first=tuple(self._unreadable.first),
        )

    def turns_expected(self) -> int | None:
        """Not known before the files were read."""
        return None

    def share_read(self) -> float | None:
        """How much of its bytes the pass under way has read; None where they are not those of lines as they stand."""
        if not self._passing.passed_bytes:
            return None
        if self._bytes_tell is None:
            self._bytes_tell = all(gives_own_bytes(file) for file in self._marks)
        total = sum(mark.size for mark in self._marks.values())
        return min(1.0, self._passing.passed_bytes / total) if self._bytes_tell and total else None

    def advice(self, column: str) -> str | None:
        """What the first of the formats that knows the column says, a dump of rollouts before a log of metrics."""
        forms = sorted((form for form, _ in self._units), key=lambda form: form.name in _METRICS_ONLY)
        return next((form.advice[column] for form in forms if column in form.advice), None)
