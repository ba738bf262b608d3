"""The rows at the top: what is watched, how the console stands to it, the tabs."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from textual.filter import LineFilter

from console.watch.frame.frame_app import Facts
from console.watch.frame.line_filters import Dimmed
from console.watch.frame.reflow import Form
from console.watch.frame.row import Part, Row
from console.watch.frame.screen_list import TABS
from console.watch.status import AHEAD_S

if TYPE_CHECKING:
    from console.watch.views.head import HeadView


LATE_S = 2.0
"""A view that is further behind what was read says so."""


class HeadRow(Row):
    """A row that a stale screen does not dim."""

    def get_line_filters(self) -> Sequence[LineFilter]:
        """All but that one."""
        return [one for one in super().get_line_filters() if not isinstance(one, Dimmed)]


def head_parts(facts: Facts, form: Form) -> list[Part]:
    """Row 1: the deployment, live or not, how old, how many alerts, and whether acting is allowed."""
    palette, wide = facts.palette, form == "full"
    left = [Part(palette.said(" roundhouse · " if wide else " roundhouse "), palette.bold)]
    if facts.head is not None:
        left.append(Part(palette.said(_deployment(facts.head, wide))))
    right = [Part(" "), *_state_parts(facts, wide=wide)]
    if facts.head is not None:
        right += [part for tally in facts.head.alerts for part in _tally(facts, tally.state, tally.count)]
    if not facts.mouse:
        right += [Part(" "), Part("MOUSE OFF - drag to select" if wide else "MOUSE OFF", palette.reverse)]
    right.append(Part(" RW " if facts.rw else " RO ", palette.reverse if facts.rw else palette.plain))
    return [*left, *[part._replace(right=True) for part in right]]


def _deployment(head: "HeadView", wide: bool) -> str:
    words = [head.name]
    if wide and head.base_model:
        words.append(head.base_model.rpartition("/")[2])
    if head.adapter is not None:
        words.append(head.adapter)
    elif head.adapters:
        words.append(f"{head.adapters} adapters")
    if head.live is not None:
        words.append(f"live v{head.live}")
    if head.candidate is not None:
        words.append(f"candidate v{head.candidate}" if wide else f"cand v{head.candidate}")
    if head.step is not None:
        words.append(f"step {head.step}")
    return "  ".join(words) if wide else " ".join(words)


def _tally(facts: Facts, state: str, count: int) -> list[Part]:
    palette = facts.palette
    return [Part(" "), Part(f"{palette.glyph(state)}{count}", palette.style(state))]  # pyright: ignore[reportArgumentType]


def _state_parts(facts: Facts, *, wide: bool) -> list[Part]:
    """How it stands: each state has its own word and shape, whatever the colours."""
    status, palette = facts.status, facts.palette
    at = clock(status.at)
    behind = f" {age(status.behind_s)} behind" if status.behind_s is not None else ""
    if status.state == "live":
        lag = f"  lag {age(status.lag_s)}" if status.lag_s is not None else ""
        live = Part(f"{palette.glyph('ok')} LIVE {at}{lag}", palette.style("ok"))
        late_s = _late_s(facts)
        return [live] if late_s is None else [live, Part(f"  ~ view {age(late_s)} behind", palette.style("pending"))]
    if status.state == "part" and status.part is not None:
        said = status.part.said if wide else f"newest {status.part.turns:,}t; {status.part.reading}"
        return [Part(palette.said(f"… {said}"), palette.style("pending"))]
    if status.state == "finished":
        until = "" if status.at is None else f", until {status.at:%Y-%m-%d} {at}"
        return [Part(f"= LOG read{until if wide else ''}", palette.plain)]
    if status.state == "paused":
        return [Part(f"|| PAUSED {at}{behind}", palette.bold)]
    if status.state == "replay":
        return [Part(f" REPLAY {at} ", palette.cursor), Part(behind)]
    if status.state == "stale":
        said = "STALE, nothing for" if wide else "STALE"
        return [Part(f"~ {said} {age(status.quiet_s)}", palette.style("pending"))]
    if status.state == "disconnected":
        return [Part(f"{palette.glyph('error')} DISCONNECTED", palette.style("error"))]
    if status.state == "no_data":
        return [Part(f"{palette.glyph('no_data')} n/d", palette.style("no_data"))]
    reading = "reading" if status.part is None else status.part.reading
    return [Part(palette.said(f"… {reading}"), palette.dim)]


def _late_s(facts: Facts) -> float | None:
    """How far the view rests behind what was read, seconds; None where it does not, or nobody would notice."""
    if facts.shown_at is None or facts.status.at is None:
        return None
    late_s = (facts.status.at - facts.shown_at).total_seconds()
    return late_s if late_s > LATE_S else None


def banner_parts(facts: Facts) -> list[Part]:
    """The row that is there only while something is wrong with reading."""
    status, palette = facts.status, facts.palette
    if status.state == "disconnected":
        retry = "" if status.retry_in_s is None else f"; next try in {age(status.retry_in_s)}"
        return [Part(f" {palette.glyph('error')} not read: {status.error or 'unknown'}{retry} ", palette.reverse)]
    if facts.error is not None:
        return [Part(f" {palette.glyph('error')} this view could not be built: {facts.error} ", palette.reverse)]
    said: list[str] = []
    if status.ahead_s is not None:
        said.append(f"newest record is {age(status.ahead_s)} ahead of this clock")
    if facts.head is not None and facts.head.damage:
        said.append(f"{len(facts.head.damage)} parts of it could not be read; :damage says which")
    return [Part(f" {palette.glyph('warning')} {'; '.join(said)} ", palette.style("warning"))] if said else []


def tab_parts(facts: Facts, tab: str, form: Form) -> list[Part]:
    """Row 2: the six screens, the open one in brackets."""
    palette, wide = facts.palette, form == "full"
    counts = "".join(f" {palette.glyph(one.state)}{one.count}" for one in facts.head.alerts) if facts.head else ""
    parts = [Part(" ")]
    for number, one in enumerate(TABS, 1):
        label = f"{number} {one.title}" if wide else f"{number}{one.short}"
        label += counts if one.topic == "alerts" else ""
        here = one.topic == tab
        parts.append(Part(f"[{label}]" if here else f" {label} ", palette.bold if here else palette.plain))
    return [*parts, Part(": cmd  / filter  ? help ", palette.dim, right=True)] if wide else parts


def one_line(facts: Facts, sentence: str) -> list[Part]:
    """All that a terminal too small for a screen gets."""
    tallies = facts.head.alerts if facts.head else ()
    parts = [part for one in tallies for part in _tally(facts, one.state, one.count)]
    return [*parts, Part(" "), *_state_parts(facts, wide=False), Part(f" {sentence}")]


def clock(at: datetime | None) -> str:
    """A time of the day in UTC."""
    return "--:--:--Z" if at is None else f"{at:%H:%M:%S}Z"


def ago(then: datetime, now: datetime) -> str:
    """How long ago a record was; a word where its time lies ahead of what is newest by this machine's clock."""
    since_s = (now - then).total_seconds()
    return "ahead" if since_s < -AHEAD_S else age(since_s)


def age(seconds: float | None) -> str:
    """A span of time in one or two units; what clocks that differ make less than nothing is nothing."""
    if seconds is None:
        return "?"
    seconds = max(0.0, seconds)
    if seconds < 10:
        return f"{seconds:.1f}s"
    if seconds < 120:
        return f"{seconds:.0f}s"
    if seconds < 7200:
        return f"{seconds / 60:.0f}m"
    return f"{seconds / 3600:.0f}h" if seconds < 172_800 else f"{seconds / 86_400:.0f}d"
