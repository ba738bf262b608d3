"""The weights that versions were published with, read back as an engine reads them, each once."""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from transformers import PreTrainedModel

from collector.errors import UserError
from collector.records import Version
from collector.store.adapter_names import engine_name
from trainer.checkpoint import Checkpoint, read_checkpoint
from trainer.lora import TrainedAdapter
from trainer.peft_folder import read_peft


class Published(NamedTuple):
    """What a version computes with."""

    name: str | None
    """Its engine name; None for the base model alone."""
    adapter: TrainedAdapter | None


class Gone(NamedTuple):
    """A version whose weights cannot be had any more."""

    reason: str


def version_checkpoint(store: Path, version: Version) -> Checkpoint:
    """The checkpoint of a version, every file checked against the hash that the registry holds."""
    name = engine_name(version.adapter, version.version)
    if version.folder is None:
        raise UserError(f"{name}: has no folder, expected a version that was trained")
    found = read_checkpoint(store / version.folder)
    if found.sha256 != version.sha256:
        raise UserError(
            f"{found.folder}: its manifest has sha256 {found.sha256[:12]}…, expected {str(version.sha256)[:12]}… as "
            f"registered for {name}; the folder was exchanged: restore it from a copy"
        )
    return found


def published_adapter(network: PreTrainedModel, store: Path, version: Version) -> TrainedAdapter:
    """The cast weights that an engine serves as this version, under its engine name."""
    checkpoint = version_checkpoint(store, version)
    return read_peft(network, checkpoint.folder, engine_name(version.adapter, version.version))


class PublishedWeights:
    """Versions' weights by adapter and number."""

    def __init__(self, network: PreTrainedModel, store: Path, versions: Iterable[Version]) -> None:
        self._network = network
        self._store = store
        self._versions = {(version.adapter, version.version): version for version in versions}
        self._found: dict[tuple[str, int], Published | Gone] = {}

    def of(self, adapter: str, version: int | None) -> Published | Gone:
        """What sampled a turn of this adapter and version."""
        if version is None:
            return Gone("the turn does not say which version sampled it")
        if version == 0:
            return Published(None, None)
        key = (adapter, version)
        if key not in self._found:
            self._found[key] = self._read(key)
        return self._found[key]

    def optimizer_step(self, adapter: str, version: int | None) -> int | None:
        """Where the version was saved at; 0 for the base model, None where the registry does not know it."""
        if version == 0:
            return 0
        known = None if version is None else self._versions.get((adapter, version))
        return None if known is None else known.optimizer_step

    def _read(self, key: tuple[str, int]) -> Published | Gone:
        version = self._versions.get(key)
        if version is None:
            return Gone(f"{engine_name(*key)} is not in the registry")
        try:
            adapter = published_adapter(self._network, self._store, version)
        except UserError as error:
            return Gone(str(error))
        return Published(adapter.name, adapter)


def computes_the_same(published: Published, adapter: TrainedAdapter) -> bool:
    """Whether the weights being trained are exactly the published ones: nothing moved, and the cast lost nothing.

    The base model is what an adapter is as long as every B is zero.
    """
    other = published.adapter
    if other is None:
        return not any(bool(pair.up_O_R.any()) for pair in adapter.pairs.values())
    return (
        other.scaling == adapter.scaling
        and other.pairs.keys() == adapter.pairs.keys()
        and all(
            bool((ours == theirs).all())
            for module, pair in adapter.pairs.items()
            for ours, theirs in zip(pair, other.pairs[module], strict=True)
        )
    )
