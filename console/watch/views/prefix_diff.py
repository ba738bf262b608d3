"""A turn as it was generated against the prompt of the turn that goes on from it: what was kept, lost and added."""

from datetime import datetime
from functools import partial

import msgspec
import polars as pl

from checks.measure import Tools
from checks.measures.held_turn import common_prefix
from checks.ragged import Array, ragged
from console.watch.held import Held
from console.watch.topic import Ask, OpenLog, Topic, View
from console.watch.trace.diff_lines import DiffLine, DiffLines
from console.watch.trace.id_diff import Run, runs
from console.watch.trace.session_named import of_named
from console.watch.trace.session_rows import break_rows, breaks_known
from console.watch.trace.trace import RECENT, ToolsOf, Trace

CAUSES = {
    "reasoning_stripped": "thinking of an earlier turn was left out",
    "empty_think_block": "an empty think block was put in or left out",
    "tool_call_reserialized": "a tool call was spelled anew",
    "system_prompt_changed": "the system prompt or the tools changed",
    "retokenized": "the same text in other tokens: text was sent back instead of ids",
    "stop_token_replaced": "the token that ends a message gave way to another",
    "compaction": "history was replaced by a shorter one",
    "other": "ids alone cannot tell",
}
"""The check's kinds in words."""


class PrefixDiffAsk(Ask, frozen=True, kw_only=True):
    """Which turn's prompt, and how it is shown."""

    session_id: str
    turn: int
    split: bool = False
    """Two columns instead of one."""
    opened: tuple[int, ...] = ()
    """Runs that are shown whole."""
    first: int = -1
    """First line; -1 begins a little before the break."""


class RunView(msgspec.Struct, frozen=True, kw_only=True):
    """One run of ids."""

    kind: str
    """`same`, `removed` or `added`."""
    before: int
    now: int
    length: int


class Effect(msgspec.Struct, frozen=True, kw_only=True):
    """What the break does."""

    lost_sampled: int
    """Sampled ids of the earlier turn that are not where they were."""
    reusable: int
    """Prompt tokens that a prefix cache can reuse."""
    cached: int | None
    """Prompt tokens that the engine says it took from its cache."""
    same_sessions: int | None
    """Sessions with a break of this kind, of the same adapter; None where breaks are not known of all sessions."""
    of_sessions: int
    """Sessions of the same adapter."""
    since: datetime | None
    """When the first turn of those sessions began."""


class PrefixDiffView(View, frozen=True, kw_only=True):
    """The difference, or that there is none."""

    session_id: str
    turn: int
    found: bool
    """Whether the log holds ids of the turn."""
    turns: tuple[int, ...] = ()
    broken: tuple[int, ...] = ()
    """Turns of the session that break."""
    relation: str = "unknown"
    """`break`, `declared` (a break that was meant), `extends`, `root`, or `unknown` without ids."""
    previous: int | None = None
    kind: str | None = None
    """The check's kind of the break."""
    before_tokens: int = 0
    """Prompt and completion of the earlier turn."""
    now_tokens: int = 0
    """Prompt of this turn."""
    common: int = 0
    """Length of the common prefix."""
    lost: int = 0
    """Ids of the earlier turn after it."""
    realigned: int = 0
    """Of those, the ids that come back further on."""
    new: int = 0
    """Ids of the prompt that the earlier turn has not, or not in this order."""
    inside: str | None = None
    """`prompt` or `completion` of the earlier turn, where the difference begins."""
    index_inside: int | None = None
    """Index of it there."""
    runs: tuple[RunView, ...] = ()
    total: int = 0
    first: int = 0
    lines: tuple[DiffLine, ...] = ()
    split: bool = False
    effect: Effect | None = None
    has_text: bool = False

    @property
    def cause(self) -> str:
        """The kind in words; empty without a break."""
        return CAUSES.get(self.kind or "", self.kind or "")


def prefix_diff_view(held: Held, ask: PrefixDiffAsk, open_log: OpenLog, *, tools: ToolsOf) -> PrefixDiffView:
    """The view that is asked for."""
    ask = of_named(held, ask)
    trace = RECENT.of(held, ask.session_id, open_log, tools())
    row = None if trace is None else trace.log.row_of(ask.turn)
    if trace is None or row is None:
        numbers = () if trace is None else tuple(trace.numbers)
        return PrefixDiffView(session_id=ask.session_id, turn=ask.turn, found=False, turns=numbers)
    broken = tuple(each.turn for each in trace.breaks.breaks if each.previous is not None)
    bare = PrefixDiffView(
        session_id=ask.session_id,
        turn=ask.turn,
        found=ask.turn in trace.breaks.parents,
        turns=tuple(trace.numbers),
        broken=tuple(sorted(set(broken))),
        has_text=trace.tools.tokenizer is not None,
    )
    if not bare.found:
        return bare
    found = trace.break_of(ask.turn)
    parent = trace.breaks.parents.get(ask.turn)
    previous = parent if found is None or found.previous is None else found.previous
    before_row = None if previous is None else trace.log.row_of(previous)
    if before_row is None:
        return msgspec.structs.replace(bare, relation="root", now_tokens=len(_ids(trace, row, "prompt_ids")))
    relation = "extends" if found is None or found.previous is None else "declared" if found.declared else "break"
    return _compared(held, ask, trace, msgspec.structs.replace(bare, relation=relation, previous=previous), before_row)


def _compared(held: Held, ask: PrefixDiffAsk, trace: Trace, bare: PrefixDiffView, before_row: int) -> PrefixDiffView:
    row = trace.log.row_of(ask.turn)
    assert row is not None
    parts = _ids(trace, before_row, "prompt_ids"), _ids(trace, before_row, "completion_ids")
    before, now = [*parts[0].tolist(), *parts[1].tolist()], _ids(trace, row, "prompt_ids").tolist()
    common = common_prefix(_array(before), _array(now))
    aligned = trace.once(("aligned", ask.turn), lambda: aligned_runs(before, now, common))
    lines = DiffLines(before, now, aligned, split=ask.split, opened=ask.opened)
    first = max(0, lines.line_of_break() - 4) if ask.first < 0 else ask.first
    inside = "prompt" if common < len(parts[0]) else "completion"
    is_break = bare.relation in ("break", "declared")
    found = trace.break_of(ask.turn)
    return msgspec.structs.replace(
        bare,
        kind=found.kind if is_break and found else None,
        before_tokens=len(before),
        now_tokens=len(now),
        common=common,
        lost=len(before) - common,
        realigned=sum(each.length for each in aligned if each.kind == "same") - common,
        new=sum(each.length for each in aligned if each.kind == "added"),
        inside=inside if common < len(before) else None,
        index_inside=common - (len(parts[0]) if inside == "completion" else 0) if common < len(before) else None,
        runs=tuple(RunView(**each._asdict()) for each in aligned),
        total=lines.total(),
        first=first,
        lines=tuple(lines.window(first, ask.count, trace.tools)),
        split=ask.split,
        effect=_effect(
            held, trace, row, found.kind if found else None, common, len(before) - max(common, len(parts[0]))
        )
        if is_break
        else None,
    )


def aligned_runs(before: list[int], now: list[int], common: int) -> list[Run]:
    """The common prefix, and after it the runs that come back further on."""
    rest = runs(before[common:], now[common:])
    moved = [Run(each.kind, each.before + common, each.now + common, each.length) for each in rest]
    return [*([Run("same", 0, 0, common)] if common else []), *moved]


def _effect(held: Held, trace: Trace, row: int, kind: str | None, common: int, lost_sampled: int) -> Effect:
    turn = trace.log.turns.row(row, named=True)
    of_adapter = pl.col("adapter").eq_missing(pl.lit(turn["adapter"], pl.String))
    sessions = held.turns.filter(of_adapter)
    rows = break_rows(held)
    known = breaks_known(held)
    same = rows.filter((pl.col("kind") == kind) & pl.col("session_id").is_in(sessions["session_id"].unique().implode()))
    since = sessions["started_at"].min()
    return Effect(
        lost_sampled=max(0, lost_sampled),
        reusable=common,
        cached=turn["cached_tokens"],
        same_sessions=same["session_id"].n_unique() if known else None,
        of_sessions=sessions["session_id"].n_unique(),
        since=since if isinstance(since, datetime) else None,
    )


def _ids(trace: Trace, row: int, column: str) -> Array:
    values = trace.log.turns[column].slice(row, 1).cast(pl.List(pl.Int64))
    return ragged(values).values


def _array(ids: list[int]) -> Array:
    return pl.Series(ids, dtype=pl.Int64).to_numpy()


def topic(tools: ToolsOf = Tools) -> Topic[PrefixDiffAsk]:
    """The topic with what `--tokenizer` gives."""
    return Topic("prefix_diff", partial(prefix_diff_view, tools=tools))


TOPIC = topic()
"""Without a tokenizer: ids without text, and kinds as far as messages tell them."""
