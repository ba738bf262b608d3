"""A file that is one JSON document: read whole, if it is not too large for that."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import zstandard

from checks.readers.file_head import FileHead
from checks.readers.lines import decode_json, json_objects, open_plain
from checks.readers.unreadable import UnreadableParts

DOCUMENT_LIMIT = 256 * 2**20
"""Largest document that is read; decoded it takes several times as much memory."""


# Any: JSON values of whatever the framework writes.
def document(path: Path, unreadable: UnreadableParts, *, limit: int = DOCUMENT_LIMIT) -> Any:
    """The document, or None after counting it as unreadable."""
    try:
        with open_plain(path) as file:
            whole = file.read(limit + 1)
        if len(whole) > limit:
            unreadable.add(path.name, f"one JSON document of more than {limit} bytes, expected at most that many")
            return None
        return decode_json(whole.removeprefix(b"\xef\xbb\xbf"))
    except (OSError, EOFError, zstandard.ZstdError) as error:
        unreadable.add(path.name, f"cannot be read: {error}")
    except (ValueError, RecursionError) as error:
        unreadable.add(path.name, f"not JSON: {error}")
    return None


def documents(path: Path, unreadable: UnreadableParts) -> Iterator[tuple[str, dict[str, Any]]]:
    """Place and object of every JSON object in a file: one on each line, the elements of one list, or one alone.

    Objects on several lines and lists are read whole; lines one at a time.
    """
    if _on_lines(path):
        for number, each in json_objects(path, unreadable):
            yield f"{path.name}:{number}", each
        return
    whole = document(path, unreadable)
    if whole is None:
        return
    for index, each in enumerate(whole if isinstance(whole, list) else [whole]):  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        place = f"{path.name}[{index}]" if isinstance(whole, list) else path.name
        if isinstance(each, dict):
            yield place, each  # pyright: ignore[reportUnknownVariableType]
        else:
            unreadable.add(place, f"a JSON {type(each).__name__}, expected an object")  # pyright: ignore[reportUnknownArgumentType]


def _on_lines(path: Path) -> bool:
    """Whether the first line that is JSON is a whole object, or too long to be anything else."""
    try:
        line = FileHead.of(path).first_line(DOCUMENT_LIMIT)
    except (OSError, EOFError, zstandard.ZstdError):
        return True
    return line.lstrip().startswith(b"{") and line.rstrip().endswith(b"}")
