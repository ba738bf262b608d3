"""The adapter slots of an engine worker, and loading a version into one, once however often it is tried."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Literal, Protocol

from collector.errors import EngineError


class Loading(Protocol):
    """An engine that adapters are loaded into."""

    async def loaded_adapters(self) -> dict[str, str]: ...

    async def load_adapter(self, name: str, path: Path, *, pinned: bool = False) -> None: ...

    # Any: an engine's own settings.
    async def server_info(self) -> dict[str, Any]: ...


async def load_once(
    engine: Loading, name: str, folder: Path, *, slots: int | None, in_use: Collection[str]
) -> Literal["loaded", "already"]:
    """Loads a version and keeps it there; a name that is taken by another folder, and a full worker, are refused."""
    loaded = await engine.loaded_adapters()
    if name in loaded:
        check_same(name, loaded[name], folder)
        return "already"
    room = slots_of(await engine.server_info()) if slots is None else slots
    if room is not None and len(loaded) >= room:
        free = sorted(loaded.keys() - set(in_use))
        raise EngineError(
            f"all {room} adapter slots are taken, by {', '.join(sorted(loaded))}, expected one for {name}; "
            + (f"{', '.join(free)} could be unloaded" if free else "all are in use, start the engine with more")
        )
    try:
        await engine.load_adapter(name, folder, pinned=True)
    except EngineError:
        # A collector and a trainer may both find it missing, and one of them is second.
        found = (await engine.loaded_adapters()).get(name)
        if found is None:
            raise
        check_same(name, found, folder)
        return "already"
    return "loaded"


def check_same(name: str, found: str, folder: Path) -> None:
    """EngineError where an engine has the name from another folder than the registry's."""
    if Path(found).absolute() != folder.absolute():
        raise EngineError(
            f"{name} is loaded from {found}, expected {folder.absolute()}; unload it, or name a new version"
        )


# Any: an engine's own settings.
def slots_of(settings: Mapping[str, Any]) -> int | None:
    """Adapters that can be kept loaded; None when the worker does not say. SGLang keeps one slot for the base model."""
    for setting, taken in (("max_loras_per_batch", 1), ("max_adapters", 0)):
        most = settings.get(setting)
        if isinstance(most, int):
            return most - taken
    return None
