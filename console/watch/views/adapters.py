"""The Adapters screen: every adapter as it stands, one of them in full, and the trainer's cycle."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

import msgspec
import polars as pl

from collector.config import PriceConfig
from collector.errors import UserError
from collector.records import Adapter, Audit
from collector.store.registry_rows import RegistrySnapshot
from console.watch.held import Held
from console.watch.topic import Ask, OpenLog, Topic, View
from console.watch.views.adapter_actions import Action, Offer, offers, sentence
from console.watch.views.adapter_list import listed
from console.watch.views.adapter_versions import (
    Gate,
    Proof,
    VersionLine,
    gate_of,
    proofs,
    version_lines,
)
from console.watch.views.cycle_progress import CycleProgress, cycle_progress
from console.watch.views.worker_lines import Fleet, WorkerLine, fleet, worker_lines
from trainer.adapter_standing import Standing, standing, tried_version
from trainer.blast_radius import open_sessions, served_of

State = Literal["live", "held", "canary", "gate", "candidate", "rejected", "parked", "broken"]
"""`live`: no version waits and turns come; `parked`: the same, and no turn came lately, be it that none came for any
adapter."""
TRAFFIC_S = 600.0
"""The traffic of so many seconds is what an adapter's share is of."""
AUDIT_ROWS = 50


class Facts(NamedTuple):
    """What the screen is made of."""

    registry: RegistrySnapshot
    audit: Sequence[Audit]
    """Oldest first."""
    turns: pl.DataFrame
    """`session_id, tenant, adapter, adapter_version, purpose, started_at` and the counts of tokens."""
    events: pl.DataFrame
    """`at, kind, adapter, version, text, detail` (JSON text), oldest first."""
    feedback: pl.DataFrame
    """`writer, seq`."""
    now: datetime
    prices: PriceConfig = PriceConfig()
    """Of a million tokens."""


class Counted(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens of an adapter's turns; None where no turn tells."""

    turns: int
    prompt: int | None
    cached: int | None
    completion: int | None


class AdapterLine(msgspec.Struct, frozen=True, kw_only=True):
    """One adapter in the table."""

    adapter: str
    tenant: str
    base_model: str
    state: State
    live: int | None
    """None where the registry names no live version, which `reason` explains."""
    live_since: datetime | None = None
    live_step: int | None = None
    candidate: int | None = None
    """The canary, else the newest candidate."""
    canary_share: float | None = None
    traffic: float | None = None
    """Its part of the turns of users in the last `TRAFFIC_S`; None where there were none of any adapter."""
    gate: Gate | None = None
    """The report on the candidate, None where it was not judged; without a candidate the newest report."""
    held_by: str | None = None
    reason: str | None = None
    """Why it is held, refused or broken."""


class RouteLine(msgspec.Struct, frozen=True, kw_only=True):
    """Where a part of the adapter's new sessions goes."""

    version: int
    share: float


class AdapterDetail(msgspec.Struct, frozen=True, kw_only=True):
    """One adapter in full."""

    line: AdapterLine
    versions: tuple[VersionLine, ...]
    proofs: tuple[Proof, ...]
    routes: tuple[RouteLine, ...]
    best: int
    pinned: bool
    sessions: int
    """Open sessions of users whose last turn the live version served."""
    tenants: tuple[str, ...]
    session_share: float | None
    tokens: Counted
    """Of all its turns that are held."""
    cost: float | None
    """Of those tokens at [collector.prices]; None where a kind of tokens that was used has no price."""
    offers: tuple[Offer, ...]
    effects: dict[Action, str]
    """What each action would do, in a sentence."""


class AuditLine(msgspec.Struct, frozen=True, kw_only=True):
    """One change of the registry."""

    revision: int
    at: datetime
    actor: str
    action: str
    adapter: str | None
    version: int | None
    outcome: str
    reason: str


class AdaptersView(View, frozen=True, kw_only=True):
    """The whole screen."""

    at: datetime
    revision: int
    """Of the registry; an action is decided at it."""
    adapters: tuple[AdapterLine, ...]
    """Those that meet the filter."""
    total: int
    """All of them."""
    selected: AdapterDetail | None
    cycle: CycleProgress | None
    workers: tuple[WorkerLine, ...]
    """Those that are not reached, then the busiest first."""
    fleet: Fleet | None
    """All of them, where there are several."""
    workers_unreadable: int
    """Records of engine workers that tell nothing that can be read."""
    audit: tuple[AuditLine, ...]
    """Newest first: of the selected adapter where there is one."""


def adapters_view(facts: Facts, selected: str | None, ask: Ask | None = None) -> AdaptersView:
    """The screen; `selected` is an adapter's name, the first one when not given, gone or filtered out."""
    ask = ask or Ask()
    registry = facts.registry
    cycle = cycle_progress(facts.events, facts.feedback)
    traffic = _traffic(facts)
    every = [_line(facts, known, traffic, cycle) for known in registry.adapters]
    lines = listed(every, filter=ask.filter, sort=ask.sort, descending=ask.descending)
    chosen = next((line for line in lines if line.adapter == selected), lines[0] if lines else None)
    workers = worker_lines(facts.events)
    about = [
        row for row in facts.audit if row.revision <= registry.revision and (chosen is None or _bears(row, chosen))
    ]
    return AdaptersView(
        at=facts.now,
        revision=registry.revision,
        adapters=lines,
        total=len(every),
        selected=None if chosen is None or chosen.live is None else _detail(facts, chosen),
        cycle=cycle,
        workers=workers.lines,
        fleet=fleet(workers.lines),
        workers_unreadable=workers.unreadable,
        audit=tuple(_audit_line(row) for row in reversed(about[-AUDIT_ROWS:])),
    )


def topic(prices: PriceConfig) -> Topic[Ask]:
    """The topic, with what tokens cost."""

    def build(held: Held, ask: Ask, log: OpenLog) -> AdaptersView:
        del log
        registry = held.registry if held.registry is not None else RegistrySnapshot(0, (), (), (), {})
        at = held.replayed_at or held.read_at
        facts = Facts(registry, held.audit, held.turns, held.events, held.feedback, at, prices)
        return adapters_view(facts, next(iter(ask.selected), ask.adapter), ask)

    return Topic("adapters", build, tells_ages=True)


TOPIC = topic(PriceConfig())


def _bears(row: Audit, line: AdapterLine) -> bool:
    return row.adapter in (line.adapter, None) and row.tenant in (line.tenant, None)


def _line(
    facts: Facts, known: Adapter, traffic: Mapping[str, float] | None, cycle: CycleProgress | None
) -> AdapterLine:
    adapter = known.adapter
    part = None if traffic is None else traffic.get(adapter, 0.0)
    try:
        now = standing(facts.registry, adapter)
    except UserError as error:
        return AdapterLine(
            adapter=adapter,
            tenant=known.tenant,
            base_model=known.base_model,
            state="broken",
            live=None,
            traffic=part,
            reason=str(error),
        )
    tried = tried_version(now)
    gate = gate_of(now, tried)
    state = _state(now, gate, part, cycle)
    return AdapterLine(
        adapter=adapter,
        tenant=known.tenant,
        base_model=known.base_model,
        state=state,
        live=now.live.version,
        live_since=now.live_since,
        live_step=now.live.optimizer_step,
        candidate=tried,
        canary_share=None if now.canary is None else now.canary[1],
        traffic=part,
        gate=gate,
        held_by=None if now.held is None else now.held.actor,
        reason=_reason(now, gate, state),
    )


def _state(now: Standing, gate: Gate | None, traffic: float | None, cycle: CycleProgress | None) -> State:
    """The one word for it: the gravest thing first."""
    if now.held is not None:
        return "held"
    if now.canary is not None:
        return "canary"
    if tried_version(now) is not None:
        return "gate" if _at_the_gate(cycle, now.adapter.adapter) else "candidate"
    newest = now.versions[-1]
    if newest.state == "rejected" and gate is not None and gate.version == newest.version:
        return "rejected"
    return "live" if traffic else "parked"


def _at_the_gate(cycle: CycleProgress | None, adapter: str) -> bool:
    if cycle is None or cycle.ended_at is not None:
        return False
    later = ("load", "prove", "evaluate", "gate")
    return any(each.stage in later and each.state == "begun" and each.adapter == adapter for each in cycle.stages)


def _reason(now: Standing, gate: Gate | None, state: State) -> str | None:
    if now.held is not None:
        return now.held.reason
    if state in ("rejected", "candidate", "canary") and gate is not None:
        return next(iter(gate.reasons), None)
    return None


def _traffic(facts: Facts) -> dict[str, float] | None:
    """Adapter to its part of the recent turns of users; None where there were none."""
    recent = facts.turns.filter(
        pl.col("purpose").is_in(["traffic", "canary"])
        & (pl.col("started_at") > facts.now - timedelta(seconds=TRAFFIC_S))
        & (pl.col("started_at") <= facts.now)
    )
    counted = recent.drop_nulls("adapter").group_by("adapter").len()
    return {name: turns / recent.height for name, turns in counted.iter_rows()} if recent.height else None


def _detail(facts: Facts, line: AdapterLine) -> AdapterDetail:
    now = standing(facts.registry, line.adapter)
    opened = open_sessions(facts.turns.filter(pl.col("started_at") <= facts.now), now=facts.now)
    served = served_of(opened, line.adapter, now.live.version)
    weight = sum(route.weight for route in now.routes)
    offered = offers(facts.registry, now)
    tokens = _counted(facts.turns.filter(pl.col("adapter") == line.adapter))
    return AdapterDetail(
        line=line,
        versions=version_lines(now),
        proofs=proofs(facts.events, line.adapter),
        routes=tuple(RouteLine(version=each.version, share=each.weight / weight) for each in now.routes),
        best=now.best,
        pinned=now.pinned is not None,
        sessions=served.sessions,
        tenants=served.tenants,
        session_share=served.share,
        tokens=tokens,
        cost=_cost(tokens, facts.prices),
        offers=offered,
        effects={each.action: sentence(each, now) for each in offered},
    )


def _counted(turns: pl.DataFrame) -> Counted:
    def total(name: str) -> int | None:
        told = turns[name].drop_nulls()
        return int(told.sum()) if len(told) else None

    return Counted(
        turns=turns.height,
        prompt=total("prompt_tokens"),
        cached=total("cached_tokens"),
        completion=total("completion_tokens"),
    )


def _cost(tokens: Counted, prices: PriceConfig) -> float | None:
    """Prompt tokens that the engine does not say it took from its cache count as computed."""
    if tokens.prompt is None or tokens.completion is None:
        return None
    cached = tokens.cached or 0
    counts = ((tokens.prompt - cached, prices.prompt), (cached, prices.cached), (tokens.completion, prices.completion))
    used = [(count, price) for count, price in counts if count]
    costs = [count * price / 1e6 for count, price in used if price is not None]
    return sum(costs) if len(costs) == len(used) else None


def _audit_line(row: Audit) -> AuditLine:
    return AuditLine(
        revision=row.revision,
        at=row.at,
        actor=row.actor,
        action=row.action,
        adapter=row.adapter,
        version=row.version,
        outcome=_outcome(row),
        reason=row.reason,
    )


def _outcome(row: Audit) -> str:
    """What of a change its action does not say."""
    detail = row.detail or {}
    if row.action == "change_state":
        return f"{detail.get('from')} to {detail.get('to')}"
    if row.action in ("promote", "rollback"):
        return f"from @{detail.get('from')}{', forced' if detail.get('forced') else ''}"
    if row.action == "record_gate":
        gate = detail.get("gate")
        return str(gate.get("verdict")) if isinstance(gate, dict) else ""  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
    return "undone" if row.action == "pin" and row.version is None else ""
