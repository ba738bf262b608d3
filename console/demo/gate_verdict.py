"""What the gate said of a version, read from the registry: held-out scores before and after, with the bound."""

from pathlib import Path

import msgspec

from collector.store.registry_rows import read_registry
from trainer.adapter_standing import standing


class Compared(msgspec.Struct, frozen=True):
    """One criterion of a gate report, as far as the demo shows it."""

    name: str
    status: str
    text: str = ""
    against: int | None = None
    candidate: float | None = None
    other: float | None = None
    difference: float | None = None
    lower_bound: float | None = None


class GateVerdict(msgspec.Struct, frozen=True):
    """A gate report, as far as the demo shows it."""

    verdict: str
    reasons: tuple[str, ...] = ()
    criteria: tuple[Compared, ...] = ()
    live: int | None = None

    @property
    def score(self) -> Compared | None:
        """The held-out score against the live version's."""
        return next((each for each in self.criteria if each.name == "score" and each.against == self.live), None)


def read_verdict(store: Path, adapter: str, version: int | None) -> GateVerdict | None:
    """What the gate said of a version; None where it was not asked."""
    known = [each for each in read_registry(store).versions if (each.adapter, each.version) == (adapter, version)]
    return msgspec.convert(known[0].gate, GateVerdict) if known and known[0].gate else None


def live_version(store: Path, adapter: str) -> int:
    """The version that new sessions go to; 0 while the adapter is not registered."""
    registry = read_registry(store)
    known = any(each.adapter == adapter for each in registry.adapters)
    return standing(registry, adapter).live.version if known else 0


def verdict_line(verdict: GateVerdict) -> str:
    """In a line: before, after, and the lower bound of the difference."""
    score = verdict.score
    if score is None or score.other is None or score.candidate is None:
        return verdict.verdict
    bound = "" if score.lower_bound is None else f", at least {score.lower_bound:+.2f}"
    return (
        f"{verdict.verdict}: held-out {score.other:.2f} → {score.candidate:.2f} ({score.difference or 0.0:+.2f}{bound})"
    )
