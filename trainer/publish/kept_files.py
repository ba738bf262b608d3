"""Which versions' files may go: those that nothing will be served from, resumed from or scored by any more."""

import shutil
from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from collector.errors import UserError
from collector.records import Version
from collector.store.adapter_names import engine_name
from collector.store.layout import fsync_folder
from collector.store.reader import Reader
from collector.store.registry_rows import read_registry
from trainer.publish_config import PublishConfig

_GOING = ".going-"


class Kept(NamedTuple):
    """A version whose files stay."""

    name: str
    reason: str


class FilesOf(NamedTuple):
    """What is to become of the files of all versions."""

    going: tuple[Version, ...]
    kept: tuple[Kept, ...]


class Pruned(NamedTuple):
    """What was deleted."""

    names: tuple[str, ...]
    bytes: int
    kept: tuple[Kept, ...]


def files_of(
    versions: Iterable[Version],
    referred: Collection[tuple[str, int]],
    *,
    config: PublishConfig,
    now: datetime,
    pinned: Collection[str] = (),
) -> FilesOf:
    """Decides for each version that has files.

    `referred` are the (adapter, version) that sampled a trainable turn which the store still holds; `pinned` are
    engine names that stay for a reason of their own, such as the pinned best or what an engine has loaded.
    """
    known = list(versions)
    going: list[Version] = []
    kept: list[Kept] = []
    for version in known:
        if version.folder is None:
            continue
        reason = _reason(version, known, referred, pinned, config, now)
        if reason is None:
            going.append(version)
        else:
            kept.append(Kept(engine_name(version.adapter, version.version), reason))
    return FilesOf(tuple(going), tuple(kept))


def prune(store: Path, *, config: PublishConfig, now: datetime, pinned: Collection[str] = ()) -> Pruned:
    """Deletes the files that may go. A kill at any moment leaves each folder whole, or out of the way under another
    name, from which the next call deletes the rest."""
    # Turns first: one that is captured meanwhile was sampled by a version that is routed, or was not long ago.
    referred = referred_versions(store)
    decided = files_of(read_registry(store).versions, referred, config=config, now=now, pinned=pinned)
    names: list[str] = []
    size = 0
    for version in decided.going:
        assert version.folder is not None
        folder = store / version.folder
        for left in (folder, _aside(folder)):
            size += sum(path.stat().st_size for path in left.rglob("*") if path.is_file()) if left.is_dir() else 0
        if _delete(folder):
            names.append(engine_name(version.adapter, version.version))
    return Pruned(tuple(names), size, decided.kept)


def referred_versions(store: Path) -> set[tuple[str, int]]:
    """The versions that sampled a trainable turn which is still there."""
    with Reader(store).snapshot(["turns"]) as snapshot:
        if snapshot.damage:
            raise UserError(f"{snapshot.damage[0]}; no files are deleted while turns may be missing")
        turns = snapshot.frame("turns", columns=["adapter", "adapter_version", "trainable"])
    rows = turns.filter("trainable").select("adapter", "adapter_version").unique().drop_nulls().rows()
    return {(adapter, version) for adapter, version in rows}


def _reason(
    version: Version,
    versions: list[Version],
    referred: Collection[tuple[str, int]],
    pinned: Collection[str],
    config: PublishConfig,
    now: datetime,
) -> str | None:
    """Why the files stay; None when they may go."""
    if version.state not in ("retired", "rejected"):
        return f"it is {version.state}"
    if engine_name(version.adapter, version.version) in pinned:
        return "it is pinned, or loaded on an engine"
    if now - version.changed_at < timedelta(seconds=config.keep_s):
        return f"it was {version.state} less than {config.keep_s:g} s ago"
    if (version.adapter, version.version) in referred:
        return "it sampled trainable turns, which are scored by its weights"
    same = [each for each in versions if each.adapter == version.adapter]
    children = [each for each in same if each.parent == version.version and each.state not in ("retired", "rejected")]
    if children:
        return f"{engine_name(version.adapter, children[0].version)} ({children[0].state}) was trained from it"
    retired = sorted((each for each in same if each.state == "retired"), key=lambda each: each.changed_at)
    if config.keep_retired and version in retired[-config.keep_retired :]:
        return f"it is one of the {config.keep_retired} retired last, which a rollback may go to"
    return None


def _delete(folder: Path) -> bool:
    aside = _aside(folder)
    try:
        if folder.is_dir():
            if aside.is_dir():
                shutil.rmtree(aside)
            folder.rename(aside)
            fsync_folder(folder.parent)
        elif not aside.is_dir():
            return False
        shutil.rmtree(aside)
    except OSError as error:
        raise UserError(f"{folder}: {error.strerror or error}; it may be deleted by hand") from error
    return True


def _aside(folder: Path) -> Path:
    return folder.with_name(_GOING + folder.name)
