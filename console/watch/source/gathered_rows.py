"""The rows of a log, put together from the news of the process that reads it."""

import polars as pl

from console.watch.source.log_rows import LogRows
from console.watch.source.token_news import News, frame_of


class GatheredRows:
    """Takes news in their order; holds rows only until they are taken."""

    def __init__(self) -> None:
        self._turns: list[pl.DataFrame] = []
        self._rows: LogRows | None = None

    def add(self, news: News) -> None:
        """More turns, or the rest."""
        if news.turns is not None:
            self._turns.append(frame_of(news.turns))
        if news.ends is not None:
            tables = {name: frame_of(body) for name, body in news.ends.tables.items()}
            turns, self._turns = self._turns, []
            self._rows = LogRows({**tables, "turns": pl.concat(turns)}, news.ends.format, news.ends.damage)

    def take(self) -> LogRows | None:
        """All of them, once; None before they are whole."""
        rows, self._rows = self._rows, None
        return rows
