"""The sessions, filtered and sorted: a window of rows."""

from datetime import datetime

import msgspec
import polars as pl

from console.watch.frame.filter import Field, Fields, read_filter
from console.watch.held import Held
from console.watch.topic import Ask, OpenLog, View, of_part
from console.watch.trace.session_rows import session_rows

FIELDS: Fields = {
    "session": Field("session_id"),
    "tenant": Field("tenant"),
    "adapter": Field("served"),
    "version": Field("adapter_version", "number"),
    "task": Field("task_id"),
    "group": Field("group_id"),
    "purpose": Field("purpose"),
    "turns": Field("turns", "number"),
    "tok": Field("tokens", "number"),
    "context": Field("context", "number"),
    "prefix": Field("prefix", "text", {"ok": "ok", "break": "break"}),
    "kind": Field("break_kind"),
    "breaks": Field("breaks", "number"),
    "retok": Field("retok", "number"),
    "fb": Field("feedback", "text", {"+": "up", "-": "down", "~": "mixed"}),
    "reward": Field("reward", "number"),
    "trainable": Field("trainable", "number"),
    "why": Field("why_not"),
    "cut": Field("cut", "number"),
    "w": Field("worst_w", "number"),
}
"""What the list can be filtered by."""
SORTS = ("last_at", "turns", "tokens", "breaks", "retok", "reward", "trainable", "worst_w", "session_id")
"""Columns that the list can be sorted by, in the order in which the key goes through them."""


class TrajectoryRow(msgspec.Struct, frozen=True, kw_only=True):
    """One session; what was not observed is None."""

    session_id: str
    tenant: str | None
    adapter: str | None
    adapter_version: int | None
    served: str | None
    """`adapter@version` of its last turn."""
    turns: int
    begun_before: bool
    """Whether it began before the part of the log that was read: its numbers are then lower bounds."""
    tokens: int | None
    """Sampled tokens of all its turns."""
    context: int | None
    """Prompt and completion of its longest turn."""
    last_at: datetime | None
    breaks: int | None
    """Turns that do not extend the turn they continue; None where that is not known of all its turns."""
    break_turn: int | None
    break_kind: str | None
    subagents: int | None
    compactions: int | None
    retok: int | None
    """Turns that come back as other ids; None where nobody looked."""
    retok_unread: bool
    """Whether that is looked at only where a turn is opened, as in a store: what stands there may be another number."""
    reward: float | None
    judgements: int | None
    """Feedback that stands."""
    feedback: str | None
    """`up`, `down` or `mixed`."""
    trainable: int | None
    """Turns that may be trained on."""
    why_not: str | None
    """The commonest reason of the others."""
    cut: int | None
    """Turns that the length limit ended."""
    failed: int | None
    """Turns that did not reach their end."""
    worst_w: float | None
    """The importance weight farthest from 1 among those that were read so far."""
    worst_turn: int | None
    worst_token: int | None


class TrajectoriesView(View, frozen=True, kw_only=True):
    """A window of the list, and how much there is."""

    total: int
    """Sessions that meet the filter."""
    sessions: int
    """All of them."""
    turns: int
    first: int
    rows: tuple[TrajectoryRow, ...]
    sort: str
    descending: bool
    broken: int | None
    """Sessions with a break; None where that cannot be told of any."""
    prefix_unknown: int
    """Sessions of which it cannot be told: without a break as far as it is known, and a turn without ids."""
    unanswered: int
    """Sessions without feedback."""
    share: float | None
    """How much of the tokens was read: the weights are of so many."""


_FIELDS = TrajectoryRow.__struct_fields__


def trajectories_view(held: Held, ask: Ask, open_log: OpenLog) -> TrajectoriesView:
    """The view that is asked for. FilterError where the filter cannot be used."""
    del open_log
    cut = pl.col("first_turn") > 1 if held.source.part is not None else pl.lit(False)
    unread = pl.col("retok").is_null() & pl.lit(held.source.format == "store")
    everything = session_rows(held).with_columns(begun_before=cut, retok_unread=unread)
    rows = everything if ask.adapter is None else everything.filter(pl.col("adapter") == ask.adapter)
    if ask.filter:
        broken = pl.when(pl.col("breaks") > 0).then(pl.lit("break")).when(pl.col("breaks") == 0).then(pl.lit("ok"))
        rows = rows.with_columns(prefix=broken).filter(read_filter(ask.filter, FIELDS).expression())
    sort = ask.sort if ask.sort in SORTS else ""
    if sort:
        # The weight farthest from 1 is the worst, on whichever side.
        by = pl.col(sort).log().abs() if sort == "worst_w" else pl.col(sort)
        rows = rows.sort(by, descending=ask.descending, nulls_last=True, maintain_order=True)
    first = max(0, min(ask.first, rows.height - 1))
    window = rows.slice(first, max(0, ask.count)).select(_FIELDS)
    told = everything["breaks"].null_count() < everything.height
    return TrajectoriesView(
        total=rows.height,
        sessions=everything.height,
        turns=int(everything["turns"].sum()),
        first=first,
        rows=tuple(TrajectoryRow(**row) for row in window.iter_rows(named=True)),
        sort=sort,
        descending=ask.descending,
        broken=int((everything["breaks"] > 0).sum()) if told else None,
        prefix_unknown=everything["breaks"].null_count(),
        unanswered=everything["judgements"].null_count(),
        share=held.tokens.share,
    )


TOPIC = of_part("trajectories", trajectories_view)
"""The list of sessions."""
