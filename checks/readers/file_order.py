"""The order of files whose names count: step 2 before step 10."""

import re
from collections.abc import Sequence
from pathlib import Path

from checks.readers.file_head import FileHead
from checks.readers.format import Unit

_STEP = re.compile(r"(?:step|iteration)[_-]?(\d+)")


def by_number(path: Path) -> tuple[tuple[int, int, str], ...]:
    """Sorts paths by their text, and by value where there are digits."""
    pieces = re.split(r"(\d+)", str(path))
    return tuple((1, int(piece), "") if piece.isdecimal() else (0, 0, piece) for piece in pieces)


def in_order(heads: Sequence[FileHead]) -> list[Unit]:
    """Each file alone, in the order of the numbers in their names."""
    return [(path,) for path in sorted((head.path for head in heads), key=by_number)]


def short(path: Path) -> str:
    """A file by its folder and name: the name alone is the same in each step's folder."""
    return f"{path.parent.name}/{path.name}" if path.parent.name else path.name


def step_of(path: Path) -> int | None:
    """The step that a file's name or, nearest first, the folders above it give."""
    for part in reversed(path.parts):
        if (found := _STEP.search(part)) is not None:
            return int(found[1])
    return None
