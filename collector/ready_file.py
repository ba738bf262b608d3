"""The file by which a server tells its parent where it listens: `{"url", "pid"}` as JSON."""

import os
from pathlib import Path

import msgspec


class Ready(msgspec.Struct, frozen=True, kw_only=True):
    """Where a server listens, and which process it is."""

    url: str
    pid: int


def write_ready_file(path: Path, url: str) -> None:
    """Writes the file at once or not at all."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    part.write_bytes(msgspec.json.encode(Ready(url=url, pid=os.getpid())) + b"\n")
    part.replace(path)


def read_ready_file(path: Path) -> Ready:
    """What a server wrote."""
    return msgspec.json.decode(path.read_bytes(), type=Ready)
