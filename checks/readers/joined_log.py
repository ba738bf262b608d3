"""Several logs of one run as one: their turns one after the other, their tables put together."""

from collections.abc import Collection, Iterator, Sequence
from itertools import chain
from pathlib import Path

import polars as pl

from checks.log import Batch, Log, Source, Unreadable

_NAMED = 20


class JoinedLog:
    """Logs in their order, and the files beside them that were passed over."""

    def __init__(self, path: Path, logs: Sequence[Log], skipped: Sequence[Unreadable]) -> None:
        self._path = path
        self._logs = logs
        self._skipped = skipped

    def batches(
        self,
        columns: Sequence[str],
        score_columns: Sequence[str] = (),
        *,
        sessions: Collection[str] | None = None,
    ) -> Iterator[Batch]:
        """The turns of one log after those of the other."""
        for log in self._logs:
            yield from log.batches(columns, score_columns, sessions=sessions)

    def table(self, name: str) -> pl.DataFrame:
        """The rows of all."""
        return pl.concat([log.table(name) for log in self._logs], how="vertical_relaxed")

    def source(self) -> Source:
        """The path, and what every log says of itself."""
        sources = [log.source() for log in self._logs]
        first = [*chain.from_iterable(source.unreadable_first for source in sources)]
        return Source(
            path=str(self._path),
            format="+".join(dict.fromkeys(chain.from_iterable(source.format.split("+") for source in sources))),
            reason="; ".join(source.reason for source in sources),
            files=sum(source.files for source in sources),
            unreadable=sum(source.unreadable for source in sources),
            unreadable_first=tuple(first[:_NAMED]),
            skipped=len(self._skipped),
            skipped_first=tuple(self._skipped[:_NAMED]),
        )

    def turns_expected(self) -> int | None:
        """The sum, where every log knows."""
        expected = [log.turns_expected() for log in self._logs]
        return None if None in expected else sum(turns for turns in expected if turns is not None)

    def advice(self, column: str) -> str | None:
        """What the first that knows the column says."""
        return next((advice for log in self._logs if (advice := log.advice(column)) is not None), None)
