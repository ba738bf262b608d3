"""What the engine workers say of themselves: name, version and precision, for the run record and for a warning."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from collector.engine.client import EngineClient
from trainer.engine_config import Dtype
from trainer.precision import SIGNIFICANT_BITS


class EngineFacts(NamedTuple):
    """One worker."""

    url: str
    name: str
    version: str | None
    dtype: Dtype | None
    """Of weights and cache; None where it does not say."""

    @property
    def text(self) -> str:
        """As the run record has it."""
        version = "" if self.version is None else f" {self.version}"
        return f"{self.name}{version}, {self.dtype or 'precision not said'}"


class _Model(msgspec.Struct, frozen=True):
    model_type: str = ""
    dtype: str | None = None
    torch_dtype: str | None = None
    text_config: "_Model | None" = None


def ask_engines(
    urls: Sequence[str], admin_key: str | None, model: Path, *, time_limit_s: float = 30.0
) -> tuple[EngineFacts, ...]:
    """Asks every worker; EngineError names one that does not answer. `model` is the base that they serve."""
    return asyncio.run(_asked(urls, admin_key, model, time_limit_s))


async def _asked(
    urls: Sequence[str], admin_key: str | None, model: Path, time_limit_s: float
) -> tuple[EngineFacts, ...]:
    found: list[EngineFacts] = []
    for url in urls:
        client = EngineClient(url, admin_key=admin_key, idle_timeout_s=time_limit_s)
        try:
            found.append(facts_of(url, await client.server_info(), model))
        finally:
            await client.close()
    return tuple(found)


# Any: an engine's own settings, as it has them.
def facts_of(url: str, settings: dict[str, Any], model: Path) -> EngineFacts:
    """From what `/server_info` answers."""
    own, version = settings.get("engine"), settings.get("version")
    return EngineFacts(
        url,
        own if isinstance(own, str) else "SGLang",
        version if isinstance(version, str) else None,
        _dtype(settings.get("dtype"), model),
    )


def _dtype(said: object, model: Path) -> Dtype | None:
    """As the engine computes; SGLang's names have float, half and auto beside ours."""
    if said == "auto":
        return _automatic(model)
    return _known({"float": "float32", "half": "float16"}.get(str(said), str(said)))


def _automatic(model: Path) -> Dtype | None:
    """What SGLang 0.5.23 takes: the model's own, and half of float32 (`_get_and_verify_dtype` in model_config.py)."""
    config = msgspec.json.decode((model / "config.json").read_bytes(), type=_Model)
    config = config.text_config or config
    own = config.dtype or config.torch_dtype or "float32"
    if own == "float32":
        return "bfloat16" if config.model_type.startswith("gemma") else "float16"
    return _known(own)


def _known(name: str) -> Dtype | None:
    return next((dtype for dtype in SIGNIFICANT_BITS if dtype == name), None)
