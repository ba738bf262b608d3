"""The bytes of a file as a reader wants them: decompressed on the way, as UTF-8, and never more than a log can be."""

import codecs
import gzip
import io
import stat
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

import zstandard

_PIECE = 2**20
_ZSTD_PIECE = 2**11
"""Small, since each byte of a hostile .zst can stand for 32 KiB."""
_FREE_BYTES = 2**30
_MOST_RATIO = 1000
"""Beyond the first GiB, more bytes out of one byte than this is no log; repetition alone reaches 1032 in a .gz."""
_MARKS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}


def is_compressed(path: Path) -> bool:
    """Whether its bytes are others than those that `open_plain` gives, told by its name."""
    return path.suffix in (".zst", ".gz") or path.name.endswith(".jsonl.zip")


def gives_own_bytes(path: Path) -> bool:
    """Whether `open_plain` gives the very bytes of the file, so that a place in the one is the same in the other."""
    if is_compressed(path):
        return False
    with path.open("rb") as file:
        return file.read(2) not in _MARKS


def open_plain(path: Path) -> IO[bytes]:
    """A regular file's bytes: those inside of a .zst, .gz or .jsonl.zip, and UTF-16 as UTF-8.

    Whatever is wrong with the file is an OSError, then or while it is read; what came before can be read.
    """
    mode = path.stat().st_mode
    if not stat.S_ISREG(mode):
        raise OSError(f"is {_kind(mode)}, expected a regular file")
    raw = path.open("rb")
    if path.suffix == ".zst":
        source = _Pieces(_inflated(_zstd_pieces(raw), path.stat().st_size), raw)
    elif path.suffix == ".gz":
        source = _Pieces(_inflated(_gzip_pieces(raw), path.stat().st_size), raw)
    elif path.name.endswith(".jsonl.zip"):
        source = _Pieces(_inflated(_zip_pieces(raw), path.stat().st_size), raw)
    else:
        try:
            mark = _MARKS.get(raw.read(2))
            raw.seek(0)
        except OSError:
            raw.close()
            raise
        if mark is None:
            return raw
        source = _Pieces(_utf8(raw, mark), raw)
    return io.BufferedReader(source, _PIECE)


def _kind(mode: int) -> str:
    kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket"}
    return kinds.get(stat.S_IFMT(mode), "a device")


class _Pieces(io.RawIOBase):
    """A file made of pieces that come one after another."""

    def __init__(self, pieces: Iterator[bytes], below: IO[bytes]) -> None:
        self._pieces = pieces
        self._below = below
        self._left = memoryview(b"")

    def readable(self) -> bool:
        """It is."""
        return True

    # The signature of io.RawIOBase.
    def readinto(self, buffer: bytearray | memoryview) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]
        """What is left of a piece, as much as fits; 0 at the end."""
        while not self._left:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._left = memoryview(piece)
        taken = self._left[: len(buffer)]
        self._left = self._left[len(taken) :]
        buffer[: len(taken)] = taken
        return len(taken)

    def close(self) -> None:
        """Closes the file below too."""
        self._below.close()
        super().close()


def _inflated(pieces: Iterator[bytes], compressed: int) -> Iterator[bytes]:
    """The pieces, until they are more than a log can be; what is wrong with them as an OSError."""
    total = 0
    try:
        for piece in pieces:
            total += len(piece)
            if total > _FREE_BYTES and total > _MOST_RATIO * compressed:
                raise OSError(f"grows to more than {_MOST_RATIO} times its size, expected a compressed log")
            yield piece
    except (EOFError, zlib.error, zstandard.ZstdError, zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
        raise OSError(f"its compressed data is damaged: {error}") from error


def _gzip_pieces(raw: IO[bytes]) -> Iterator[bytes]:
    with gzip.GzipFile(fileobj=raw) as file:
        # read1 gives what was read before an error, where read would lose it.
        while piece := file.read1(_PIECE):
            yield piece


def _zstd_pieces(raw: IO[bytes]) -> Iterator[bytes]:
    """All frames of the file; one that ends early is an error, which the library's own reader does not say."""
    decompressor = zstandard.ZstdDecompressor()
    frame = None
    while given := raw.read(_ZSTD_PIECE):
        while given:
            frame = frame or decompressor.decompressobj()
            if piece := frame.decompress(given):
                yield piece
            given = frame.unused_data
            if frame.eof:
                frame = None
    if frame is not None:
        raise EOFError("it ends before its last frame does")


def _zip_pieces(raw: IO[bytes]) -> Iterator[bytes]:
    """The one file in a zip."""
    with zipfile.ZipFile(raw) as archive:
        inside = [each for each in archive.infolist() if not each.is_dir()]
        if len(inside) != 1:
            raise OSError(f"is a zip of {len(inside)} files, expected one of lines")
        with archive.open(inside[0]) as file:
            while piece := cast(zipfile.ZipExtFile, file).read1(_PIECE):
                yield piece


def _utf8(raw: IO[bytes], encoding: str) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    while given := raw.read(_PIECE):
        if piece := decoder.decode(given).encode("utf-8", "replace"):
            yield piece
    if last := decoder.decode(b"", final=True).encode("utf-8", "replace"):
        yield last
