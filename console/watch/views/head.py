"""What the first rows of every screen say: the deployment, its versions, and how many alerts there are."""

import msgspec
import polars as pl

from console.watch.adapter_names import adapter_names
from console.watch.held import Held
from console.watch.kept import Kept
from console.watch.topic import Ask, OpenLog, View, of_part
from console.watch.views.alert_board import alert_counts
from console.watch.widgets.palette import STATES, State

NEWEST = 1000
"""Turns that are looked at for the name of the base model."""
_KEPT: Kept[list[str]] = Kept()


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """How many alerts are in a state."""

    state: State
    count: int


class HeadView(View, frozen=True, kw_only=True):
    """Row 1 and the counts in row 2."""

    name: str
    base_model: str | None
    adapters: int
    """How many adapters have been seen; narrowed to one, 1."""
    known: tuple[str, ...]
    """Every adapter that a record names, whatever time is shown; none where only a part of a log was read."""
    adapter: str | None
    """The one adapter there is, or that was asked for."""
    live: int | None
    """Its version that serves; None when there is none or more than one adapter."""
    candidate: int | None
    turns: int
    """How many there are."""
    step: int | None
    """The newest optimizer step."""
    alerts: tuple[Tally, ...]
    damage: tuple[str, ...]
    """Lines of what could not be read."""


def build_head(held: Held, ask: Ask, _log: OpenLog) -> HeadView:
    """The head of what is held; of a part of a log only what is so of all of it."""
    if held.source.part is not None:
        return HeadView(
            name=_name(held),
            base_model=_base_model(held),
            adapters=0,
            known=(),
            adapter=ask.adapter,
            live=None,
            candidate=None,
            turns=held.turns.height,
            step=None,
            alerts=(),
            damage=(),
        )
    names = _adapters(held) if ask.adapter is None else [ask.adapter]
    only = names[0] if len(names) == 1 else None
    counts = alert_counts(held)
    steps = held.steps if ask.adapter is None else held.steps.filter(pl.col("adapter") == ask.adapter)
    return HeadView(
        name=_name(held),
        base_model=_base_model(held),
        adapters=len(names),
        known=adapter_names(held),
        adapter=only,
        live=_version(held, only, "live"),
        candidate=_version(held, only, "candidate", "canary"),
        turns=held.turns.height,
        step=None if steps.is_empty() else steps["step"].max(),  # pyright: ignore[reportArgumentType]
        alerts=tuple(Tally(state=state, count=count) for state in STATES if (count := counts.get(state))),
        damage=held.damage,
    )


def _name(held: Held) -> str:
    return held.source.path.rstrip("/").rpartition("/")[2] or held.source.path


def _adapters(held: Held) -> list[str]:
    """Every adapter of the registry; of a log, every one that a record names."""
    if held.registry is not None:
        return sorted(adapter.adapter for adapter in held.registry.adapters)
    frames = (held.turns, held.steps, held.versions)
    return _KEPT.of(frames, lambda: sorted({*_names(held.turns), *_names(held.steps), *_names(held.versions)}))


def _names(frame: pl.DataFrame) -> list[str]:
    return frame["adapter"].drop_nulls().unique().to_list()


def _base_model(held: Held) -> str | None:
    """Of the newest turns that say it."""
    known = held.turns["base_model"].tail(NEWEST).drop_nulls()
    return None if known.is_empty() else known[-1]


def _version(held: Held, adapter: str | None, *states: str) -> int | None:
    if adapter is None or held.registry is None:
        return None
    found = [v.version for v in held.registry.versions if v.adapter == adapter and v.state in states]
    return max(found, default=None)


TOPIC = of_part("head", build_head, tells_ages=True)
