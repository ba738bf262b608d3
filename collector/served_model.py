"""Whether the engine serves the model that prompts are rendered for: ids of one model mean nothing to another."""

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, Protocol, cast

import msgspec
from tokenizers import Tokenizer

from collector.engine.wire import ModelInfo
from collector.errors import EngineError

_log = logging.getLogger(__name__)

_SHAPE = ("architectures", "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads")
_LOOK_EVERY_S = 5.0


class Informant(Protocol):
    """An engine that says what it serves."""

    async def model_info(self) -> ModelInfo: ...


class _Identity(NamedTuple):
    shape: Mapping[str, object]
    vocabulary: Mapping[str, int]


class ServedModel:
    """Compares the engine's model folder with the collector's, where it can be read from here."""

    def __init__(self, engine: Informant, folder: Path, *, asker: str = "collector") -> None:
        """`asker` is what has to be started anew where the two differ."""
        self._engine = engine
        self._folder = folder.resolve()
        self._asker = asker
        self._own: _Identity | None = None
        self._seen: str | None = None
        self._comparing = asyncio.Lock()
        self.difference: str | None = None
        """How the engine's model differs from ours; None while it does not, or cannot be compared."""

    async def look(self) -> None:
        """Asks the engine what it serves. An engine that does not answer cannot sample either."""
        try:
            info = await self._engine.model_info()
        except EngineError:
            return
        async with self._comparing:
            if info.model_path != self._seen:
                self.difference = await asyncio.to_thread(self._compare, info)
                self._seen = info.model_path
                if self.difference is not None:
                    _log.error("%s", self.difference)

    async def watch(self) -> None:
        """Looks again and again: an engine may be started anew with another model."""
        while True:
            await self.look()
            await asyncio.sleep(_LOOK_EVERY_S)

    @property
    def known(self) -> bool:
        """Whether the engine has said what it serves."""
        return self._seen is not None

    def _compare(self, info: ModelInfo) -> str | None:
        theirs = Path(info.model_path)
        if not theirs.is_absolute() or theirs.resolve() == self._folder:
            return None
        try:
            other = _identity(theirs, Path(info.tokenizer_path or info.model_path))
        except (OSError, msgspec.DecodeError):
            # On another machine, or a name on a hub: nothing here to compare with.
            return None
        own = self._own = self._own or _identity(self._folder, self._folder)
        for key in _SHAPE:
            if own.shape.get(key) != other.shape.get(key):
                return self._differs(theirs, f"{key} is {other.shape.get(key)} there and {own.shape.get(key)} here")
        if own.vocabulary != other.vocabulary:
            return self._differs(theirs, "their tokenizers have different vocabularies")
        return None

    def _differs(self, theirs: Path, how: str) -> str:
        return (
            f"the engine serves {theirs}, expected the model of {self._folder}: {how}; "
            f"start the {self._asker} with the engine's model"
        )


def _identity(model: Path, tokenizer: Path) -> _Identity:
    config = cast(dict[str, object], msgspec.json.decode((model / "config.json").read_bytes()))
    text = (tokenizer / "tokenizer.json").read_text(encoding="utf-8")
    return _Identity({key: config.get(key) for key in _SHAPE}, Tokenizer.from_str(text).get_vocab())
