"""All of a saved log by one pass: its rows, and its tokens with what only all of them tell."""

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from checks.log import Log
from checks.measure import Measure, MeasureType, Tools
from checks.measures.prefix_breaks import PrefixBreaks
from checks.measures.round_trip import RoundTrip
from checks.passes import further_passes
from checks.readers.file_log import FileLog
from checks.readers.open_log import open_log
from console.watch.source.log_rows import LogRows, rows_of
from console.watch.source.token_measures import KINDS
from console.watch.source.token_news import LogEnds, News, Order, frame_bytes

_ROWS_AT_ONCE = 4096
_NEARLY = 0.999
"""Told of a log that was read, while some of its sessions are read once more."""


def tell_log(order: Order, tell: Callable[[News], None], *, tell_s: float) -> None:
    """Tells how far it has come about every `tell_s` seconds, its rows once all were read, and what it measured."""
    log = open_log(Path(order.path), reads=order.reads)
    kinds: Mapping[str, MeasureType] = {kind.name: kind for kind in (*KINDS, PrefixBreaks, RoundTrip) if order.tokens}
    tools = _tools(order.tokenizer)
    measures: dict[str, Measure] = {
        name: kind(tools) for name, kind in kinds.items() if tools.tokenizer is not None or not kind.needs_tokenizer
    }
    progress = _Progress(log, tell, tell_s)
    rows = rows_of(log, measures, kinds, progress.passed)
    if order.rows:
        for news in _told(rows):
            tell(news)
    del rows
    further_passes(log, measures, kinds)
    tell(News(share=1.0, frames={name: frame_bytes(measure.frame()) for name, measure in measures.items()}))


class _Progress:
    """Says now and then how much of a log was read."""

    def __init__(self, log: Log, tell: Callable[[News], None], tell_s: float) -> None:
        self._log = log
        self._tell = tell
        self._tell_s = tell_s
        self._expected = log.turns_expected()
        self._done = 0
        self._told = time.monotonic()

    def passed(self, turns: int) -> None:
        """So many more turns were read."""
        self._done += turns
        if time.monotonic() - self._told > self._tell_s:
            self._tell(News(share=min(_NEARLY, self._share())))
            self._told = time.monotonic()

    def _share(self) -> float:
        if self._expected:
            return self._done / self._expected
        return (self._log.share_read() if isinstance(self._log, FileLog) else None) or 0.0


def _told(rows: LogRows) -> Iterator[News]:
    """The turns, some at a time, without the columns in which there is nothing; and then the rest."""
    turns = rows.frames["turns"]
    turns = turns.select(name for name in turns.columns if turns[name].null_count() < turns.height)
    for start in range(0, max(1, turns.height), _ROWS_AT_ONCE):
        yield News(share=_NEARLY, turns=frame_bytes(turns.slice(start, _ROWS_AT_ONCE)))
    tables = {name: frame_bytes(frame) for name, frame in rows.frames.items() if name != "turns"}
    yield News(share=_NEARLY, ends=LogEnds(format=rows.format, damage=rows.damage, tables=tables))


def _tools(folder: str | None) -> Tools:
    if folder is None:
        return Tools()
    from collector.rendering.tokenizer import ChatTokenizer

    return Tools(ChatTokenizer.from_folder(Path(folder)))
