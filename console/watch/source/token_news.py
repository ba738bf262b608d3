"""What the process that reads tokens tells the feed, over a pipe."""

import io
import struct

import msgspec
import polars as pl

_LENGTH = struct.Struct("<Q")


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What to read; the one line that the process is started with."""

    path: str
    reads: str | None = None
    """Format of a log; None lets the content tell it."""
    tokenizer: str | None = None
    window_s: float | None = None
    window_turns: int | None = None
    rows: bool = False
    """Of a log: whether its rows are told too, without the long columns."""
    tokens: bool = True
    """Of a log: whether its tokens are measured."""


class LogEnds(msgspec.Struct, frozen=True, kw_only=True):
    """What there is of a log beside its turns, once all of it was read."""

    format: str
    damage: tuple[str, ...]
    tables: dict[str, bytes]
    """The other tables as Arrow IPC."""


class News(msgspec.Struct, frozen=True, kw_only=True):
    """How far it has come."""

    share: float
    """How much of the turns was read; 1 when nothing is left for now."""
    turns: bytes | None = None
    """Of a log: the turns after those that were told before, as Arrow IPC."""
    ends: LogEnds | None = None
    """Of a log: the rest, after the last of its turns."""
    frames: dict[str, bytes] = {}
    """What each measure gives, by its name, as Arrow IPC; those that are missing are as they were."""
    error: str | None = None


def packed(news: News) -> bytes:
    """The news with its length before it."""
    body = msgspec.msgpack.encode(news)
    return _LENGTH.pack(len(body)) + body


def unpacked(received: bytearray) -> News | None:
    """Takes the first whole news off the front; None while there is none."""
    if len(received) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack_from(received)
    if len(received) < _LENGTH.size + length:
        return None
    body = bytes(received[_LENGTH.size : _LENGTH.size + length])
    del received[: _LENGTH.size + length]
    return msgspec.msgpack.decode(body, type=News)


def frame_bytes(frame: pl.DataFrame) -> bytes:
    """A frame as Arrow IPC."""
    written = io.BytesIO()
    frame.write_ipc(written)
    return written.getvalue()


def frame_of(body: bytes) -> pl.DataFrame:
    """The frame again."""
    return pl.read_ipc(io.BytesIO(body))
