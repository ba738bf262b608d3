"""Experts that tokens were routed to: a Parquet file for each turn beside the segments, with its own retention."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportAttributeAccessIssue=false
# (pyarrow carries no types)

import zlib
from collections.abc import Collection
from datetime import UTC, date, datetime
from pathlib import Path
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from collector.errors import StoreError
from collector.store.layout import Layout, fsync_folder
from collector.store.segments import no_hook, write_durably

_SMALLEST = ((2**8, np.uint8), (2**16, np.uint16), (2**31, np.int32))
EXPIRED = "expired-before"
"""File of a writer's folder that names the day before which its files have been deleted."""


class ExpertFiles:
    """The files of one writer, in folders by the day of the turn."""

    def __init__(self, layout: Layout, writer: str) -> None:
        self._layout = layout
        self._folder = layout.experts / writer

    def place(self, turn_id: str) -> str:
        """The path of a turn's file inside the store."""
        path = self._folder / _day_of(turn_id).isoformat() / f"{turn_id}.parquet"
        return str(path.relative_to(self._layout.root))

    def write(self, turn_id: str, routes: NDArray[np.int32]) -> None:
        """Makes the routes of a turn durable: token by layer by rank."""
        path = self._layout.root / self.place(turn_id)
        _make_durably(path.parent, self._layout.root)
        write_durably(path, _parquet(turn_id, routes), no_hook)

    def expire(self, before: date) -> int:
        """Deletes the files of turns of earlier days; how many went."""
        days = [day for day in self._folder.glob("????-??-??") if day.name < before.isoformat()]
        if not days:
            return 0
        # Noted first: a file that is not there is then known to have expired, and is not missed.
        write_durably(self._folder / EXPIRED, before.isoformat().encode(), no_hook)
        return sum(map(_remove, days))

    def remove_strays(self, named: Collection[str]) -> int:
        """Deletes files that no turn names: a crash came between file and record. How many went."""
        root = self._layout.root
        strays = [path for path in self._folder.glob("*/*") if str(path.relative_to(root)) not in named]
        for path in strays:
            path.unlink()
        for folder in {path.parent for path in strays}:
            fsync_folder(folder)
        return len(strays)


def read_expert_routes(store: Path, place: str) -> NDArray[np.int32] | None:
    """The routes in a file, token by layer by rank; None where they expired. StoreError for damage."""
    path = (store / place).resolve()
    if not path.is_relative_to(store.resolve()):
        raise StoreError(f"{store}: a turn names {place!r}, expected a file of the store; run roundhouse verify")
    try:
        table = pq.read_table(path, page_checksum_verification=True)
        notes = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
        layers, top_k, crc = int(notes["layers"]), int(notes["top_k"]), int(notes["crc32"])
        values = table["experts"].combine_chunks().flatten().to_numpy(zero_copy_only=False).astype(np.int32)
        routes = values.reshape(table.num_rows, layers, top_k)
    except FileNotFoundError as error:
        if has_expired(store, place):
            return None
        raise StoreError(
            f"{path}: no such file, expected the expert routes of a turn; run roundhouse verify"
        ) from error
    except (OSError, ValueError, LookupError, TypeError, pa.ArrowException) as error:
        reason = " ".join(str(error).split())
        raise StoreError(f"{path}: {reason}, expected the expert routes of a turn; run roundhouse verify") from error
    if zlib.crc32(routes.tobytes()) != crc or notes.get("turn_id") != path.stem:
        raise StoreError(f"{path}: other routes than were written, expected those of its turn; run roundhouse verify")
    return routes


def has_expired(store: Path, place: str) -> bool:
    """Whether a turn's file was deleted for its age."""
    parts = Path(place).parts
    try:
        before = (store / parts[0] / parts[1] / EXPIRED).read_text(encoding="ascii")
        return parts[2] < before
    except (OSError, ValueError, IndexError):
        return False


def _parquet(turn_id: str, routes: NDArray[np.int32]) -> memoryview:
    tokens, layers, top_k = routes.shape
    most = int(routes.max(initial=0))
    kind = next(kind for limit, kind in _SMALLEST if most < limit)
    flat = pa.array(np.ascontiguousarray(routes, np.int32).astype(kind).reshape(-1))
    column = pa.FixedSizeListArray.from_arrays(flat, layers * top_k)
    crc = zlib.crc32(np.ascontiguousarray(routes, np.int32).tobytes())
    notes = {"turn_id": turn_id, "layers": str(layers), "top_k": str(top_k), "crc32": str(crc)}
    table = pa.table({"experts": column}).replace_schema_metadata(notes)
    assert table.num_rows == tokens
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", compression_level=1, write_page_checksum=True)
    return memoryview(sink.getvalue())


def _day_of(turn_id: str) -> date:
    """The day in UTC that a UUIDv7 begins with."""
    return datetime.fromtimestamp((UUID(turn_id).int >> 80) / 1000, UTC).date()


def _make_durably(folder: Path, root: Path) -> None:
    missing = [path for path in (folder, *folder.parents) if path.is_relative_to(root) and not path.is_dir()]
    for path in reversed(missing):
        path.mkdir(exist_ok=True)
        fsync_folder(path.parent)


def _remove(folder: Path) -> int:
    files = list(folder.iterdir())
    for path in files:
        path.unlink(missing_ok=True)
    folder.rmdir()
    fsync_folder(folder.parent)
    return len(files)
