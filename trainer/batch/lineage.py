"""The line of versions that training continues from: how stale a version's turns are, and what was trained on."""

from bisect import bisect_right
from collections.abc import Iterable

from collector.errors import UserError
from collector.records import Version
from collector.store.adapter_names import engine_name
from collector.store.registry_rows import RegistrySnapshot


class Lineage:
    """One adapter's version to continue from and those before it, with the step that the weights stand at."""

    def __init__(
        self, registry: RegistrySnapshot, adapter: str, *, parent: Version | None = None, step: int | None = None
    ) -> None:
        """`parent` is the version training continues from, the newest live one unless given; `step` is its own."""
        self.adapter = adapter
        self._known = {version.version: version for version in registry.versions if version.adapter == adapter}
        start = parent or continued_from(registry, adapter)
        self.versions = tuple(self._ancestry(start))
        """The newest first; empty for an adapter that has no version yet."""
        own_step = self.versions[0].optimizer_step if self.versions else 0
        self.step = own_step or 0 if step is None else step
        """Optimizer step that the weights stand at."""
        for version in self.versions:
            self._refuse_later(version)
        self._steps = {each.version: each.optimizer_step or 0 for each in self.versions if _has_step(each)}
        # Before its first version an adapter is the base model.
        self._steps.setdefault(0, 0)
        self._trained = _merged(each for version in self.versions for each in version.trained_on)

    def knows(self, version: int) -> bool:
        """Whether the registry says at which step the version was saved."""
        return version in self._steps or (version in self._known and _has_step(self._known[version]))

    def holds(self, version: int) -> bool:
        """Whether the weights are a later state of this version."""
        return version in self._steps

    def staleness(self, version: int) -> int:
        """Optimizer steps from a version of the line to the weights; never negative."""
        return self.step - self._steps[version]

    def was_trained_on(self, writer: str, seq: int) -> bool:
        """Whether a version of the line was trained on this record."""
        ranges = self._trained.get(writer, [])
        at = bisect_right(ranges, (seq, 2**63)) - 1
        return at >= 0 and ranges[at][0] <= seq <= ranges[at][1]

    def _ancestry(self, version: Version | None) -> Iterable[Version]:
        while version is not None:
            yield version
            parent = version.parent
            if parent is not None and parent not in self._known:
                name = engine_name(self.adapter, parent)
                raise UserError(f"the registry has no {name}, the parent of version {version.version}; restore it")
            version = None if parent is None else self._known[parent]

    def _refuse_later(self, version: Version) -> None:
        if version.optimizer_step is not None and version.optimizer_step > self.step:
            name = engine_name(self.adapter, version.version)
            raise UserError(
                f"{name} was saved at optimizer step {version.optimizer_step}, but the "
                f"weights that continue from it are said to stand at {self.step}: its turns would have a negative "
                "staleness; continue from that version's own checkpoint"
            )


def continued_from(registry: RegistrySnapshot, adapter: str) -> Version | None:
    """The newest live version, else version 0; None for an adapter that is not registered."""
    known = [version for version in registry.versions if version.adapter == adapter]
    live = [version for version in known if version.state == "live"]
    return max(live or known[:1], key=lambda version: version.version, default=None)


def _has_step(version: Version) -> bool:
    return version.optimizer_step is not None or version.version == 0


def _merged(ranges: Iterable[tuple[str, int, int]]) -> dict[str, list[tuple[int, int]]]:
    """By writer, in order, none overlapping another."""
    by_writer: dict[str, list[tuple[int, int]]] = {}
    for writer, first, last in sorted(ranges):
        of_writer = by_writer.setdefault(writer, [])
        if of_writer and first <= of_writer[-1][1] + 1:
            of_writer[-1] = (of_writer[-1][0], max(last, of_writer[-1][1]))
        else:
            of_writer.append((first, last))
    return by_writer
