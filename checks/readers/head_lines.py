"""Where the JSON of a file begins: lines before it that are none are passed over, so many at most."""

import json
from typing import IO

from checks.readers.lines import decode_json

MOST_LINES = 1000
"""Lines that are passed over,"""
MOST_BYTES = 16 * 2**20
"""and bytes of them; what begins with more that is no JSON is of no format."""
_PIECE = 4 * 1024
"""Read at once: what comes before damage is seen."""
_TOLD = 64
"""Bytes of a text's end in which an error may be of the end itself."""


class HeadLines:
    """A file's lines from its beginning, seen through a window of so many bytes."""

    def __init__(self, file: IO[bytes], window_bytes: int) -> None:
        self._file = file
        self._window_bytes = window_bytes
        self._ended = False
        self._held = bytearray()
        self.at = 0
        """Bytes of the file before the window."""
        self._fill()

    @property
    def window(self) -> bytes:
        """What is seen of the file from where it stands."""
        return bytes(self._held[: self._window_bytes])

    def find_json(self, *, several_lines: bool = True) -> bool:
        """Goes on to where JSON begins: a line that is a whole object or list, or is too long to be seen whole, or a
        document on `several_lines` where nothing stands before it. Whether there is any."""
        first = several_lines
        for _ in range(MOST_LINES):
            if not self._held or self.at > MOST_BYTES:
                return False
            line = self._line()
            text = line.removeprefix(b"\xef\xbb\xbf").strip()
            begins = text[:1] in (b"{", b"[")
            if begins and (not self._is_whole(line) or is_value(text) or (first and self._is_document())):
                return True
            first = first and not text
            self.pass_line()
        return False

    def pass_line(self) -> None:
        """Goes on to the next line; over one that is longer than the window in pieces that are not kept."""
        line = self._line()
        self._drop(len(line))
        while not line.endswith(b"\n") and self._held and self.at <= MOST_BYTES:
            line = self._line()
            self._drop(len(line))

    def _line(self) -> bytes:
        """The line that it stands at, with its end, or as much of it as is seen."""
        end = self._held.find(b"\n") + 1
        return bytes(self._held[:end] if end else self._held)

    def _is_whole(self, line: bytes) -> bool:
        return line.endswith(b"\n") or (self._ended and len(line) == len(self._held))

    def _is_document(self) -> bool:
        """Whether the value that begins here is well-formed as far as it is seen, and goes on where the file does."""
        text = self.window.decode("utf-8", "replace").removeprefix("\ufeff").strip()
        try:
            json.loads(text)
        except json.JSONDecodeError as error:
            if error.msg == "Extra data":
                return "\n" in text[: error.pos].strip()
            cut = error.msg.startswith("Unterminated string") or error.pos > len(text) - _TOLD
            return cut and not self._ended
        except RecursionError:
            return False
        return True

    def _drop(self, count: int) -> None:
        del self._held[:count]
        self.at += count
        self._fill()

    def _fill(self) -> None:
        """Reads on when less than a window is held; a file that cannot be read on ends there, if it began at all."""
        while not self._ended and len(self._held) < self._window_bytes:
            try:
                piece = self._file.read(_PIECE)
            except OSError:
                if not (self._held or self.at):
                    raise
                piece = b""
            self._held += piece
            self._ended = not piece


def is_value(text: bytes) -> bool:
    """Whether a line is a JSON object or a list, whole."""
    try:
        return isinstance(decode_json(text), dict | list)
    except (ValueError, RecursionError):
        return False


def is_text(start: bytes) -> bool:
    """Whether a file's first bytes can be those of text."""
    if b"\0" in start[:4096] or start[:4] in (b"PAR1", b"PK\x03\x04"):
        return False
    return start[:1] < b"\x80" or start[:3] == b"\xef\xbb\xbf"
