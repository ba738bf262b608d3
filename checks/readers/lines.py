"""Lines of a text log: bounded, decompressed on the way, and every broken one counted instead of fatal."""

from collections.abc import Iterator
from pathlib import Path, PosixPath
from typing import IO, Any, cast

import msgspec

from checks.readers.json_depth import DEPTH_LIMIT, is_deeper
from checks.readers.plain_bytes import open_plain
from checks.readers.unreadable import UnreadableParts

LINE_LIMIT = 256 * 2**20
"""Longest line that is read; a longer one is counted as unreadable and passed over in bounded memory."""
_PIECE = 2**20
UNCOUNTED = 10**15
"""The lines of a file's end are numbered from here on, as no file's are: how many stand before it nobody counted."""


class FileEnd(PosixPath):
    """A plain file of which `lines` gives those from a byte on, where one begins; its head is still the file's."""

    start = 0

    @classmethod
    def of(cls, path: Path, start: int) -> "FileEnd":
        """The end of a file."""
        end = cls(path)
        end.start = start
        return end


def lines(path: Path, unreadable: UnreadableParts, *, limit: int = LINE_LIMIT) -> Iterator[tuple[int, bytes]]:
    """Number (from 1) and bytes of each line that is not blank."""
    number = 0
    try:
        with open_plain(path) as file:
            if isinstance(path, FileEnd):
                file.seek(path.start)
                number = UNCOUNTED
            while True:
                number += 1
                line = file.readline(limit + 1)
                unreadable.passed_bytes += len(line)
                if len(line) > limit:
                    rest = _rest_of_line(file, line)
                    unreadable.passed_bytes += rest
                    reason = f"a line of {len(line) + rest} bytes, expected at most {limit}"
                    unreadable.add(f"{path.name}:{number}", reason)
                    continue
                if not line:
                    return
                if number == 1:
                    line = line.removeprefix(b"\xef\xbb\xbf")
                if line.strip():
                    yield number, line
    except OSError as error:
        unreadable.add(f"{path.name}:{number}", f"cannot be read on: {error}; the lines before it were read")


def _rest_of_line(file: IO[bytes], piece: bytes) -> int:
    """Passes over what is left of a line; how many bytes that was."""
    passed = 0
    while piece and not piece.endswith(b"\n"):
        piece = file.readline(_PIECE)
        passed += len(piece)
    return passed


# Any: JSON objects of whatever the framework writes.
def json_objects(path: Path, unreadable: UnreadableParts) -> Iterator[tuple[int, dict[str, Any]]]:
    """Line number and object of each line; what is not a JSON object is counted.

    NaN and infinities, which Python writes and JSON does not have, are read as what they say.
    """
    for number, line in lines(path, unreadable):
        try:
            value = decode_json(line)
        except (ValueError, RecursionError) as error:
            unreadable.add(f"{path.name}:{number}", f"not JSON: {error}")
            continue
        if isinstance(value, dict):
            yield number, cast(dict[str, Any], value)
        else:
            unreadable.add(f"{path.name}:{number}", f"a JSON {type(value).__name__}, expected an object")


# Any: a JSON value.
def decode_json(text: bytes) -> Any:
    """A JSON value; falls back to Python's dialect with NaN and Infinity. ValueError when it is neither.

    Deeper nesting than a log has is refused: what decodes just so could not be written out again.
    """
    if is_deeper(text):
        raise ValueError(f"nested more than {DEPTH_LIMIT} deep")
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        import json

        value = json.loads(text.decode("utf-8"))
        if b"\\ud" not in text.lower():
            return value
        # Half of a surrogate pair, which Python's dialect allows and UTF-8 cannot hold, becomes U+FFFD.
        held = json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")
        return json.loads(held.decode("utf-8", "replace"))
