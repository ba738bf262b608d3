"""Files of torch.save and plain pickles, read as data: no torch, nothing imported, nothing run."""

import mmap
import struct
from pathlib import Path
from typing import Any

import numpy as np

from checks.readers.pickle_globals import find, storage_of
from checks.readers.pickle_machine import PickleMachine
from checks.readers.pickle_values import Builder, RefusedPickle, items, parts_of
from checks.readers.torch_tensor import DTYPES, Storage
from checks.readers.zip_directory import ZipDirectory

_MAGIC = 0x1950A86A20F9469CFC6C
_PROTOCOL = 1001


# Any: what the file holds is known only when it is read.
def load_file(path: Path) -> Any:
    """The object in a file, tensors over the file itself; RefusedPickle says in one line why there is none."""
    with path.open("rb") as file:
        try:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError:
            raise RefusedPickle("an empty file") from None
    return load(memoryview(mapped))


# Any: as above.
def load(buffer: memoryview, *, storages: bool = True) -> Any:
    """The object in the bytes of a torch file, new or old, or of a plain pickle."""
    if bytes(buffer[:4]) == b"PK\x03\x04":
        return _zipped(buffer)
    if len(buffer) < 2 or buffer[0] != 0x80:
        raise RefusedPickle("neither a zip of torch.save nor a pickle of protocol 2 or later")
    machine = PickleMachine(buffer, _finder(nested=storages))
    first = machine.load()
    if first == _MAGIC:
        return _old(buffer, machine.position)
    return first


# Any: as above.
def _zipped(buffer: memoryview) -> Any:
    directory = ZipDirectory(buffer)
    if "data.pkl" not in directory:
        raise RefusedPickle("a zip without data.pkl, so not of torch.save")
    big = "byteorder" in directory and bytes(directory.bytes_of("byteorder")) == b"big"

    def raw(key: str, _: int, __: str) -> memoryview:
        return directory.bytes_of(f"data/{key}")

    def persistent(identity: object) -> object:
        return storage_of(identity, raw, big_endian=big)

    return PickleMachine(directory.bytes_of("data.pkl"), _finder(nested=True), persistent=persistent).load()


# Any: as above.
def _old(buffer: memoryview, position: int) -> Any:
    """The layout before torch 1.6: four pickles, then the storages; plain pickles hold single storages so."""
    waiting: dict[str, Storage] = {}

    def persistent(identity: object) -> object:
        made = storage_of(identity, _later, big_endian=False)
        return waiting.setdefault(str(parts_of(identity)[2]), made)

    machine = PickleMachine(buffer, find, persistent=persistent, position=position)
    if machine.load() != _PROTOCOL:
        raise RefusedPickle("a torch file of an unknown old layout")
    machine.load()
    result = machine.load()
    keys = machine.load()
    position = machine.position
    for key in items(keys) or ():
        storage = waiting.get(str(key))
        if storage is None:
            raise RefusedPickle("a storage that no tensor of the file uses")
        size = storage.count * np.dtype(DTYPES[storage.dtype]).itemsize
        if position + 8 > len(buffer) or struct.unpack_from("<q", buffer, position)[0] != storage.count:
            raise RefusedPickle("a storage whose length is not the one stated")
        storage.raw = buffer[position + 8 : position + 8 + size]
        position += 8 + size
    return result


def _later(_: str, __: int, ___: str) -> None:
    """In the old layout the storages come after the pickle."""


def _finder(*, nested: bool) -> Any:
    def lookup(module: str, name: str) -> object:
        if nested and module == "torch.storage" and name == "_load_from_bytes":
            return Builder("torch.storage._load_from_bytes", _storage_in)
        return find(module, name)

    return lookup


def _storage_in(content: object) -> object:
    """A storage inside of a plain pickle, in a torch file of its own."""
    if not isinstance(content, bytes):
        raise RefusedPickle("a storage that is no bytes")
    return load(memoryview(content), storages=False)
