"""A file or folder that appears whole, under its name, or not at all."""

import os
import shutil
from collections.abc import Collection, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from collector.errors import UserError
from collector.store.layout import fsync_folder


@contextmanager
def replacing(target: Path, *, force: bool, owned: Collection[str]) -> Generator[Path]:
    """Gives a path beside `target` to write to, and moves what was written there when the block ends well.

    Without `force` nothing may be there yet; with it, an existing folder is only replaced if every file in it
    is one of `owned`.
    """
    _check_free(target, force=force, owned=owned)
    fresh = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    # Left by a process that was killed and had this one's id, as in a container.
    _remove(fresh)
    try:
        yield fresh
        _sync(fresh)
        if target.is_dir():
            shutil.rmtree(target)
        os.replace(fresh, target)
        fsync_folder(target.absolute().parent)
    except OSError as error:
        raise UserError(f"{target}: {error.strerror or error}; nothing was written there") from error
    finally:
        _remove(fresh)


def _check_free(target: Path, *, force: bool, owned: Collection[str]) -> None:
    if not target.absolute().parent.is_dir():
        raise UserError(f"{target.absolute().parent}: no such folder, expected it to hold {target.name}; make it first")
    if not os.path.lexists(target):
        return
    if not force:
        raise UserError(f"{target}: exists already; choose another name, or --force to replace it")
    if target.is_dir():
        strange = [path.name for path in target.iterdir() if path.name not in owned]
        if strange or target.is_symlink():
            raise UserError(f"{target}: holds {strange[:3] or 'a link'}, which no export wrote; choose another name")


def _sync(path: Path) -> None:
    for written in path.iterdir() if path.is_dir() else [path]:
        with written.open("rb") as file:
            os.fsync(file.fileno())


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    for left in (path, path.with_name(path.name + ".wal")):
        # Where nothing can be deleted nothing could be written, and the error that says so is under way.
        with suppress(OSError):
            left.unlink()
