"""Loading a version into one of a worker's slots, once however often it is tried."""

from collections.abc import Collection
from pathlib import Path
from typing import Literal

from collector.engine.client import EngineClient
from collector.errors import EngineError


async def load_once(
    client: EngineClient, name: str, folder: Path, *, slots: int | None, in_use: Collection[str]
) -> Literal["loaded", "already"]:
    """Loads a version and keeps it there; a name that is taken by another folder, and a full worker, are refused."""
    loaded = await client.loaded_adapters()
    if name in loaded:
        _check_same(name, Path(loaded[name]), folder)
        return "already"
    room = await worker_slots(client) if slots is None else slots
    if room is not None and len(loaded) >= room:
        free = sorted(loaded.keys() - set(in_use))
        raise EngineError(
            f"all {room} adapter slots are taken, by {', '.join(sorted(loaded))}, expected one for {name}; "
            + (f"{', '.join(free)} could be unloaded" if free else "all are in use, start the engine with more")
        )
    await client.load_adapter(name, folder, pinned=True)
    return "loaded"


def _check_same(name: str, found: Path, folder: Path) -> None:
    if found.absolute() != folder.absolute():
        raise EngineError(
            f"{name} is loaded from {found}, expected {folder.absolute()}; unload it, or name a new version"
        )


async def worker_slots(client: EngineClient) -> int | None:
    """Adapters that can be kept loaded; None when the worker does not say. SGLang keeps one slot for the base model."""
    settings = await client.server_info()
    for setting, taken in (("max_loras_per_batch", 1), ("max_adapters", 0)):
        most = settings.get(setting)
        if isinstance(most, int):
            return most - taken
    return None
