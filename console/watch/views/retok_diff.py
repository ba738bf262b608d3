"""A completion against what it becomes once it was text: encode(decode(ids))."""

from functools import partial

import msgspec
import polars as pl

from checks.measure import Tools
from checks.ragged import ragged
from console.check_report.token_view import token_texts
from console.watch.held import Held
from console.watch.topic import Ask, OpenLog, Topic, View
from console.watch.trace.session_named import of_named
from console.watch.trace.trace import RECENT, ToolsOf, Trace

MOST_IDS = 64
"""Ids of one span that a view holds on either side."""


class RetokDiffAsk(Ask, frozen=True, kw_only=True):
    """Which turn."""

    session_id: str
    turn: int


class SpanRow(msgspec.Struct, frozen=True, kw_only=True):
    """Neighbouring ids that come back as others."""

    start: int
    """0-based, in the completion."""
    end: int
    recorded: tuple[int, ...]
    recorded_text: str | None
    encoded: tuple[int, ...]
    encoded_text: str | None
    same_text: bool
    difference: int
    """How many ids more there are after encoding."""


class RetokDiffView(View, frozen=True, kw_only=True):
    """A window of the spans of one turn."""

    session_id: str
    turn: int
    found: bool
    looked: bool = False
    """Whether there is a tokenizer, and ids to give it."""
    turns: tuple[int, ...] = ()
    changed: tuple[int, ...] = ()
    """Turns of the session whose completion changes."""
    completion: int = 0
    kept: int = 0
    """Ids that come back as they are."""
    total: int = 0
    first: int = 0
    rows: tuple[SpanRow, ...] = ()
    token_index: int | None = None
    """As retokenization-drift reports it."""
    kind: str | None = None
    """`drift` or `invalid_utf8`."""
    cut_end: bool = False
    """Whether the completion merely stops within its last character."""
    why_not: str | None = None
    """Why nobody looked."""


def retok_diff_view(held: Held, ask: RetokDiffAsk, open_log: OpenLog, *, tools: ToolsOf) -> RetokDiffView:
    """The view that is asked for."""
    ask = of_named(held, ask)
    trace = RECENT.of(held, ask.session_id, open_log, tools())
    row = None if trace is None else trace.log.row_of(ask.turn)
    if trace is None or row is None:
        numbers = () if trace is None else tuple(trace.numbers)
        return RetokDiffView(session_id=ask.session_id, turn=ask.turn, found=False, turns=numbers)
    found = trace.retokenized(row)
    bare = RetokDiffView(session_id=ask.session_id, turn=ask.turn, found=True, turns=tuple(trace.numbers))
    if found is None:
        why = "no tokenizer: give --tokenizer DIR" if trace.tools.tokenizer is None else "no sampled ids were logged"
        return msgspec.structs.replace(bare, why_not=why)
    first = max(0, min(ask.first, len(found.spans) - 1))
    numbers = trace.numbers
    return msgspec.structs.replace(
        bare,
        looked=True,
        changed=tuple(numbers[at] for at in range(len(numbers)) if _changes(trace, at)),
        completion=len(ragged(trace.log.turns["completion_ids"].slice(row, 1).cast(pl.List(pl.Int64))).values),
        kept=found.kept,
        total=len(found.spans),
        first=first,
        rows=tuple(
            SpanRow(
                start=each.start,
                end=each.end,
                recorded=each.recorded[:MOST_IDS],
                recorded_text=_text(each.recorded[:MOST_IDS], trace),
                encoded=each.encoded[:MOST_IDS],
                encoded_text=_text(each.encoded[:MOST_IDS], trace),
                same_text=each.same_text,
                difference=len(each.encoded) - len(each.recorded),
            )
            for each in found.spans[first : first + ask.count]
        ),
        token_index=None if found.first is None else found.first.place,
        kind=None if found.first is None else found.first.kind,
        cut_end=found.first is not None and found.first.at_cut_end,
    )


def _changes(trace: Trace, row: int) -> bool:
    found = trace.retokenized(row)
    return found is not None and bool(found.spans)


def _text(ids: tuple[int, ...], trace: Trace) -> str | None:
    texts = token_texts(ids, trace.tools)
    return None if None in texts else "".join(text or "" for text in texts)


def topic(tools: ToolsOf = Tools) -> Topic[RetokDiffAsk]:
    """The topic with what `--tokenizer` gives."""
    return Topic("retok_diff", partial(retok_diff_view, tools=tools))


TOPIC = topic()
"""Without a tokenizer, which is to say without an answer."""
