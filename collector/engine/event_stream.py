"""Server-sent events, as bytes arrive."""

import re

_LINE_END = re.compile(rb"\r\n|\r|\n")


class EventParser:
    """Cuts a byte stream into the data of its events, however the network split it."""

    def __init__(self) -> None:
        self._line: list[bytes] = []
        self._data: list[bytes] = []
        self._after_return = False
        self._at_start = True

    def feed(self, chunk: bytes) -> list[bytes]:
        """The data of every event that ends inside this chunk, in order."""
        if self._at_start and not self._line and chunk[:1] not in (b"", b"\xef"):
            self._at_start = False
        if self._at_start or self._after_return or self._data or b"\r" in chunk:
            return self._feed_lines(chunk)
        if b"\n" not in chunk:
            self._line.append(chunk)
            return []
        *lines, last = b"".join([*self._line, chunk]).split(b"\n")
        self._line = [last]
        # The common form: one line of data and one empty line, again and again.
        if not len(lines) % 2 and not any(lines[1::2]) and {line[:6] for line in lines[::2]} == {b"data: "}:
            return [line[6:] for line in lines[::2]]
        return self._take_all(lines)

    def _feed_lines(self, chunk: bytes) -> list[bytes]:
        if self._after_return and chunk:
            # The return of the last chunk ended its line already, so a line feed here is its second half.
            chunk = chunk.removeprefix(b"\n")
            self._after_return = False
        if not chunk:
            return []
        self._after_return = chunk.endswith(b"\r")
        first, *rest = _LINE_END.split(chunk)
        self._line.append(first)
        if not rest:
            return []
        lines = [b"".join(self._line), *rest[:-1]]
        self._line = [rest[-1]]
        return self._take_all(lines)

    def _take_all(self, lines: list[bytes]) -> list[bytes]:
        return [event for line in lines if (event := self._take(line)) is not None]

    def _take(self, line: bytes) -> bytes | None:
        if self._at_start:
            line = line.removeprefix(b"\xef\xbb\xbf")
            self._at_start = False
        if not line:
            event, self._data = self._data, []
            return b"\n".join(event) if event else None
        field, _, value = line.partition(b":")
        if field == b"data":
            self._data.append(value.removeprefix(b" "))
        return None
