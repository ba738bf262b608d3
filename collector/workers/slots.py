"""The adapter slots of the engine workers against what the registry wants loaded: base, live, candidate, draining."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from collector.records import Version
from collector.store.adapter_names import engine_name
from collector.workers.worker import Worker

_SERVED = ("live", "canary")


class Budget(NamedTuple):
    """One worker's slots; the base model has one of its own, which is not counted."""

    worker: str
    total: int | None
    """None when the worker does not say."""
    live: tuple[str, ...]
    """What users are served by, loaded there or not."""
    candidate: tuple[str, ...]
    """Loaded there and not decided about."""
    draining: tuple[str, ...]
    """Loaded there and retired or rejected: to be unloaded."""
    foreign: tuple[str, ...]
    """Loaded there and not of this registry."""

    @property
    def needed(self) -> int:
        """Slots for all of these."""
        return len(self.live) + len(self.candidate) + len(self.draining) + len(self.foreign)

    @property
    def fault(self) -> str | None:
        """Why what is live does not fit; None when it does, or when the worker does not say how much does."""
        if self.total is None or len(self.live) <= self.total:
            return None
        return (
            f"{len(self.live)} adapter versions are live ({', '.join(self.live)}) and {self.worker} keeps "
            f"{self.total}: the others are not served there; start it with more slots, or retire some"
        )

    @property
    def warning(self) -> str | None:
        """Why the next candidate would find no room; None when it would."""
        if self.total is None or self.fault is not None or self.needed < self.total:
            return None
        leaving = f", of them {', '.join(self.draining)} to be unloaded" if self.draining else ""
        return (
            f"{self.worker} has no adapter slot left for a candidate: {self.needed} of {self.total} are taken{leaving}"
        )


def served_folders(versions: Sequence[Version], store: Path) -> dict[str, Path]:
    """Engine name of each version that users are served by to its folder; those promoted last come last."""
    served = [version for version in versions if version.state in _SERVED and version.folder is not None]
    # First what has been serving for longest: where slots are short, it is the newcomer that is refused.
    ordered = sorted(served, key=lambda version: (version.changed_at, version.adapter, version.version))
    return {engine_name(each.adapter, each.version): store / (each.folder or "") for each in ordered}


def budget(worker: Worker, versions: Sequence[Version], loaded: Mapping[str, str]) -> Budget:
    """What a worker holds and has to hold."""
    states = {engine_name(each.adapter, each.version): each.state for each in versions if each.version}
    return Budget(
        worker=worker.url,
        total=worker.slots,
        live=tuple(sorted(name for name, state in states.items() if state in _SERVED)),
        candidate=tuple(sorted(name for name in loaded if states.get(name) == "candidate")),
        draining=tuple(sorted(name for name in loaded if states.get(name) in ("retired", "rejected"))),
        foreign=tuple(sorted(name for name in loaded if name not in states)),
    )
