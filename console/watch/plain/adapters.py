"""The Adapters screen as lines of text."""

import textwrap
from collections.abc import Iterator
from datetime import datetime

from collector.terminal_text import terminal_safe
from console.adapters_text import age_text
from console.format import number_text
from console.watch.views.adapter_versions import Gate
from console.watch.views.adapters import AdapterDetail, AdapterLine, AdaptersView
from console.watch.views.cycle_progress import CycleProgress
from console.watch.views.worker_lines import Fleet, WorkerLine

MARKS = {"pass": "✓", "refuse": "✗", "inconclusive": "?", "no_data": "·"}
"""A gate's criterion in one character."""
_SHOWN_AUDIT = 12


def plain_adapters(view: AdaptersView, width: int) -> list[str]:
    """The whole screen, no line longer than `width`."""
    lines = [f"registry revision {view.revision}", cycle_text(view.cycle)]
    if not view.adapters:
        return _cut([*lines, "no adapters yet; roundhouse adapters add makes one"], width)
    for line in view.adapters:
        lines += ["", *_adapter(line, view.at)]
    if view.selected is not None:
        lines += ["", f"{view.selected.line.adapter} in full", *_detail(view.selected)]
    lines += ["", f"workers: {fleet_text(view.fleet)}"] if view.fleet is not None else []
    lines += ["", *(_worker(each) for each in view.workers)] if view.workers else []
    lines += [f"{view.workers_unreadable} records of workers cannot be read"] if view.workers_unreadable else []
    lines += ["", "changes, newest first"]
    lines += [
        f"  {row_text(row.at, row.action, row.version, row.outcome, row.actor, row.reason)}" for row in view.audit
    ]
    return _cut(lines, width)


def cycle_text(cycle: CycleProgress | None) -> str:
    """The newest cycle in one line."""
    if cycle is None or cycle.ended_at is None:
        since = "" if cycle is None else f", since {cycle.began_at:%H:%M:%SZ}"
        return f"{cycle_outcome(cycle)}{since}"
    waiting = "" if cycle.new_feedback is None else f"; {cycle.new_feedback} new feedback since it began"
    return f"{cycle_outcome(cycle)}, at {cycle.ended_at:%H:%M:%SZ}{waiting}"


def cycle_outcome(cycle: CycleProgress | None) -> str:
    """How the newest cycle ended for each adapter, or where it is and why it began."""
    if cycle is None:
        return "cycle: none has begun"
    if cycle.ended_at is not None:
        endings = ", ".join(f"{name} {ending.replace('_', ' ')}" for name, ending in cycle.endings.items())
        return f"cycle {cycle.number} ended: {endings or 'nothing to do'}"
    at = [each for each in cycle.stages if each.state != "waits"]
    stage = max(at, key=lambda each: each.at or cycle.began_at, default=None)
    where = "begun" if stage is None else f"{stage.stage} {stage.state}{f' ({stage.adapter})' if stage.adapter else ''}"
    return f"cycle {cycle.number}: {where}; why it began: {cycle.started_by}"


def gate_marks(gate: Gate) -> str:
    """The criteria of a report, a character each, in its order."""
    return "".join(MARKS[each.status] for each in gate.criteria) or "n/d"


def row_text(at: datetime, action: str, version: int | None, outcome: str, actor: str, reason: str) -> str:
    """One change of the registry."""
    about = [action.replace("_", " "), *([] if version is None else [f"@{version}"]), *([outcome] if outcome else [])]
    return f"{at:%Y-%m-%d %H:%M:%SZ}  {' '.join(about)}  by {actor}: {reason}"


def _adapter(line: AdapterLine, at: datetime) -> Iterator[str]:
    age = "" if line.live_since is None else f" for {age_text((at - line.live_since).total_seconds())}"
    live = "no live version" if line.live is None else f"live @{line.live}{age}"
    yield f"{line.adapter} of {line.tenant}, on {line.base_model}: {line.state.upper()}, {live}"
    if line.candidate is not None:
        share = "" if line.canary_share is None else f", a canary with {number_text(line.canary_share, 'share')}"
        yield f"  candidate @{line.candidate}{share}"
    if line.gate is None and line.candidate is not None:
        yield f"  gate of @{line.candidate}: not judged"
    elif line.gate is not None:
        yield f"  gate of @{line.gate.version}: {line.gate.verdict or 'unreadable'} {gate_marks(line.gate)}"
    yield f"  traffic: {'n/d' if line.traffic is None else number_text(line.traffic, 'share')} of the last 10 min"
    if line.reason is not None:
        yield f"  {'held by ' + line.held_by + ': ' if line.held_by else ''}{line.reason}"


def _detail(detail: AdapterDetail) -> Iterator[str]:
    share = "" if detail.session_share is None else f", {number_text(detail.session_share, 'share')} of all"
    tenants = ", ".join(detail.tenants) or "–"
    yield f"  open sessions on @{detail.line.live}: {detail.sessions}{share}; tenants: {tenants}"
    best = "" if detail.best == detail.line.live else f" and with the best one, @{detail.best}"
    pinned = f"; @{detail.best} is pinned" if detail.pinned else ""
    yield f"  the gate compares a candidate with the live @{detail.line.live}{best}{pinned}"
    for route in detail.routes:
        yield f"  new sessions: {number_text(route.share, 'share')} to @{route.version}"
    tokens = detail.tokens
    told = ", ".join(
        f"{name} {_or(count)}"
        for name, count in (("prompt", tokens.prompt), ("cached", tokens.cached), ("completion", tokens.completion))
    )
    yield f"  tokens of {number_text(tokens.turns, 'turns')}: {told}; cost {_or(detail.cost)} ([collector.prices])"
    for version in detail.versions:
        score = "n/d" if version.score is None else number_text(version.score)
        yield (
            f"  @{version.version} {version.mark.replace('_', ' ')}, step {version.optimizer_step}, gate "
            f"{version.verdict or '–'}, held-out {score}, trained on {number_text(version.trained_turns, 'turns')}"
        )
    if (gate := detail.line.gate) is not None:
        for criterion in gate.criteria:
            yield f"  gate of @{gate.version}: {MARKS[criterion.status]} {criterion.name}: {criterion.text}"
    for proof in detail.proofs:
        where = f" on {proof.worker}" if proof.worker else ""
        yield f"  {proof.kind} of @{proof.version}{where}: {proof.verdict or 'n/d'} at {proof.at:%H:%M:%SZ}"
    for offer in detail.offers:
        about = offer.action if offer.version is None else f"{offer.action} @{offer.version}"
        yield f"  {about}: {'possible' if offer.refused is None else f'not possible: {offer.refused}'}"


def fleet_text(fleet: Fleet) -> str:
    """All workers in one line, each mean or sum with its worst."""
    unreached = f", {fleet.unreached} not reached" if fleet.unreached else ""
    return (
        f"{fleet.answering} answer{unreached}: turns {_or(fleet.turns)} (most {_or(fleet.turns_most)}), waiting "
        f"{_or(fleet.waiting)} (most {_or(fleet.waiting_most)}), KV mean {_or(fleet.kv_mean, 'share')} max "
        f"{_or(fleet.kv_max, 'share')}, cache mean {_or(fleet.cache_mean, 'share')} min "
        f"{_or(fleet.cache_min, 'share')}, {_or(fleet.tokens_per_second)} tokens/s (least "
        f"{_or(fleet.tokens_per_second_least)})"
    )


def _worker(line: WorkerLine) -> str:
    loaded = "n/d" if line.loaded is None else ", ".join(line.loaded) or "none"
    if line.fault is not None:
        return f"worker {line.worker}: {line.fault}, at {line.at:%H:%M:%SZ}"
    return (
        f"worker {line.worker}: answers; turns {_or(line.turns)}; loaded {loaded} of {_or(line.slots)} slots; waiting "
        f"{_or(line.waiting)}; KV {_or(line.kv_usage, 'share')}; cache {_or(line.cache_hit_rate, 'share')}; "
        f"accepted {_or(line.accept_rate, 'share')}, at {line.at:%H:%M:%SZ}"
    )


def _or(number: float | None, unit: str = "") -> str:
    return "n/d" if number is None else number_text(number, unit)


def _cut(lines: list[str], width: int) -> list[str]:
    return [
        part
        for line in lines
        for part in textwrap.wrap(
            terminal_safe(line), width, subsequent_indent="    ", drop_whitespace=True, replace_whitespace=False
        )
        or [""]
    ]
