"""The sheet of a plan: named quantities with units in sections, every assumption, and one recommendation."""

from typing import Literal

import msgspec

from trainer.plan.devices import Device
from trainer.plan.model_shape import ModelShape
from trainer.plan.rollout_time import Drafting, Efficiency
from trainer.plan.update_time import Training
from trainer.plan.workload import Workload

Unit = Literal[
    "bytes",
    "bytes/s",
    "tokens",
    "tokens/s",
    "FLOPs",
    "FLOPs/byte",
    "s",
    "device s",
    "share",
    "times",
    "steps",
    "count",
    "",
]


class Quantity(msgspec.Struct, frozen=True):
    """One line: a name for programs, a label for people, a value with its unit, and how it came about."""

    name: str
    label: str
    value: float | int | str | None
    """None where it does not apply, which the note then explains."""
    unit: Unit = ""
    note: str = ""


class Column(msgspec.Struct, frozen=True):
    """A column of a table."""

    name: str
    label: str
    unit: Unit


class Table(msgspec.Struct, frozen=True):
    """Alternatives side by side."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[float | int | str, ...], ...]


class Section(msgspec.Struct, frozen=True):
    """One question the sheet answers."""

    title: str
    quantities: tuple[Quantity, ...]
    table: Table | None = None


class Sheet(msgspec.Struct, frozen=True):
    """The whole plan."""

    title: str
    verdict: str
    sections: tuple[Section, ...]
    assumptions: tuple[str, ...]


class PlanInput(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a sheet is made from."""

    model: str
    """Name of the model, for the title."""
    shape: ModelShape
    device: Device
    devices: int
    workload: Workload
    appended: Workload | None
    """The same rollouts without compaction, where the workload compacts."""
    training: Training
    efficiency: Efficiency
    drafting: Drafting
    max_tokens: int
    """Longest context a rollout may reach: what a cache without surprises has room for."""
    link_bytes_per_s: float
    changed_share: float
    """Share of bf16 weights that differ after an optimizer step."""
    learning_rate: float
    seed: int
