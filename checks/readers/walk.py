"""What lies below a path: the stores, and the files that may be logs."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from checks.readers.native_store import is_store
from collector.errors import UserError

_MOST_FILES = 20_000


class Found(NamedTuple):
    """Stores and files, each in the order of their names. A store's own files are not among the files."""

    stores: list[Path]
    files: list[Path]


def walk(path: Path) -> Found:
    """Everything below a path that is not hidden; links to folders are not followed."""
    if not path.exists():
        raise UserError(f"{path} does not exist; give a log file, a folder of one run's logs, or a store")
    if not path.is_dir():
        if not path.is_file():
            raise UserError(
                f"{path} is a pipe or a device, expected a file, which is read more than once; save it first"
            )
        return Found([], [path])
    found = Found([], [])
    for folder in _folders(path, found):
        found.files.extend(
            each
            for each in sorted(folder.iterdir())
            if not each.name.startswith(".") and each.is_file() and not _is_of_database(each)
        )
        if len(found.files) > _MOST_FILES:
            raise UserError(
                f"{path} holds more than {_MOST_FILES} files, expected the logs of one run; name its folder"
            )
    return found


def _is_of_database(path: Path) -> bool:
    """Whether SQLite keeps the file beside a database, and reads it with it."""
    base, _, ending = path.name.rpartition("-")
    return ending in ("wal", "shm", "journal") and path.with_name(base).is_file() if base else False


def _folders(path: Path, found: Found) -> Iterator[Path]:
    for folder, names, _ in os.walk(path, onerror=_refuse):
        if is_store(Path(folder)):
            found.stores.append(Path(folder))
            names.clear()
            continue
        names[:] = sorted(name for name in names if not name.startswith("."))
        yield Path(folder)


def _refuse(error: OSError) -> None:
    raise UserError(f"{error.filename}: {error.strerror}, expected a folder that can be read") from error
