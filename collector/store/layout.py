"""Where everything lies inside a store folder, and which layout version this code reads."""

import os
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from collector.errors import StoreError

SCHEMA_VERSION = 1
"""Layout version of journals and segments."""

WRITER_ORDER = ("console", "trainer")
"""Writers whose journals a reader pins first: effects before causes. The collector comes last."""

_WRITER_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_SEGMENT_NAME = re.compile(r"(?P<writer>[a-z0-9_-]+)\.(?P<lo>\d+)-(?P<hi>\d+)\.(?P<generation>\d+)\.parquet")


class SegmentName(NamedTuple):
    """A segment's file name, taken apart."""

    writer: str
    lo: int
    hi: int
    generation: int

    def __str__(self) -> str:
        return f"{self.writer}.{self.lo:012d}-{self.hi:012d}.{self.generation}.parquet"

    @classmethod
    def parse(cls, file_name: str) -> "SegmentName | None":
        """The parts of a segment's file name; None for any other file."""
        match = _SEGMENT_NAME.fullmatch(file_name)
        if match is None:
            return None
        return cls(match["writer"], int(match["lo"]), int(match["hi"]), int(match["generation"]))


class Layout:
    """Paths of one store."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.journals = root / "journals"
        self.segments = root / "segments"
        self.quarantine = root / "quarantine"
        self.experts = root / "experts"

    def journal(self, writer: str) -> Path:
        """The writer's journal."""
        return self.journals / f"{writer}.sqlite"

    def mark(self, writer: str) -> Path:
        """The writer's acknowledged high-water mark."""
        return self.journals / f"{writer}.mark"

    def lock(self, writer: str) -> Path:
        """The file whose lock makes one process the writer."""
        return self.journals / f"{writer}.lock"

    def table(self, table: str) -> Path:
        """Folder of a table's segments."""
        return self.segments / table

    def schema_file(self, table: str) -> Path:
        """The zero-row Parquet file that carries a table's columns."""
        return self.table(table) / "schema.parquet"

    def new_quarantine(self, writer: str) -> Path:
        """Makes a folder for damaged files of a writer."""
        folder = self.quarantine / f"{writer}-{datetime.now(UTC).strftime('%Y%m%dT%H%M%S.%f')}"
        folder.mkdir(parents=True)
        fsync_folder(folder.parent)
        fsync_folder(self.root)
        return folder

    def writers(self) -> list[str]:
        """Writers that have, or should have, a journal: effects before causes."""
        found = {path.stem for suffix in ("sqlite", "mark") for path in self.journals.glob(f"*.{suffix}")}
        first = [name for name in WRITER_ORDER if name in found]
        last = [name for name in ("collector",) if name in found]
        return [*first, *sorted(found - {*first, *last}), *last]


def check_writer_name(name: str) -> str:
    """The name, or a StoreError when it cannot be a file's name."""
    if _WRITER_NAME.fullmatch(name) is None:
        raise StoreError(f"writer name {name!r}: expected lower-case letters, digits, - or _ (at most 64); rename it")
    return name


def existing_store(root: Path) -> Layout:
    """The layout of a folder that is a store; StoreError when it is none."""
    layout = Layout(root)
    if not root.is_dir():
        raise StoreError(f"{root}: no such folder, expected a store; give --store the folder a collector writes")
    if not layout.journals.is_dir():
        raise StoreError(f"{root}: no journals/ in it, expected a store; give --store the folder a collector writes")
    return layout


def fsync_folder(folder: Path) -> None:
    """Makes renames and deletions in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
