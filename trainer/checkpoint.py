"""Checkpoints of one adapter: a folder that is whole and hashed, or one that is skipped with the reason.

A folder holds the adapter in peft's format (what is served), the optimizer's float32 masters and moments (what training
resumes from, exactly), and manifest.json with the sha256 of every other file. It is written under a temporary name,
synced and renamed, so that a kill at any moment leaves the checkpoints before it. Its name is the step and a UUIDv7:
candidates that were trained from one parent stand at the same step, and a refused one keeps its folder. Which
checkpoint is the last good one is for the registry to say.
"""

import hashlib
from collections.abc import Collection
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file  # pyright: ignore[reportUnknownVariableType]
from uuid_utils import uuid7

from collector.errors import UserError
from collector.store.replacing import replacing
from trainer.adapter_optimizer import AdapterOptimizer
from trainer.peft_folder import write_peft

ServedDtype = Literal["float32", "bfloat16", "float16"]
_MANIFEST = "manifest.json"
_OPTIMIZER = "optimizer.safetensors"
_PREFIX = "step-"


class WrittenFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One file of a checkpoint."""

    name: str
    bytes: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a checkpoint is, and the hashes by which it is known to be whole."""

    adapter: str
    optimizer_step: int
    rank: int
    alpha: float
    dtype: ServedDtype
    """Precision of the served weights; the masters are float32."""
    base_model: str
    baseline: float | None
    """The running reward baseline, where there is one."""
    files: tuple[WrittenFile, ...]


class Checkpoint(NamedTuple):
    """A whole checkpoint on disk."""

    folder: Path
    manifest: Manifest
    sha256: str
    """Of the manifest's bytes, and so of everything."""


class Skipped(NamedTuple):
    """A folder that is no whole checkpoint."""

    folder: Path
    reason: str


def save_checkpoint(
    parent: Path, optimizer: AdapterOptimizer, *, base_model: str, dtype: ServedDtype, baseline: float | None
) -> Checkpoint:
    """Writes the adapter's state below `parent`, in a new folder; weights that are not finite are refused."""
    _refuse_not_finite(optimizer)
    try:
        parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{parent}: {error.strerror or error}; nothing was saved") from error
    target = parent / f"{_PREFIX}{optimizer.step:08d}-{uuid7()}"
    with replacing(target, force=False, owned=()) as fresh:
        fresh.mkdir()
        try:
            write_peft(fresh, optimizer.adapter, base_model=base_model, dtype=getattr(torch, dtype))
            save_file({name: tensor.cpu() for name, tensor in optimizer.state().items()}, fresh / _OPTIMIZER)
        # How safetensors says that the disk is full.
        except SafetensorError as error:
            raise UserError(f"{target}: {error}; nothing was saved: make room on the disk") from error
        adapter = optimizer.adapter
        manifest = Manifest(
            adapter=adapter.name,
            optimizer_step=optimizer.step,
            rank=adapter.rank,
            alpha=adapter.alpha,
            dtype=dtype,
            base_model=base_model,
            baseline=baseline,
            files=tuple(_written(path) for path in sorted(fresh.iterdir())),
        )
        encoded = msgspec.json.format(msgspec.json.encode(manifest), indent=2)
        (fresh / _MANIFEST).write_bytes(encoded)
    return Checkpoint(target, manifest, hashlib.sha256(encoded).hexdigest())


def skipped_folders(parent: Path, versions: Collection[Path]) -> tuple[Skipped, ...]:
    """Every folder below `parent` that is no version's, and why: what interrupted cycles left."""
    if not parent.is_dir():
        return ()
    known = {folder.resolve() for folder in versions}
    left = sorted(path for path in parent.iterdir() if path.is_dir() and path.resolve() not in known)
    return tuple(Skipped(folder, _why_skipped(folder)) for folder in left)


def _why_skipped(folder: Path) -> str:
    if not folder.name.startswith(_PREFIX):
        return "not finished: it still has its temporary name"
    try:
        read_checkpoint(folder)
    except UserError as error:
        return str(error)
    return "whole, but no version: its cycle ended before it was registered"


def read_checkpoint(folder: Path) -> Checkpoint:
    """A checkpoint, every file of it checked against its hash; UserError says which file is not as written."""
    path = folder / _MANIFEST
    try:
        encoded = path.read_bytes()
        manifest = msgspec.json.decode(encoded, type=Manifest)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: {error}; the checkpoint is not whole, use an earlier one") from error
    for expected in manifest.files:
        try:
            found = _written(folder / expected.name)
        except OSError as error:
            raise UserError(f"{folder / expected.name}: {error.strerror}, expected {expected.bytes} bytes") from error
        if found != expected:
            raise UserError(
                f"{folder / expected.name}: {found.bytes} bytes with sha256 {found.sha256[:12]}…, expected "
                f"{expected.bytes} with {expected.sha256[:12]}…; the file changed after it was written"
            )
    return Checkpoint(folder, manifest, hashlib.sha256(encoded).hexdigest())


def resume(checkpoint: Checkpoint, optimizer: AdapterOptimizer) -> None:
    """Puts masters, moments and step count back as they were when the checkpoint was written."""
    adapter, manifest = optimizer.adapter, checkpoint.manifest
    for name, found, expected in (
        ("adapter", manifest.adapter, adapter.name),
        ("rank", manifest.rank, adapter.rank),
        ("alpha", manifest.alpha, adapter.alpha),
    ):
        if found != expected:
            raise UserError(f"{checkpoint.folder}: {name} is {found}, expected {expected}; nothing was resumed")
    try:
        tensors = load_file(checkpoint.folder / _OPTIMIZER)
    except (OSError, SafetensorError) as error:
        raise UserError(f"{checkpoint.folder / _OPTIMIZER}: {error}; use an earlier checkpoint") from error
    try:
        optimizer.restore(tensors)
    except ValueError as error:
        raise UserError(
            f"{checkpoint.folder / _OPTIMIZER}: {error}; were targets changed? nothing was resumed"
        ) from error


def _refuse_not_finite(optimizer: AdapterOptimizer) -> None:
    for name, tensor in optimizer.state().items():
        if not bool(tensor.isfinite().all()):
            raise UserError(
                f"adapter {optimizer.adapter.name}: {name} is not finite after step {optimizer.step}, expected finite "
                "weights and moments; nothing was saved: lower its learning rate"
            )


def _written(path: Path) -> WrittenFile:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(2**20):
            digest.update(block)
    return WrittenFile(name=path.name, bytes=path.stat().st_size, sha256=digest.hexdigest())
