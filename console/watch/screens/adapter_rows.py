"""The adapters view as rows: the table, the pane of one adapter, its timeline, the audit."""

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from console.format import number_text
from console.watch.frame.row import Part
from console.watch.plain.adapters import fleet_text, row_text
from console.watch.plain.alert_text import age_text
from console.watch.views.adapter_versions import Gate, Mark
from console.watch.views.adapters import AdapterDetail, AdapterLine, AdaptersView, State
from console.watch.views.cycle_progress import CycleProgress
from console.watch.widgets.palette import Palette
from console.watch.widgets.palette import State as Sign
from console.watch.widgets.table import Cell, Column
from trainer.gate.report import Criterion, Status

COLUMNS = (
    Column("adapter", "adapter", 14),
    Column("live", "live", 5, right=True),
    Column("candidate", "cand", 10),
    Column("traffic", "traf", 6, right=True),
    Column("gates", "gates", 11),
    Column("score", "score", 6, right=True),
    Column("state", "state", 11),
    Column("age", "age", 5, right=True),
    Column("tenant", "tenant", 12, wide=True),
    Column("base", "base", 24, wide=True),
)
_NARROW = ("traffic", "score", "age")
"""Columns that a narrow terminal shows in wide mode only."""
WORKERS = 5
"""Workers that are shown one by one."""
SIGNS: dict[State, Sign] = {
    "live": "ok",
    "held": "critical",
    "canary": "pending",
    "gate": "recovering",
    "candidate": "acked",
    "rejected": "error",
    "parked": "no_data",
    "broken": "error",
}
"""A state of an adapter and the sign that its word stands beside."""
_GATE: dict[Status, str] = {"pass": "yes", "refuse": "no", "inconclusive": "unsure", "no_data": "middot"}
_TIMELINE: dict[Mark, tuple[str, str]] = {
    "live": ("◉", "(*)"),
    "was_live": ("●", "*"),
    "retired": ("●", "*"),
    "candidate": ("◇", "<>"),
    "canary": ("◆", "<c>"),
    "rejected": ("✗", "x"),
    "rolled_back": ("↩", "<-"),
}


def columns_for(width: int) -> list[Column]:
    """The columns that a terminal has room for."""
    return [each._replace(wide=each.wide or (width < 80 and each.key in _NARROW)) for each in COLUMNS]


def table_row(line: AdapterLine, at: datetime, palette: Palette) -> list[Cell | str]:
    """One adapter in the table."""
    missing, arrow = palette.mark("missing"), palette.mark("arrow")
    sign = SIGNS[line.state]
    share = "" if line.canary_share is None else f" {100 * line.canary_share:.0f}%"
    return [
        Cell(line.adapter),
        missing if line.live is None else f"v{line.live}",
        missing if line.candidate is None else f"{arrow} v{line.candidate}{share}",
        missing if line.traffic is None else f"{100 * line.traffic:.1f}%",
        gate_text(line, palette),
        _score_text(line.gate, palette),
        Cell(f"{palette.glyph(sign)} {line.state.upper()}", sign),
        missing if line.live_since is None else age_text((at - line.live_since).total_seconds()),
        line.tenant,
        line.base_model.rpartition("/")[2],
    ]


def gate_text(line: AdapterLine, palette: Palette) -> str:
    """The criteria of a report, a mark each; one that is not the candidate's names its version."""
    gate = line.gate
    if gate is None:
        return palette.mark("missing")
    marks = "".join(criterion_mark(each.status, palette) for each in gate.criteria) or "n/d"
    return marks if gate.version == line.candidate else f"v{gate.version} {marks}"


def criterion_mark(status: Status, palette: Palette) -> str:
    """The mark of one criterion; the shapes differ, not only the colours."""
    name = _GATE[status]
    return "?" if name == "unsure" else palette.mark(name)


def _score_text(gate: Gate | None, palette: Palette) -> str:
    """What the held-out score changed by."""
    score = None if gate is None else next((each for each in gate.criteria if each.name == "score"), None)
    if score is None or score.difference is None:
        return palette.mark("missing")
    return f"{score.difference:+.2f}"


def wrapped(rows: Iterable[Sequence[Part]], width: int) -> Iterator[Sequence[Part]]:
    """The rows with those of a single part wrapped to a width; what continues one is indented."""
    for row in rows:
        if len(row) != 1 or len(row[0].text) <= width:
            yield row
            continue
        indent = " " * (len(row[0].text) - len(row[0].text.lstrip()) + 2)
        for line in textwrap.wrap(row[0].text, width, subsequent_indent=indent):
            yield [row[0]._replace(text=line)]


def detail_rows(view: AdaptersView, detail: AdapterDetail, palette: Palette) -> Iterator[list[Part]]:
    """The pane of one adapter: what is live, the gate number by number, proofs, sessions, why it is held."""
    line = detail.line
    for version in detail.versions:
        if version.version in (line.live, line.candidate):
            word = "live" if version.version == line.live else "cand"
            sha = "" if version.sha256 is None else f" sha {version.sha256[:4]}…{version.sha256[-2:]}"
            yield _said(f"{word} v{version.version}{sha}  step {_or(version.optimizer_step, palette)}", palette)
    yield _said(f"base {line.base_model.rpartition('/')[2]}  tenant {line.tenant}", palette)
    if line.reason is not None:
        by = f" by {line.held_by}" if line.held_by else ""
        yield [Part(f"{line.state.upper()}{by}: {line.reason}", palette.bold)]
    yield []
    yield from _gate_rows(line, palette)
    yield [Part("PROOFS", palette.bold)]
    for proof in detail.proofs[:6]:
        verdict = proof.verdict or "n/d"
        mark = palette.mark("yes") if verdict == "proved" else palette.mark("no") if verdict == "refuted" else "?"
        worker = (proof.worker or "").removeprefix("http://")
        yield _said(f" {mark} v{proof.version} {proof.kind} {verdict} {worker} {proof.at:%H:%M}", palette)
    if not detail.proofs:
        yield _said(" – none was recorded", palette)
    yield []
    yield from _session_rows(detail, palette)
    yield from _worker_rows(view, palette)
    for offer in detail.offers:
        if offer.action == "rollback" and offer.version is not None:
            yield _said(f"rollback target: v{offer.version}", palette)
    yield _said(f"registry revision {view.revision}", palette)


def _gate_rows(line: AdapterLine, palette: Palette) -> Iterator[list[Part]]:
    gate = line.gate
    if gate is None:
        judged = "has judged nothing" if line.candidate is None else f"has not judged v{line.candidate}"
        yield [Part("GATE", palette.bold), Part(palette.said(f"  – {judged}"))]
        yield []
        return
    yield [Part(f"GATE v{gate.version}  {(gate.verdict or 'unreadable').upper()}", palette.bold)]
    for number, each in enumerate(gate.criteria, 1):
        yield _said(f" {number} {each.name:<14} {criterion_mark(each.status, palette)} {criterion_text(each)}", palette)
    for reason in gate.reasons:
        yield _said(f" {reason}", palette)
    yield []


def criterion_text(criterion: Criterion) -> str:
    """Got and needed, with the number of tasks; the sentence where there is no number."""
    if criterion.difference is None:
        return criterion.text
    need = "" if criterion.limit is None else f" need >{criterion.limit:+.3g}"
    bound = "" if criterion.lower_bound is None else f" low {criterion.lower_bound:+.3g}"
    tasks = "" if criterion.tasks is None else f" n={criterion.tasks}"
    against = "" if criterion.against is None else f" vs v{criterion.against}"
    return f"{criterion.difference:+.3g}{bound}{need}{tasks}{against}"


def _session_rows(detail: AdapterDetail, palette: Palette) -> Iterator[list[Part]]:
    yield [Part(f"SESSIONS ON LIVE v{detail.line.live}", palette.bold)]
    share = "" if detail.session_share is None else f" ({number_text(detail.session_share, 'share')} of all open)"
    yield _said(f" {detail.sessions} open{share}", palette)
    for route in detail.routes:
        yield _said(f" new sessions: {number_text(route.share, 'share')} to v{route.version}", palette)
    tokens = detail.tokens
    yield _said(
        f" {number_text(tokens.turns, 'turns')}, tokens: prompt {_or(tokens.prompt, palette)}, "
        f"cached {_or(tokens.cached, palette)}, completion {_or(tokens.completion, palette)}",
        palette,
    )
    cost = palette.mark("missing") if detail.cost is None else number_text(detail.cost)
    yield _said(f" cost {cost} ([collector.prices])", palette)
    yield []


def _worker_rows(view: AdaptersView, palette: Palette) -> Iterator[list[Part]]:
    yield [Part("WORKERS", palette.bold)]
    if not view.workers:
        yield _said(" – no collector has said", palette)
    if view.workers_unreadable:
        yield _said(f" {palette.mark('no')} {view.workers_unreadable} records of workers cannot be read", palette)
    if view.fleet is not None:
        yield _said(f" {fleet_text(view.fleet)}", palette)
    for each in view.workers[:WORKERS]:
        state = palette.mark("yes") if each.fault is None else palette.mark("no")
        loaded = palette.mark("missing") if each.loaded is None else str(len(each.loaded))
        name = each.worker.removeprefix("http://")
        yield _said(f" {state} {name}  slots {loaded} of {_or(each.slots, palette)}  {each.at:%H:%M:%S}", palette)
        if each.fault is not None:
            yield _said(f"   {each.fault}", palette)
            continue
        yield _said(
            f"   turns {_or(each.turns, palette)}, running {_number(each.running, palette)}, "
            f"waiting {_number(each.waiting, palette)}, KV {_share(each.kv_usage, palette)}, "
            f"cache {_share(each.cache_hit_rate, palette)}, accepted {_share(each.accept_rate, palette)}, "
            f"{_number(each.tokens_per_second, palette)} tokens/s",
            palette,
        )
    if len(view.workers) > WORKERS:
        yield _said(f" and {len(view.workers) - WORKERS} less busy", palette)
    yield []


def timeline_rows(detail: AdapterDetail, width: int, palette: Palette) -> Iterator[list[Part]]:
    """The newest versions that fit, oldest at the left: number, mark, time, held-out score."""
    cell = 8
    shown = detail.versions[-max(1, (width - 10) // cell) :]
    dash = palette.mark("rule")
    marks = [_TIMELINE[each.mark][1 if palette.ascii else 0] for each in shown]
    yield _said(" " * 10 + "".join(f"v{each.version}".center(cell) for each in shown), palette)
    yield [Part(" " * 10 + "".join(mark.center(cell, dash) for mark in marks))]
    yield _said(" " * 10 + "".join(f"{each.created_at:%H:%M}".center(cell) for each in shown), palette)
    scores = [palette.mark("missing") if each.score is None else f"{each.score:.2f}" for each in shown]
    yield _said("  eval    " + "".join(score.center(cell) for score in scores), palette)
    legend = [f"{_TIMELINE[mark][1 if palette.ascii else 0]} {mark.replace('_', ' ')}" for mark in _marks(detail)]
    yield [Part("  " + "  ".join(legend), palette.dim)]


def _marks(detail: AdapterDetail) -> list[Mark]:
    return [*dict.fromkeys(each.mark for each in detail.versions)]


def audit_rows(view: AdaptersView, palette: Palette) -> Iterator[list[Part]]:
    """Who changed what, newest first."""
    for row in view.audit:
        yield _said(f" {row_text(row.at, row.action, row.version, row.outcome, row.actor, row.reason)}", palette)


def cycle_parts(cycle: CycleProgress | None, palette: Palette) -> list[Part]:
    """The stages of the newest cycle in one row: done, at work, waiting."""
    if cycle is None:
        return _said(" CYCLE  none has begun", palette)
    marks = {"waits": "○", "begun": "▷", "done": "●", "failed": "✗", "ended": "■"}
    plain = {"waits": "o", "begun": ">", "done": "*", "failed": "x", "ended": "#"}
    shown = plain if palette.ascii else marks
    stages = " ".join(f"{each.stage}{shown[each.state]}" for each in cycle.stages if each.stage != "prune")
    state = f"ended {cycle.ended_at:%H:%M}" if cycle.ended_at is not None else f"since {cycle.began_at:%H:%M}"
    waiting = "" if cycle.new_feedback is None else f"  {cycle.new_feedback} new feedback"
    return [Part(f" CYCLE {cycle.number} ", palette.bold), *_said(f"{stages}  {state}{waiting}", palette)]


def _said(text: str, palette: Palette) -> list[Part]:
    return [Part(palette.said(text))]


def _or(number: int | None, palette: Palette) -> str:
    return palette.mark("missing") if number is None else f"{number:,}"


def _number(number: float | None, palette: Palette) -> str:
    return palette.mark("missing") if number is None else number_text(number)


def _share(share: float | None, palette: Palette) -> str:
    return palette.mark("missing") if share is None else number_text(share, "share")
