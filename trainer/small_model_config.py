"""The `[engine.small_model]` section of roundhouse.toml."""

import os
import sys
from pathlib import Path

import msgspec


class SmallModelConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[engine.small_model]`: where the quick start's model comes from."""

    folder: str | None = None
    """A folder that already holds SmolLM2-135M-Instruct; nothing else is then tried."""
    cache: str | None = None
    """Where the converted model is kept; None is the platform's cache folder."""
    hub: str = "https://huggingface.co"
    """The Hugging Face hub, or a mirror of it: the last place that is tried."""


def default_cache() -> Path:
    """The platform's cache folder for this project: XDG_CACHE_HOME, ~/Library/Caches or ~/.cache."""
    if home := os.environ.get("XDG_CACHE_HOME"):
        return Path(home) / "roundhouse"
    base = "Library/Caches" if sys.platform == "darwin" else ".cache"
    return Path.home() / base / "roundhouse"
