"""The newest part of a log of JSON lines, read alone: whole lines, and only where nothing before them is needed."""

from collections.abc import Iterator
from pathlib import Path

from checks.readers.file_head import FileHead
from checks.readers.file_log import FileLog
from checks.readers.format import Format, Unit
from checks.readers.formats import FORMATS, recognised
from checks.readers.lines import UNCOUNTED, FileEnd
from checks.readers.plain_bytes import gives_own_bytes
from checks.readers.unreadable import UnreadableParts
from checks.rows import Row, TurnRow
from collector.errors import UserError

_BATCH_TOKENS = 100_000
"""Of the end as it is read: it is small, and what reads it may have little memory."""
_PIECE = 2**16
_UNCOUNTED = str(UNCOUNTED)[:10]
_NAMES = ("session_id", "turn_id", "task_id", "group_id")


class NotAlone(UserError):
    """What the end of a log says hangs on what stands before it."""


def log_end(path: Path, *, reads: str | None = None, most_bytes: int) -> FileLog | None:
    """The lines of a file's last `most_bytes` as a log; None where they are none that can be read alone.

    A pass over it raises `NotAlone` where only the rows themselves show that. What it gives are the last rows that the
    whole log gives, but for `place`, since lines before it are not counted; for a native log's scores that stand before
    it; and for what could not be read: a score there may be of a turn before it.
    """
    try:
        if not path.is_file() or not gives_own_bytes(path):
            return None
        head = FileHead.of(path)
    except OSError:
        return None
    told = recognised(head, [form for form in FORMATS if reads in (None, form.name)])
    if told is None or not told.form.alone or not _is_lines(told.head):
        return None
    start = _line_after(path, head.size - most_bytes)
    if start is None:
        return None
    return FileLog(path, [(_alone(told.form), (FileEnd.of(path, start),))], "its end", batch_tokens=_BATCH_TOKENS)


def _is_lines(head: FileHead) -> bool:
    """Whether the first line that is JSON is a whole object, as far as its ends tell."""
    *whole, _ = head.start.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    first = next((line.strip() for line in whole if line.strip()), b"")
    return first.startswith(b"{") and first.endswith(b"}")


def _line_after(path: Path, at: int) -> int | None:
    """Where the first line begins that begins at a byte or after it; None where none does."""
    if at <= 0:
        return 0
    with path.open("rb") as file:
        file.seek(at - 1)
        while piece := file.read(_PIECE):
            found = piece.find(b"\n")
            if found >= 0:
                start = file.tell() - len(piece) + found + 1
                return start if file.read(1) or found + 1 < len(piece) else None
    return None


def _alone(form: Format) -> Format:
    """The format, with its rows held against what it says can be read alone."""

    def read(unit: Unit, unreadable: UnreadableParts) -> Iterator[Row]:
        for row in form.read(unit, unreadable):
            if not isinstance(row, form.alone):
                continue
            if isinstance(row, TurnRow) and row.turn is None:
                raise NotAlone("turns without a number are counted from the first on")
            if any(_UNCOUNTED in name for name in _named(row)):
                raise NotAlone("what is named by its line cannot be named before all lines are counted")
            yield row

    return form._replace(read=read)


def _named(row: Row) -> Iterator[str]:
    for name in _NAMES:
        value = getattr(row, name, None)
        if isinstance(value, str):
            yield value
