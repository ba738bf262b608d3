"""The tokens of a saved log, read once, with what only a pass over all of it tells."""

import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

from checks.log import Log
from checks.measure import Measure, MeasureType, Tools
from checks.measures.prefix_breaks import PrefixBreaks
from checks.measures.round_trip import RoundTrip
from checks.passes import further_passes
from checks.read_ahead import read_ahead
from checks.readers.open_log import open_log
from console.watch.source.token_measures import KINDS
from console.watch.source.token_news import News, Order, frame_bytes


def log_news(order: Order, *, tell_s: float) -> Iterator[News]:
    """How far it has come about every `tell_s` seconds; the last is the whole."""
    log = open_log(Path(order.path), reads=order.reads)
    kinds: Mapping[str, MeasureType] = {kind.name: kind for kind in (*KINDS, PrefixBreaks, RoundTrip)}
    tools = _tools(order.tokenizer)
    measures: dict[str, Measure] = {
        name: kind(tools) for name, kind in kinds.items() if tools.tokenizer is not None or not kind.needs_tokenizer
    }
    expected, done, told = log.turns_expected(), 0, time.monotonic()
    for turns in _passed(log, measures, kinds):
        done += turns
        if time.monotonic() - told > tell_s:
            share = 0.0 if not expected else min(0.999, done / expected)
            yield News(share=share)
            told = time.monotonic()
    further_passes(log, measures, kinds)
    yield News(share=1.0, frames={name: frame_bytes(measure.frame()) for name, measure in measures.items()})


def _passed(log: Log, measures: Mapping[str, Measure], kinds: Mapping[str, MeasureType]) -> Iterator[int]:
    columns = dict.fromkeys(name for kind in kinds.values() for name in kind.turn_columns)
    score_columns = dict.fromkeys(name for kind in kinds.values() for name in kind.score_columns)
    with closing(read_ahead(log.batches([*columns], [*score_columns]))) as ahead:
        for batch in ahead:
            for measure in measures.values():
                measure.add(batch)
            yield batch.turns.height


def _tools(folder: str | None) -> Tools:
    if folder is None:
        return Tools()
    from collector.rendering.tokenizer import ChatTokenizer

    return Tools(ChatTokenizer.from_folder(Path(folder)))
