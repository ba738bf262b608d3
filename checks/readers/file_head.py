"""The start of a file, enough to tell its format by content."""

from functools import cached_property
from pathlib import Path
from typing import IO, Any, cast

import zstandard

from checks.readers.head_lines import MOST_BYTES, HeadLines, is_text, is_value
from checks.readers.lines import decode_json
from checks.readers.parquet_rows import column_names
from checks.readers.plain_bytes import open_plain

HEAD_BYTES = 256 * 1024
_PIECE = 64 * 1024
_LEAST_BYTES = 4 * 1024
_LINE_BYTES = 64 * 2**20
"""Longest first line that is looked at to tell the format."""


class FileHead:
    """A file's path, size and first bytes, and what they are as JSON."""

    def __init__(self, path: Path, size: int, start: bytes, at: int = 0) -> None:
        self.path = path
        self.size = size
        self.start = start
        """From the first line that is JSON on, where lines before it are none; else from the file's beginning."""
        self.at = at
        """Bytes before it."""

    @classmethod
    def of(cls, path: Path, *, most: int = HEAD_BYTES) -> "FileHead":
        """Reads the start, at most so many bytes; of a .zst or .gz file, of what is compressed, as far as it goes."""
        with open_plain(path) as file:
            lines = HeadLines(file, most)
            start, at = lines.window, 0
            if is_text(start) and lines.find_json():
                start, at = lines.window, lines.at
            return cls(path, path.stat().st_size, start, at)

    def after_line(self) -> "FileHead | None":
        """The same file from its next line on that is JSON; None where this one is no line of its own, or the last."""
        if not self._begins_with_line or self.at > MOST_BYTES:
            return None
        try:
            with open_plain(self.path) as file:
                _pass(file, self.at)
                lines = HeadLines(file, max(_LEAST_BYTES, len(self.start)))
                lines.pass_line()
                if lines.find_json(several_lines=False):
                    return FileHead(self.path, self.size, lines.window, self.at + lines.at)
        except OSError:
            pass
        return None

    def first_line(self, limit: int) -> bytes:
        """The first line with anything on it, as much of it as the limit says; OSError where the file is damaged."""
        with open_plain(self.path) as file:
            _pass(file, self.at)
            line = file.readline(limit).removeprefix(b"\xef\xbb\xbf")
            while line and not line.strip():
                line = file.readline(limit)
        return line

    @property
    def _begins_with_line(self) -> bool:
        """Whether it begins with a value on one line, as far as it is seen."""
        line, end, _ = self.start.removeprefix(b"\xef\xbb\xbf").partition(b"\n")
        return is_text(self.start) and line.lstrip()[:1] in (b"{", b"[") and (not end or is_value(line))

    @cached_property
    # Any: a JSON value of unknown shape.
    def first_json(self) -> Any:
        """The first JSON value: the first line that is one, else the whole file if it is small and JSON; else None.

        Of a first line that goes on beyond the head, an object without what is in its lists, objects and long texts.
        """
        for line in self.start.removeprefix(b"\xef\xbb\xbf").splitlines()[:5]:
            if line.strip():
                try:
                    return decode_json(line)
                except (ValueError, RecursionError):
                    break
        try:
            return decode_json(self.start)
        except (ValueError, RecursionError):
            return self._long_line()

    def _long_line(self) -> dict[str, Any] | None:
        """The first line as an object, where it is longer than the head: one long prompt is enough for that."""
        if b"\n" in self.start.strip() or self.start.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] != b"{":
            return None
        try:
            value = decode_json(self.first_line(_LINE_BYTES))
        except (OSError, EOFError, zstandard.ZstdError, ValueError, RecursionError):
            return None
        held = cast(dict[str, Any], value) if isinstance(value, dict) else {}
        return {name: each if _is_short(each) else type(each)() for name, each in held.items()}

    @cached_property
    def keys(self) -> frozenset[str]:
        """Keys of the first JSON value if that is an object, or of its first element if it is a list; else empty.

        Of a JSON object too large for the head, the keys that can be seen in it are not told apart by depth:
        use `start` for those.
        """
        value = self.first_json
        if isinstance(value, list) and value:
            value = value[0]  # pyright: ignore[reportUnknownVariableType]
        return frozenset(value) if isinstance(value, dict) else frozenset()  # pyright: ignore[reportUnknownArgumentType]

    @property
    def is_parquet(self) -> bool:
        """Whether it begins as Parquet does."""
        return self.start[:4] == b"PAR1"

    @cached_property
    def columns(self) -> frozenset[str]:
        """The columns of a Parquet file, which stand at its end; empty for any other and for a damaged one."""
        return column_names(self.path) if self.is_parquet else frozenset()

    @property
    def is_zip(self) -> bool:
        """Whether it begins as a zip does (a .pt of torch.save is one)."""
        return self.start[:4] == b"PK\x03\x04"

    @property
    def is_sqlite(self) -> bool:
        """Whether it begins as an SQLite database does."""
        return self.start[:16] == b"SQLite format 3\x00"

    @property
    def is_pickle(self) -> bool:
        """Whether it begins as a pickle of protocol 2 or later does."""
        return len(self.start) > 1 and self.start[0] == 0x80 and self.start[1] in (2, 3, 4, 5)


def _pass(file: IO[bytes], count: int) -> None:
    """Passes over so many bytes, which may have to be decompressed for that."""
    while count > 0 and (piece := file.read(min(count, _PIECE))):
        count -= len(piece)


# Any: a JSON value.
def _is_short(value: Any) -> bool:
    return not isinstance(value, list | dict) and (not isinstance(value, str) or len(value) <= 256)
