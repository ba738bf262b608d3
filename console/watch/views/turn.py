"""The turns of one session as a tree, and the messages of the selected one."""

import json
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any, cast

import msgspec
import numpy as np
import polars as pl

from checks.measure import Tools
from checks.session_rewards import one_reward_each
from console.watch.frame.filter import Field, Fields, read_filter
from console.watch.held import Held
from console.watch.standing import standing
from console.watch.topic import Ask, OpenLog, Topic, View
from console.watch.trace.messages import Message, new_messages
from console.watch.trace.session_named import of_named
from console.watch.trace.session_rows import session_rows
from console.watch.trace.trace import RECENT, ToolsOf, Trace

FIELDS: Fields = {
    "turn": Field("turn", "number"),
    "adapter": Field("adapter"),
    "version": Field("adapter_version", "number"),
    "purpose": Field("purpose"),
    "prefix": Field("prefix"),
    "kind": Field("break_kind"),
    "finish": Field("finish_reason"),
    "complete": Field("complete", "flag"),
    "trainable": Field("trainable", "flag"),
    "why": Field("untrainable_reason"),
    "prompt": Field("prompt", "number"),
    "tok": Field("completion", "number"),
    "fb": Field("feedback"),
    "reward": Field("reward", "number"),
    "w": Field("worst_w", "number"),
    "outliers": Field("outliers", "number"),
    "retok": Field("retok_spans", "number"),
}
"""What the list can be filtered by."""


class TurnAsk(Ask, frozen=True, kw_only=True):
    """Whose turns, and which one is looked at."""

    session_id: str
    turn: int | None = None
    """None is the last turn with a fault, else the last."""


class TurnRow(msgspec.Struct, frozen=True, kw_only=True):
    """One turn; what was not observed is None."""

    turn: int
    turn_id: str | None
    parent: int | None
    """The turn whose tokens begin its prompt."""
    depth: int
    """How many forks lie above it."""
    link: str | None
    """As believed at capture."""
    prefix: str
    """As the ids say: `root`, `extends`, `break`, `declared` (a break that was meant) or `unknown`."""
    prefix_index: int | None
    break_kind: str | None
    retry_of: int | None
    """The turn whose request this one repeats."""
    attempts: int
    """Turns that repeat this one's request."""
    adapter: str | None
    adapter_version: int | None
    purpose: str | None
    api: str | None
    started_at: datetime | None
    first_token_s: float | None
    """Seconds to the first token."""
    duration_s: float | None
    prompt: int | None
    completion: int | None
    cached: int | None
    """Prompt tokens from the engine's prefix cache."""
    finish_reason: str | None
    complete: bool | None
    trainable: bool | None
    untrainable_reason: str | None
    reward: float | None
    feedback: str | None
    """Kind and value of the last judgement of this turn."""
    worst_w: float | None
    """Farthest from 1 in any scoring."""
    outliers: int | None
    """Tokens with w above 2 or below 1/2 in any scoring; None where there is no ratio."""
    retok_spans: int | None


class TurnsView(View, frozen=True, kw_only=True):
    """A window of a session's turns."""

    session_id: str
    found: bool
    total: int = 0
    """Turns that meet the filter."""
    turns: int = 0
    """All of them."""
    first: int = 0
    rows: tuple[TurnRow, ...] = ()
    selected: int | None = None
    """Number of the turn whose messages these are."""
    selected_row: int = 0
    """Its place in the list; 0 where the filter leaves it out."""
    messages: tuple[Message, ...] = ()
    """What is new in its request, and the reply."""
    earlier: int = 0
    """Messages of its request that its parent had too."""
    tenant: str | None = None
    task_id: str | None = None
    group_id: str | None = None
    reward: float | None = None
    broken: int | None = None
    """Turns that break, declared ones aside; None where none is known to, and a turn has no ids to tell it by."""
    tokens: int | None = None
    """Sampled in all its turns."""


def turns_view(held: Held, ask: TurnAsk, open_log: OpenLog, *, tools: ToolsOf) -> TurnsView:
    """The view that is asked for. FilterError where the filter cannot be used."""
    ask = of_named(held, ask)
    trace = RECENT.of(held, ask.session_id, open_log, tools())
    if trace is None or not trace.numbers:
        return TurnsView(session_id=ask.session_id, found=False)
    turns = held.turns.filter(pl.col("session_id") == ask.session_id).sort("turn", maintain_order=True)
    turns = turns.unique("turn", keep="first", maintain_order=True)
    rows = _Rows(held, trace, turns)
    numbers: list[int] = turns["turn"].to_list()
    selected = ask.turn if ask.turn in numbers else rows.worst(numbers)
    shown = rows.meeting(ask.filter, len(numbers))
    first = max(0, min(ask.first, len(shown) - 1))
    row = trace.log.row_of(selected)
    said = new_messages(trace.log.turns, row, trace.parent_row(selected)) if row is not None else None
    rewards: list[float | None] = session_rows(held).filter(pl.col("session_id") == ask.session_id)["reward"].to_list()
    sampled = turns["completion_tokens"].drop_nulls()
    return TurnsView(
        session_id=ask.session_id,
        found=True,
        total=len(shown),
        turns=len(numbers),
        first=first,
        rows=tuple(rows.row(at) for at in shown[first : first + ask.count]),
        selected=selected,
        selected_row=shown.index(at) if (at := numbers.index(selected)) in shown else 0,
        messages=said.messages if said else (),
        earlier=said.earlier if said else 0,
        tenant=_last(turns["tenant"]),
        task_id=_last(turns["task_id"]),
        group_id=_last(turns["group_id"]),
        reward=rewards[0] if rewards else None,
        broken=_broken(trace),
        tokens=int(sampled.sum()) if len(sampled) else None,
    )


class _Rows:
    """Rows of one session's turns."""

    def __init__(self, held: Held, trace: Trace, turns: pl.DataFrame) -> None:
        self._trace = trace
        self._turns = turns
        self._breaks = {each.turn: each for each in trace.breaks.breaks}
        self._retries = _retries(held.events.filter(pl.col("session_id") == trace.log.session_id), turns)
        ids = turns["turn_id"].drop_nulls()
        judged = standing(held).filter(pl.col("turn_id").is_in(ids.implode()))
        self._feedback = {row["turn_id"]: row for row in judged.iter_rows(named=True)}
        rewards = one_reward_each(held.rewards.filter(pl.col("turn_id").is_in(ids.implode())))
        self._rewards = dict(rewards.select("turn_id", "value").iter_rows())
        self._depths = _depths(trace)

    def meeting(self, filter: str, count: int) -> Sequence[int]:
        """Places of the turns that meet a filter; only for one are all turns worked out."""
        wanted = read_filter(filter, FIELDS)
        if not wanted.terms:
            return range(count)
        return [at for at in range(count) if wanted.matches(msgspec.structs.asdict(self.row(at)))]

    def worst(self, numbers: list[int]) -> int:
        """The turn that is looked at first: the last that breaks, else the last."""
        broken = [each.turn for each in self._breaks.values() if not each.declared and each.turn in numbers]
        return max(broken, default=numbers[-1])

    def row(self, at: int) -> TurnRow:
        """One turn."""
        turn = self._turns.row(at, named=True)
        number = turn["turn"]
        broken = self._breaks.get(number)
        weights = self._weights(number)
        judged = self._feedback.get(turn["turn_id"])
        return TurnRow(
            turn=number,
            parent=self._trace.breaks.parents.get(number),
            depth=self._depths.get(number, 0),
            prefix=self._prefix(number),
            prefix_index=broken.at if broken else None,
            break_kind=broken.kind if broken else turn.get("break_kind"),
            retry_of=self._retries.get(number),
            attempts=sum(of == number for of in self._retries.values()),
            first_token_s=_seconds(turn["started_at"], turn["first_token_at"]),
            duration_s=_seconds(turn["started_at"], turn["finished_at"]),
            prompt=turn["prompt_tokens"],
            completion=turn["completion_tokens"],
            cached=turn["cached_tokens"],
            reward=self._rewards.get(turn["turn_id"]),
            feedback=None if judged is None else _judgement(judged),
            worst_w=weights[0],
            outliers=weights[1],
            retok_spans=self._retok(number),
            **{name: turn.get(name) for name in _AS_HELD},
        )

    def _prefix(self, number: int) -> str:
        broken = self._breaks.get(number)
        if broken is not None:
            return "declared" if broken.declared else "break"
        if number not in self._trace.breaks.parents:
            return "unknown"
        return "root" if self._trace.breaks.parents[number] is None else "extends"

    def _weights(self, number: int) -> tuple[float | None, int | None]:
        row = self._trace.log.row_of(number)
        if row is None:
            return None, None
        scorings = self._trace.scorings(row)
        worst = scorings.worst()
        if worst is None:
            return None, None
        with np.errstate(over="ignore"):
            return float(np.exp(worst)), scorings.outliers()

    def _retok(self, number: int) -> int | None:
        row = self._trace.log.row_of(number)
        found = None if row is None else self._trace.retokenized(row)
        return None if found is None else len(found.spans)


_AS_HELD = (
    "turn_id",
    "link",
    "adapter",
    "adapter_version",
    "purpose",
    "api",
    "started_at",
    "finish_reason",
    "complete",
    "trainable",
    "untrainable_reason",
)


def _broken(trace: Trace) -> int | None:
    found = sum(not each.declared for each in trace.breaks.breaks)
    return found if found or trace.breaks.parents.keys() >= set(trace.numbers) else None


def _last(names: pl.Series) -> str | None:
    known: list[str] = names.drop_nulls().to_list()
    return known[-1] if known else None


# Any: rows of a frame.
def _judgement(row: dict[str, Any]) -> str:
    value = "" if row["value"] is None else f" {row['value']:g}"
    return f"{row['kind'] or 'feedback'}{value}"


def _seconds(begin: datetime | None, end: datetime | None) -> float | None:
    return None if begin is None or end is None else (end - begin).total_seconds()


def _retries(events: pl.DataFrame, turns: pl.DataFrame) -> dict[int, int]:
    """Turn to the turn whose request it repeats."""
    number_of: dict[str, int] = dict(turns.select("turn_id", "turn").drop_nulls().iter_rows())
    found: dict[int, int] = {}
    for detail in events.filter(pl.col("kind") == "retry")["detail"].drop_nulls().to_list():
        told = cast(dict[str, Any], json.loads(detail))
        again, first = number_of.get(told.get("turn_id", "")), number_of.get(told.get("retry_of", ""))
        if again is not None and first is not None:
            found[again] = first
    return found


def _depths(trace: Trace) -> dict[int, int]:
    """How many forks lie above each turn: one more than above its parent where another turn went on from that first."""
    depths: dict[int, int] = {}
    gone_on: set[int] = set()
    for number, parent in trace.breaks.parents.items():
        depths[number] = 0 if parent is None else depths.get(parent, 0) + (parent in gone_on)
        if parent is not None:
            gone_on.add(parent)
    return depths


def topic(tools: ToolsOf = Tools) -> Topic[TurnAsk]:
    """The topic with what `--tokenizer` gives."""
    return Topic("turn", partial(turns_view, tools=tools))


TOPIC = topic()
"""Without a tokenizer."""
