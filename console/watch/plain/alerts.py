"""The alerts screen as lines."""

from collections.abc import Iterator

from collector.terminal_text import terminal_safe
from console.format import number_text
from console.watch.plain.alert_text import counts_text, evaluator_text, line_text
from console.watch.views.alerts import AlertDetail, AlertsView, Group
from console.watch.views.place import place_text
from console.watch.widgets.palette import SIGNS


def plain_alerts(view: AlertsView, width: int) -> list[str]:
    """Counts, every group, and the chosen alert; long lines are left to the reader's terminal."""
    del width
    lines = [f"ALERTS  {counts_text(view)}", evaluator_text(view)]
    if not view.groups:
        lines.append("no alert")
    for group in view.groups:
        lines += ["", *_group(group)]
    if view.detail is not None:
        lines += ["", *_detail(view.detail)]
    return [terminal_safe(line) for line in lines]


def group_text(group: Group) -> str:
    """The title of a group: its number, what moved first, how many, since when."""
    count = f"{len(group.alerts)} alert{'' if len(group.alerts) == 1 else 's'}"
    if group.incident is None:
        return f"{group.title}, {count}"
    begun = "" if group.began_at is None else f", started {group.began_at:%Y-%m-%d %H:%M:%SZ}"
    return f"incident {group.incident}  first {group.title}, {count}{begun}"


def _group(group: Group) -> Iterator[str]:
    yield group_text(group)
    for line in group.alerts:
        yield f"  {SIGNS[line.state].glyph} {line_text(line)}"


def _detail(detail: AlertDetail) -> Iterator[str]:
    yield f"ALERT {detail.line.rule}: {line_text(detail.line)}"
    yield from detail_lines(detail)


def detail_lines(detail: AlertDetail) -> Iterator[str]:
    """Rule, reading, evidence and timeline."""
    if detail.first_mover:
        yield f"first mover  {detail.first_mover}"
    if detail.defines:
        yield f"rule   threshold {detail.defines}"
    if detail.reads:
        yield f"reads  {detail.reads}"
    for index, next_one in enumerate(detail.check_next):
        yield f"{'next ' if index == 0 else '     '}  {next_one}"
    yield ""
    many = f"{len(detail.evidence)} of {detail.evidence_total}"
    said = "what else the check found is not read here" if detail.evidence_total is None else many
    yield f"EVIDENCE (worst first, {detail.evidence_of}; {said})"
    for index, fault in enumerate(detail.evidence, 1):
        value = "" if fault.place.value is None else number_text(fault.place.value)
        lag = "" if fault.lag is None else f"lag {fault.lag}"
        said = (place_text(fault.place), fault.place.adapter or "", lag, fault.place.kind or "", fault.text or value)
        yield f"  {index:>2}  " + "  ".join(each for each in said if each)
    yield ""
    yield "TIMELINE"
    for moment in detail.timeline:
        who = f" by {moment.who}" if moment.who else ""
        text = f": {moment.text}" if moment.text else ""
        yield f"  {moment.at:%Y-%m-%d %H:%M:%SZ}  {moment.what}{who}{text}"
