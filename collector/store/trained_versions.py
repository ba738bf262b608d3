"""Which adapter versions were trained on given records, and which continue from one that was."""

from collections.abc import Collection, Iterable
from typing import NamedTuple

from collector.records import Version, VersionState
from collector.store.adapter_names import engine_name


class TrainedVersion(NamedTuple):
    """A version that the records went into."""

    adapter: str
    version: int
    state: VersionState
    through: int | None
    """The nearest version before it that was trained on them; None when it was itself."""

    @property
    def name(self) -> str:
        """What an engine calls it."""
        return engine_name(self.adapter, self.version)


def versions_trained_on(versions: Iterable[Version], places: Collection[tuple[str, int]]) -> list[TrainedVersion]:
    """The versions whose ranges hold one of the (writer, seq), and their descendants; by adapter and version."""
    known = sorted(versions, key=lambda each: (each.adapter, each.version))
    own = {(each.adapter, each.version) for each in known if _holds(each, places)}
    parents = {(each.adapter, each.version): each.parent for each in known}
    found: list[TrainedVersion] = []
    for each in known:
        key = (each.adapter, each.version)
        through = None if key in own else _ancestor(key, parents, own)
        if key in own or through is not None:
            found.append(TrainedVersion(each.adapter, each.version, each.state, through))
    return found


def _holds(version: Version, places: Collection[tuple[str, int]]) -> bool:
    ranges = version.trained_on
    return any(writer == of and first <= seq <= last for of, first, last in ranges for writer, seq in places)


def _ancestor(
    key: tuple[str, int], parents: dict[tuple[str, int], int | None], own: Collection[tuple[str, int]]
) -> int | None:
    adapter, _ = key
    parent = parents[key]
    # Versions are dense and a parent comes before its child; a registry that says otherwise ends the walk.
    passed: set[int] = set()
    while parent is not None and parent not in passed:
        if (adapter, parent) in own:
            return parent
        passed.add(parent)
        parent = parents.get((adapter, parent))
    return None
