"""The signals screen as lines."""

from collections.abc import Iterator

from collector.terminal_text import terminal_safe
from console.format import number_text
from console.watch.compact import compact
from console.watch.plain.alert_text import line_text
from console.watch.plain.beginning import beginning
from console.watch.plain.logs import LETTERS
from console.watch.views.first_mover import said
from console.watch.views.lane import Lane
from console.watch.views.other_faults import OtherFaults
from console.watch.views.part_signals import UNTOLD
from console.watch.views.place import place_text, session_text
from console.watch.views.signal_lanes import LABELS, ordered
from console.watch.views.signals import LogLine, SignalsView
from console.watch.views.untrainable import Untrainable
from console.watch.widgets.palette import SIGNS

WAYS = 3
"""Places of a lane that are told."""


def plain_signals(view: SignalsView, width: int) -> list[str]:
    """The first mover, a line for each signal in the order of onset, untrainable share, alerts and log."""
    del width
    lines = [_adapter(view), first_mover_text(view), tokens_text(view)]
    for lane in ordered(view.lanes, "onset"):
        lines += list(lane_lines(lane)) if lane.status in ("warn", "fail") else [_lane(lane)]
        lines += _ways(lane)
    lines += [untrainable_text(view.untrainable), others_text(view.others)]
    lines.append(f"alerts: {alerts_count(view)}")
    lines += [f"  {SIGNS[line.state].glyph} {line_text(line)}" for line in view.alerts]
    lines.append("log:")
    lines += [f"  {log_text(line, dated=True)}" for line in view.log]
    return [terminal_safe(line) for line in lines if line]


def first_mover_text(view: SignalsView, *, short: bool = False) -> str:
    """What moved first, in one line."""
    if view.newest_turns is not None:
        return f"newest part: what moved first is {UNTOLD}"
    labels = LABELS | {lane.signal: lane.label for lane in view.lanes}
    mover = view.first_mover
    lead = "FIRST:" if short else "FIRST MOVER "
    if not mover.movers and not mover.falls:
        lead = "no signal moved" if mover.steady else ""
        return " ┊ ".join(each for each in (lead, said(mover, labels, short=short), graded_text(view)) if each)
    frozen = mover.frozen_at is not None and view.step is not None and mover.frozen_at < view.step
    since = f"frozen @{mover.frozen_at}" if frozen else ""
    ranking = f"{lead} {said(mover, labels, short=short)}"
    return " ┊ ".join(each for each in (ranking, since, graded_text(view)) if each)


def graded_text(view: SignalsView) -> str:
    """Which step states and ranking are of, where the curves are ahead of them, be it by records of that step."""
    if view.ungraded and view.graded == view.step:
        return "newest records not graded"
    return "" if view.graded == view.step else f"graded @{'–' if view.graded is None else view.graded}"


def tokens_text(view: SignalsView, *, short: bool = False) -> str:
    """Whose numbers the lanes of tokens show."""
    if view.tokens_share is None:
        if short:
            return "~ the trainer's own"
        return "~ the trainer's own numbers: the tokens are not read yet"
    if view.tokens_share < 1:
        return f"the tokens of {number_text(view.tokens_share, 'share')} of the turns are read so far"
    return ""


def alerts_count(view: SignalsView) -> str:
    """How many alerts there are."""
    return UNTOLD if view.newest_turns is not None else str(len(view.alerts) or "none")


def others_text(others: OtherFaults) -> str:
    """Faults that stand in no lane, and where they are listed; nothing where there are none."""
    counted = ((others.breaks, "with a prefix break"), (others.drift, "with retokenization drift"))
    told = [f"{many} turn{'s' if many > 1 else ''} {what}" for many, what in counted if many]
    return f"{', '.join(told)}: 5 lists the sessions" if told else ""


def untrainable_text(untrainable: Untrainable) -> str:
    """The share of turns that nobody can train on, by reason."""
    if untrainable.share is None:
        return "untrainable n/d"
    share = f"untrainable {untrainable.untrainable} of {untrainable.turns} turns"
    share += f" ({number_text(untrainable.share, 'share')})"
    reasons = ", ".join(f"{reason} {count}" for reason, count in untrainable.reasons[:4])
    return f"{share}: {reasons}" if reasons else share


def log_text(line: LogLine, *, dated: bool = False) -> str:
    """One event."""
    at = f"{line.at:%Y-%m-%d %H:%M:%SZ}" if dated else f"{line.at:%H:%M:%S}"
    place = "" if line.session_id is None else f"{session_text(line.session_id)} turn {line.turn or '–'}"
    text = beginning(line.text or line.kind)
    words = (at, LETTERS[line.severity], line.actor or "–", line.adapter or "", place, text)
    return " ".join(each for each in words if each)


def _ways(lane: Lane) -> Iterator[str]:
    """Where to look, where the check names no place: whole, to be given to `--session`, `--turn` and `--token`."""
    if lane.lead is None or lane.onset is None:
        return
    yield f"  {lane.lead}{':' if lane.faults else ''}"
    for fault in lane.faults[:WAYS]:
        value = "" if fault.place.value is None else f"  {fault.place.value:+.3g}"
        yield f"    {place_text(fault.place, short=False)}{value}  {fault.text or ''}".rstrip()


def _adapter(view: SignalsView) -> str:
    name = view.adapter or "no adapter"
    others = f", one of {len(view.adapters)}" if len(view.adapters) > 1 else ""
    step = "no step" if view.step is None else f"step {view.step}"
    over = "" if view.window is None else f", over {view.window}"
    return f"SIGNALS  {name}{others}, {step}{over}"


def _lane(lane: Lane) -> str:
    word = lane.word or SIGNS[lane.state].word
    mark = "~" if lane.provisional else ""
    parts = [f"{SIGNS[lane.state].glyph} {word:<8} {lane.label:<9} {mark}{compact(lane.newest)} {lane.unit}{_of(lane)}"]
    parts += _judged(lane)
    parts += [f"{part.name} {compact(part.newest)} (worst {compact(part.worst)})" for part in lane.parts]
    parts.append(_onset(lane))
    return "  ".join(parts)


def _of(lane: Lane) -> str:
    """Which step the lead value is of, or what the check made of all."""
    if lane.newest_step is not None:
        return f" @{lane.newest_step}"
    return "" if lane.verdict is None else f" ({lane.verdict.of})"


def _judged(lane: Lane) -> Iterator[str]:
    """The worst, and the check's own number where the lead value is of a step, each with its limit."""
    sign = "<" if lane.below else ">"
    if lane.worst is not None:
        yield f"{lane.worst_word} {compact(lane.worst)}"
    verdict = lane.verdict
    if verdict is not None and lane.newest_step is not None:
        unit = "" if lane.limit is not None or verdict.warn is None else f" {verdict.unit}"
        limit = "" if lane.limit is not None or verdict.warn is None else f" limit {sign}{compact(verdict.warn)}"
        yield f"check {compact(verdict.value)}{unit} ({verdict.of}){limit}"
    if lane.limit is not None:
        yield f"limit {sign}{compact(lane.limit)}"


def _onset(lane: Lane) -> str:
    onset = lane.onset
    if onset is None:
        return "n/d" if lane.newest is None else "steady" if lane.baseline else "too few for a baseline"
    tie = " tie" if onset.tie else ""
    between = f"{onset.last}" if onset.first == onset.last else f"{onset.first} to {onset.last}"
    return f"#{onset.rank}{tie} @{between}" + (f" {onset.at}" if onset.at else "")


def lane_lines(lane: Lane) -> Iterator[str]:
    """One lane for the clipboard: its line and its numbers."""
    yield _lane(lane)
    yield f"  {lane.check} {lane.status}: {lane.why}"
