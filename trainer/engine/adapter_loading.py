"""Loading and unloading adapters while the engine serves."""

import asyncio

from trainer.engine.adapter_file import read_adapter
from trainer.engine.engine import Engine
from trainer.engine.engine_refusal import EngineRefusal


async def load_adapter(engine: Engine, name: str, folder: str) -> dict[str, str]:
    """Makes an adapter of peft's format usable under a name; the loaded ones, name to folder."""
    if not name:
        raise EngineRefusal("lora_name is empty, expected a name")
    _check_free(engine, name)
    pairs = await asyncio.to_thread(read_adapter, folder, engine.bank.shapes)

    def add() -> dict[str, str]:
        _check_free(engine, name)
        engine.bank.add(name, folder, pairs)
        return loaded_adapters(engine)

    return await engine.between_steps(add)


async def unload_adapter(engine: Engine, name: str) -> dict[str, str]:
    """Refuses the name to new requests at once, waits for those in flight, forgets weights and cached prefixes.

    SGLang would load an unloaded name again at its next use; here it stays refused until it is loaded again.
    """
    adapter = await engine.between_steps(lambda: engine.bank.retire(name))

    def unused() -> bool:
        return not any(sequence.adapter is adapter for sequence in engine.scheduler.live)

    def remove() -> dict[str, str]:
        engine.bank.remove(name)
        engine.scheduler.tree.drop(adapter.namespace)
        return loaded_adapters(engine)

    return await engine.between_steps(remove, unused)


def loaded_adapters(engine: Engine) -> dict[str, str]:
    """Name of each loaded adapter to its folder."""
    return {adapter.name: adapter.path for adapter in list(engine.bank.loaded.values())}


def _check_free(engine: Engine, name: str) -> None:
    if name in engine.bank.loaded:
        raise EngineRefusal(
            f"LoRA adapter {name!r} is already loaded; unload it first, or load under a name of its own"
        )
    if len(engine.bank.loaded) >= engine.settings.max_adapters:
        raise EngineRefusal(
            f"{len(engine.bank.loaded)} adapters are loaded and max_adapters is {engine.settings.max_adapters}; "
            "unload one first"
        )
