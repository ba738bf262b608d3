"""What tells one start of an engine from another: a proof holds for the process that it was made on."""

import hashlib
from typing import Any, Protocol

import msgspec

from collector.engine.wire import ModelInfo
from collector.errors import EngineError, EngineUnavailable

_MARKS = ("launch_id", "startup_time", "random_seed")
"""Of `/server_info`. The embedded engine draws a launch_id; SGLang says how long each part of its start took, in
seconds to all digits, and a random seed that it draws where none is set (`serving_hook.py` of 0.5.23)."""
_TELLING = ("launch_id", "startup_time")
"""A seed alone may be a setting."""


class Identified(Protocol):
    """An engine that says what it is."""

    async def model_info(self) -> ModelInfo: ...

    # Any: an engine's own settings.
    async def server_info(self) -> dict[str, Any]: ...


async def process_of(engine: Identified) -> str | None:
    """A name for this start of an engine with these base weights; None where the engine does not let it be told."""
    try:
        info = await engine.model_info()
        settings = await engine.server_info()
    except EngineUnavailable:
        raise
    except EngineError:
        return None
    return identity(settings, info)


# Any: an engine's own settings.
def identity(settings: dict[str, Any], info: ModelInfo) -> str | None:
    """The same name from the engine's two answers."""
    marks = {name: settings[name] for name in _MARKS if settings.get(name) is not None}
    if not marks.keys() & set(_TELLING):
        return None
    told = msgspec.json.encode([marks, info.model_path, info.weight_version], order="sorted")
    return hashlib.blake2b(told, digest_size=12).hexdigest()
