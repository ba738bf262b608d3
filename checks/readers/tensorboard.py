"""TensorBoard event files: their scalars, record by record, each with its check sum."""

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, NamedTuple

import msgspec
import numpy as np

from checks.readers.file_head import FileHead
from checks.readers.format import Format, Unit
from checks.readers.metric_names import is_metric, step_row, time_in
from checks.readers.unreadable import UnreadableParts
from checks.rows import Row

RECORD_LIMIT = 2**20
"""Longest record that is read: a scalar has some 100 bytes; images and histograms are passed over."""
_MASK = 0xA282EAD8
_POLYNOMIAL = 0x82F63B78
_LENGTH = struct.Struct("<QI")
_FLOATS = {1: "<f4", 2: "<f8", 3: "<i4", 9: "<i8"}


def _table() -> tuple[int, ...]:
    entries: list[int] = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)
        entries.append(value)
    return tuple(entries)


_TABLE = _table()


def masked_crc(content: bytes) -> int:
    """CRC-32C, rotated and offset, as record files carry it."""
    crc = 0xFFFFFFFF
    for byte in content:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + _MASK) & 0xFFFFFFFF


class Scalar(NamedTuple):
    """One value of one metric."""

    step: int
    wall_time: float
    tag: str
    value: float


def recognise(head: FileHead) -> str | None:
    """By the first record, which has a check sum and names the version of the file."""
    if len(head.start) < 24 or b"brain.Event:" not in head.start[:64]:
        return None
    if masked_crc(head.start[:8]) != struct.unpack_from("<I", head.start, 8)[0]:
        return None
    return "a TensorBoard event file, by its first record"


def read(unit: Unit, unreadable: UnreadableParts) -> Iterator[Row]:
    """One row for each step, of the scalars whose names are known."""
    by_step: dict[int, dict[str, float]] = {}
    times: dict[int, float] = {}
    for path in unit:
        for scalar in scalars(path, unreadable):
            if is_metric(scalar.tag):
                by_step.setdefault(scalar.step, {})[scalar.tag] = scalar.value
                times.setdefault(scalar.step, scalar.wall_time)
    for step in sorted(by_step):
        row = step_row(step, by_step[step])
        if row is not None:
            yield msgspec.structs.replace(row, at=time_in(times[step]))


def scalars(path: Path, unreadable: UnreadableParts) -> Iterator[Scalar]:
    """The scalars of a file. A cut last record is usual in a live run: it is counted, and what is before it is read."""
    with path.open("rb") as file:
        for position, content in _records(file, path.name, unreadable):
            try:
                yield from _scalars_of(content)
            except (IndexError, ValueError, struct.error, UnicodeDecodeError) as error:
                unreadable.add(f"{path.name}:byte {position}", f"a record that is no event: {error}")


def _records(file: IO[bytes], name: str, unreadable: UnreadableParts) -> Iterator[tuple[int, bytes]]:
    while True:
        position = file.tell()
        head = file.read(_LENGTH.size)
        if not head:
            return
        if len(head) < _LENGTH.size:
            unreadable.add(f"{name}:byte {position}", "the last record is cut off; what is before it was read")
            return
        length, stated = _LENGTH.unpack(head)
        if masked_crc(head[:8]) != stated:
            unreadable.add(f"{name}:byte {position}", "a record's length does not match its check sum; stopped there")
            return
        if length > RECORD_LIMIT:
            file.seek(length + 4, 1)
            continue
        content = file.read(length + 4)
        if len(content) < length + 4:
            unreadable.add(f"{name}:byte {position}", "the last record is cut off; what is before it was read")
            return
        if masked_crc(content[:-4]) != struct.unpack("<I", content[-4:])[0]:
            unreadable.add(f"{name}:byte {position}", "a record does not match its check sum")
            continue
        yield position, content[:-4]


Field = tuple[int, int, bytes]
"""Number, value of a plain field, content of one with a length."""


def _fields(content: bytes) -> Iterator[Field]:
    """The fields of a protocol buffer message."""
    position = 0
    while position < len(content):
        key, position = _varint(content, position)
        kind = key & 7
        if kind == 0:
            value, position = _varint(content, position)
            yield key >> 3, value, b""
        elif kind in (1, 5):
            width = 8 if kind == 1 else 4
            if position + width > len(content):
                raise ValueError("a field beyond its end")
            yield key >> 3, 0, content[position : position + width]
            position += width
        elif kind == 2:
            length, position = _varint(content, position)
            if position + length > len(content):
                raise ValueError("a field beyond its end")
            yield key >> 3, 0, content[position : position + length]
            position += length
        else:
            raise ValueError(f"wire type {kind}")


def _varint(content: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = content[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, position
        shift += 7
        if shift > 63:
            raise ValueError("a number of more than ten bytes")


def _scalars_of(content: bytes) -> Iterator[Scalar]:
    """Event: wall_time 1, step 2, summary 5; Summary: value 1; Value: tag 1, simple_value 2, tensor 8."""
    step, wall_time, summary = 0, 0.0, b""
    for number, value, inner in _fields(content):
        if number == 1:
            wall_time = struct.unpack("<d", inner)[0]
        elif number == 2:
            step = value - 2**64 if value >= 2**63 else value
        elif number == 5:
            summary = inner
    for number, _, inner in _fields(summary):
        if number != 1:
            continue
        tag, found = "", None
        for part, _, held in _fields(inner):
            if part == 1:
                tag = held.decode("utf-8")
            elif part == 2:
                found = struct.unpack("<f", held)[0]
            elif part == 8:
                found = _tensor(held)
        if tag and found is not None:
            yield Scalar(step, wall_time, tag, found)


def _tensor(content: bytes) -> float | None:
    """A tensor of one element: dtype 1, tensor_content 4, float_val 5, double_val 6, int_val 7, int64_val 10."""
    kind, raw, value = 0, b"", None
    for number, plain, held in _fields(content):
        if number == 1:
            kind = plain
        elif number == 4:
            raw = held
        elif number in (5, 6) and held:
            width = 4 if number == 5 else 8
            value = struct.unpack_from("<f" if number == 5 else "<d", held)[0] if len(held) == width else None
        elif number in (7, 10):
            value = float(held[0] if held else plain)
    if raw and kind in _FLOATS and len(raw) == np.dtype(_FLOATS[kind]).itemsize:
        value = float(np.frombuffer(raw, dtype=_FLOATS[kind])[0])
    return value


def _all_together(heads: Sequence[FileHead]) -> list[Unit]:
    return [tuple(head.path for head in heads)]


TENSORBOARD = Format(
    name="tensorboard",
    about="TensorBoard event files: scalars of OpenRLHF, verl, slime, transformers and others",
    recognise=recognise,
    read=read,
    units=_all_together,
    advice={
        "turns.completion_ids": "event files have no tokens: put the rollout dump into the same folder",
        "steps.kl_mu_old": "OpenRLHF: --algo.advantage.is_correction_enable, so that vllm_kl is logged",
    },
)
