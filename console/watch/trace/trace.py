"""A session under the glass: its tokens, and what the checks make of them, each worked out once."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple, TypeVar, cast

import numpy as np
import polars as pl

from checks.measure import Tools
from checks.measures.parts import part
from checks.ragged import Array, ragged
from console.watch.held import Held
from console.watch.topic import OpenLog
from console.watch.trace.base_model_tools import NamedTools, tools_for
from console.watch.trace.retok_spans import Retokenized, retokenized
from console.watch.trace.session_breaks import Break, SessionBreaks, session_breaks
from console.watch.trace.session_turns import SessionTurns, read_session
from console.watch.trace.turn_scorings import TurnScorings, turn_scorings
from console.watch.trace.turn_tokens import TurnTokens, turn_tokens
from console.watch.trace.verdict import WrongIds
from console.watch.trace.weight_segments import Segment, segments
from console.watch.trained_then import TrainedThen

Made = TypeVar("Made")
ToolsOf = Callable[[], Tools]
"""Gives the tokenizer, which is read when it is first needed."""
KEPT_SESSIONS = 8
KEPT_TOKENS = 32_000_000
"""Ids kept of sessions beside the one that was read last."""


_SHOWN_IDS = 8


class ScoredTurn(NamedTuple):
    """One turn under one scoring."""

    tokens: TurnTokens
    segments: tuple[Segment, ...]
    """Why its weights are what they are, version by version."""


class Basis(NamedTuple):
    """All that a trace is made of beside the log: it is given nothing else, and is kept as long as this stays equal."""

    turns: pl.DataFrame
    """Of the session, as they are held: a score shows in its turn's marks where it is the first,"""
    scores: int
    """and else in how many were read."""
    events: pl.DataFrame
    """Of the session."""
    versions: pl.DataFrame
    cells: pl.DataFrame | None
    """Of the importance weights; None where none were folded yet."""
    then: TrainedThen | None
    """What a replay shows of training; None live."""

    def same_log(self, other: "Basis") -> bool:
        """Whether what was read of the session for the one is right for the other, and whatever is made of it alone."""
        read = (self.turns, self.scores, self.events, self.then)
        return _equal(read, (other.turns, other.scores, other.events, other.then))

    def same(self, other: "Basis") -> bool:
        """Whether they say the same."""
        return _equal(self, other)


def _equal(one: object, other: object) -> bool:
    """Of frames, and tuples with frames in them, by value."""
    if isinstance(one, pl.DataFrame) and isinstance(other, pl.DataFrame):
        return one is other or (one.schema == other.schema and one.equals(other))
    if isinstance(one, tuple) and isinstance(other, tuple):
        here, there = cast(tuple[object, ...], one), cast(tuple[object, ...], other)
        return len(here) == len(there) and all(map(_equal, here, there))
    return bool(cast(object, one) == other)


class Trace:
    """One session as it was held at one moment."""

    def __init__(self, log: SessionTurns, basis: Basis, named: NamedTools) -> None:
        self.log = log
        self.basis = basis
        self.tools = named.tools
        self.tokenizer = named.name
        """Where the tokenizer is from; None without one."""
        self._events = basis.events
        self._versions = basis.versions
        self._cells = basis.cells
        self._scorings: dict[int, TurnScorings] = {}
        self._scored: dict[tuple[int, int], ScoredTurn] = {}
        self._retokenized: dict[int, Retokenized | None] = {}
        self._made: dict[tuple[object, ...], object] = {}

    @property
    def numbers(self) -> list[int]:
        """The turns' numbers, in order."""
        return self.log.turns["turn"].to_list()

    @property
    def breaks(self) -> SessionBreaks:
        """Which turn extends which, and where one does not."""
        return self.once(("breaks",), lambda: session_breaks(self.log, self._events, self.tools))

    def break_of(self, turn: int) -> Break | None:
        """How a turn fails to extend the one that it continues; None where it does not fail."""
        return next((each for each in self.breaks.breaks if each.turn == turn), None)

    def parent_row(self, turn: int) -> int | None:
        """The row of the turn that a turn extends or continues."""
        broken = self.break_of(turn)
        above = broken.previous if broken else self.breaks.parents.get(turn)
        return None if above is None else self.log.row_of(above)

    def scorings(self, row: int) -> TurnScorings:
        """The weights of a turn in each of its scorings."""
        if row not in self._scorings:
            self._scorings[row] = turn_scorings(self.log, row)
        return self._scorings[row]

    def scored(self, row: int, scoring: int) -> ScoredTurn:
        """A turn's tokens under a scoring, and why its weights are what they are."""
        key = (row, scoring)
        if key not in self._scored:
            tokens = turn_tokens(self.log, row, scoring=scoring)
            self._scored[key] = ScoredTurn(tokens, segments(self.log, row, tokens, self._versions, self._cells))
        return self._scored[key]

    def retokenized(self, row: int) -> Retokenized | None:
        """What decode and encode make of a completion; None without a tokenizer, or without ids."""
        if self.tools.tokenizer is None:
            return None
        if row not in self._retokenized:
            ids = self._ids(row, "completion_ids")
            prompt = self._ids(row, "prompt_ids")
            self._retokenized[row] = None if not ids else retokenized(self.tools.tokenizer, ids, prompt)
        return self._retokenized[row]

    def wrong_ids(self, row: int, tokens: TurnTokens) -> tuple[WrongIds, ...]:
        """Spans of a completion that come back as other ids, or are not in the prompt that goes on from it."""
        found = self.retokenized(row)
        spans = [
            (
                each.start,
                max(each.end, each.start + 1),
                f"recorded {_few(each.recorded)} comes back as {_few(each.encoded)}",
            )
            for each in (found.spans if found is not None else ())
        ]
        number, prompt, whole = self.numbers[row], len(tokens.prompt), len(tokens.completion)
        for each in self.breaks.breaks:
            if each.previous == number and each.at is not None and each.at < prompt + whole and not each.declared:
                text = f"turn {each.turn} goes on without them: {each.kind} at token {each.at} of its prompt"
                spans.append((max(0, each.at - prompt), whole, text))
        return _compared(spans, tokens)

    def told(self, basis: Basis, named: NamedTools) -> "Trace":
        """The same session where other versions and other weights are known; what it alone tells is not made anew."""
        again = Trace(self.log, basis, named)
        again._retokenized, again._made = self._retokenized, self._made
        return again

    def once(self, name: tuple[object, ...], make: Callable[[], Made]) -> Made:
        """What is slow to work out and depends on the session alone, by name."""
        if name not in self._made:
            self._made[name] = make()
        return cast(Made, self._made[name])

    def _ids(self, row: int, column: str) -> list[int] | None:
        values = self.log.turns[column].slice(row, 1)
        return None if values.null_count() else ragged(values).values.tolist()


def _few(ids: tuple[int, ...]) -> str:
    """The first of some ids."""
    more = ", …" if len(ids) > _SHOWN_IDS else ""
    return f"[{', '.join(map(str, ids[:_SHOWN_IDS]))}{more}]"


def _compared(spans: list[tuple[int, int, str]], tokens: TurnTokens) -> tuple[WrongIds, ...]:
    """The spans with how far off the weights are on each, and on none of them."""
    log_w = tokens.log_w()
    if log_w is None:
        return tuple(WrongIds(start=start, end=end, text=text) for start, end, text in spans)
    kept = np.isfinite(log_w) if tokens.counted is None else np.isfinite(log_w) & tokens.counted
    away, off = np.abs(log_w), kept.copy()
    for start, end, _ in spans:
        off[start:end] = False
    return tuple(
        WrongIds(
            start=start, end=end, text=text, on_mean=_mean(away[start:end], kept[start:end]), off_mean=_mean(away, off)
        )
        for start, end, text in spans
    )


def _mean(away: Array, kept: Array) -> float | None:
    return float(away[kept].mean()) if kept.any() else None


def _basis(held: Held, own: pl.DataFrame, session_id: str) -> Basis:
    weights = held.tokens.weights
    return Basis(
        turns=own,
        scores=held.scores,
        events=held.events.filter(pl.col("session_id") == session_id),
        versions=held.versions,
        cells=part(weights, "cells") if "cells" in weights.columns else None,
        then=held.trained,
    )


class RecentTraces:
    """The last few sessions, kept as long as nothing was added to what they are made of."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[object, ...], Trace] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, held: Held, session_id: str, open_log: OpenLog, tools: Tools) -> Trace | None:
        """The session as it is in what is held; None where it is not there."""
        own = held.turns.filter(pl.col("session_id") == session_id)
        if own.is_empty():
            return None
        named = tools_for(tools, own, store=held.source.format == "store")
        basis = _basis(held, own, session_id)
        key = (open_log, session_id, id(named.tools.tokenizer))
        with self._lock:
            found = self._kept.pop(key, None)
            if found is None or not basis.same_log(found.basis):
                found = Trace(read_session(session_id, open_log, own["turn"], basis.then), basis, named)
            elif not basis.same(found.basis):
                found = found.told(basis, named)
            self._kept[key] = found
            self._forget()
        return found

    def _forget(self) -> None:
        while len(self._kept) > 1 and (
            len(self._kept) > KEPT_SESSIONS or sum(each.log.tokens for each in self._kept.values()) > KEPT_TOKENS
        ):
            self._kept.popitem(last=False)


RECENT = RecentTraces()
"""What the topics of the drill-down share, each of which is built in a thread of its own."""
