"""The bf16 delta codec: from the bits of one tensor to the bits of the next, sending only what changed.

A delta is one message, all integers little-endian:

    magic        4 bytes   "RHBD"
    version      uint16    1
    reserved     uint16    0
    elements     uint64    bf16 values in the tensor
    changed      uint64    values whose bits differ
    gap_bytes    uint64    length of the positions below
    base         uint64    XXH3-64 of the tensor it starts from
    target       uint64    XXH3-64 of the tensor it makes
    positions    varints   gaps between changed indices, the first counted from -1: 7 bits a byte, low bits first
    values       uint16    the changed values' new bits, in the order of their indices
    checksum     uint64    XXH3-64 of everything before it

Bits are compared, not numbers: -0.0, infinities and NaN payloads come back as they were. XXH3 tells an accident,
not an attacker; whoever carries deltas over an untrusted link signs them. Gap-coded positions and a checked,
bit-identical reconstruction are what PULSE describes (lecture 12, section 4); the layout is ours. Tensors are
hashed as they lie in memory, so both ends are little-endian.
"""

import struct
from typing import NamedTuple

import numpy as np
import xxhash
from numpy.typing import NDArray

MAGIC = b"RHBD"
VERSION = 1
BLOCK_VALUES = 1 << 17
"""Values handled at a time, so that comparing, copying and hashing share one trip through the cache."""

_HEADER = struct.Struct("<4sHHQQQQQ")
_CHECKSUM = struct.Struct("<Q")
_MAX_VARINT_BYTES = 9

Bf16Bits = NDArray[np.uint16]
"""The bits of bf16 values; `tensor.view(torch.uint16).numpy()` gives them."""


class DeltaError(ValueError):
    """A delta that is damaged, or does not belong to the tensor it was given."""


class DeltaHeader(NamedTuple):
    """What a delta says about itself."""

    elements: int
    changed: int
    gap_bytes: int
    base_xxh3: int
    target_xxh3: int

    @property
    def message_bytes(self) -> int:
        """Length of the whole message."""
        return _HEADER.size + self.gap_bytes + 2 * self.changed + _CHECKSUM.size


def encode(base: Bf16Bits, target: Bf16Bits) -> bytes:
    """The delta that turns `base` into `target`."""
    before, after = _flat("base", base), _flat("target", target)
    if before.size != after.size:
        raise DeltaError(f"base has {before.size} values and target {after.size}, expected one shape")
    base_hash, target_hash = xxhash.xxh3_64(), xxhash.xxh3_64()
    found: list[NDArray[np.int64]] = []
    values: list[Bf16Bits] = []
    for start in range(0, before.size, BLOCK_VALUES):
        old, new = before[start : start + BLOCK_VALUES], after[start : start + BLOCK_VALUES]
        base_hash.update(old.data)
        target_hash.update(new.data)
        changed = np.flatnonzero(old != new)
        found.append(changed + start)
        values.append(new[changed])
    positions = np.concatenate([np.empty(0, np.int64), *found])
    gaps = _to_varints(np.diff(positions, prepend=-1).astype(np.uint64))
    header = _HEADER.pack(
        MAGIC, VERSION, 0, before.size, positions.size, gaps.size, base_hash.intdigest(), target_hash.intdigest()
    )
    body = b"".join((header, gaps.data, *(each.data for each in values)))
    return body + _CHECKSUM.pack(xxhash.xxh3_64_intdigest(body))


def decode(delta: bytes | memoryview, base: Bf16Bits) -> Bf16Bits:
    """The tensor that `delta` makes of `base`, in a new array; refuses a damaged delta and any other base."""
    header = read_header(delta)
    before = _flat("base", base)
    if header.elements != before.size:
        raise DeltaError(f"delta is for {header.elements} values and the base has {before.size}; give it its own base")
    positions, values = _read_body(delta, header)
    after = np.empty_like(before)
    base_hash, target_hash = xxhash.xxh3_64(), xxhash.xxh3_64()
    edges = np.searchsorted(positions, np.arange(0, before.size + BLOCK_VALUES, BLOCK_VALUES))
    for block, start in enumerate(range(0, before.size, BLOCK_VALUES)):
        old, new = before[start : start + BLOCK_VALUES], after[start : start + BLOCK_VALUES]
        base_hash.update(old.data)
        new[:] = old
        here = slice(edges[block], edges[block + 1])
        new[positions[here] - start] = values[here]
        target_hash.update(new.data)
    if base_hash.intdigest() != header.base_xxh3:
        raise DeltaError("delta was made from another base; fetch the version it names or the full weights")
    if target_hash.intdigest() != header.target_xxh3:
        raise DeltaError("rebuilt tensor differs from the one encoded: the delta contradicts itself; fetch it again")
    return after.reshape(base.shape)


def read_header(delta: bytes | memoryview) -> DeltaHeader:
    """The header, after magic, version and length have been checked; nothing is allocated on its word."""
    if len(delta) < _HEADER.size + _CHECKSUM.size:
        raise DeltaError(f"delta has {len(delta)} bytes, expected at least {_HEADER.size + _CHECKSUM.size}")
    magic, version, reserved, *numbers = _HEADER.unpack_from(delta)
    if magic != MAGIC or reserved != 0:
        raise DeltaError(f"not a bf16 delta: it begins with {magic!r}, expected {MAGIC!r}")
    if version != VERSION:
        raise DeltaError(f"delta has format version {version}, expected {VERSION}; upgrade the reader")
    header = DeltaHeader(*numbers)
    if header.changed > header.elements:
        raise DeltaError(f"delta says that {header.changed} of {header.elements} values changed")
    if header.message_bytes != len(delta):
        raise DeltaError(f"delta has {len(delta)} bytes, its header says {header.message_bytes}: cut off or damaged")
    return header


def _flat(name: str, tensor: Bf16Bits) -> Bf16Bits:
    if tensor.dtype != np.uint16:
        raise DeltaError(f"{name} has dtype {tensor.dtype}, expected uint16: the bits of bf16 values")
    return np.ascontiguousarray(tensor).reshape(-1)


def _to_varints(numbers: NDArray[np.uint64]) -> NDArray[np.uint8]:
    lengths = np.ones(numbers.size, np.int64)
    for byte in range(1, _MAX_VARINT_BYTES):
        longer = numbers >= np.uint64(1 << 7 * byte)
        if not longer.any():
            break
        lengths += longer
    ends = np.cumsum(lengths)
    coded = np.empty(int(ends[-1]) if ends.size else 0, np.uint8)
    starts = ends - lengths
    coded[starts] = numbers & np.uint64(0x7F)
    for byte in range(1, int(lengths.max(initial=1))):
        at = np.flatnonzero(lengths > byte)
        coded[starts[at] + byte - 1] |= np.uint8(0x80)
        coded[starts[at] + byte] = (numbers[at] >> np.uint64(7 * byte)) & np.uint64(0x7F)
    return coded


def _from_varints(coded: NDArray[np.uint8], count: int) -> NDArray[np.uint64]:
    ends = np.flatnonzero(coded < 0x80)
    if ends.size != count or (coded.size and coded[-1] >= 0x80):
        raise DeltaError(f"delta has {ends.size} whole positions, its header says {count} changes")
    starts = np.concatenate((np.zeros(1, np.int64), ends[:-1] + 1))[:count]
    lengths = ends - starts + 1
    longest = int(lengths.max(initial=1))
    if longest > _MAX_VARINT_BYTES:
        raise DeltaError(f"delta has a position of {longest} bytes, expected at most {_MAX_VARINT_BYTES}")
    numbers = (coded[starts] & np.uint8(0x7F)).astype(np.uint64)
    for byte in range(1, longest):
        at = np.flatnonzero(lengths > byte)
        part = coded[starts[at] + byte] & np.uint8(0x7F)
        numbers[at] |= part.astype(np.uint64) << np.uint64(7 * byte)
    if np.any(coded[ends[lengths > 1]] == 0):
        raise DeltaError("delta has a position padded with zero bytes, expected the shortest form")
    return numbers


def _read_body(delta: bytes | memoryview, header: DeltaHeader) -> tuple[NDArray[np.int64], Bf16Bits]:
    view = memoryview(delta)
    (checksum,) = _CHECKSUM.unpack_from(view, len(view) - _CHECKSUM.size)
    if xxhash.xxh3_64_intdigest(view[: -_CHECKSUM.size]) != checksum:
        raise DeltaError("delta does not match its own checksum: damaged on the way; fetch it again")
    values_at = _HEADER.size + header.gap_bytes
    coded = np.frombuffer(view[_HEADER.size : values_at], np.uint8)
    values = np.frombuffer(view[values_at : -_CHECKSUM.size], "<u2")
    gaps = _from_varints(coded, header.changed)
    # Steps are checked before they are added up, so the sum cannot wrap round past the end unseen.
    if np.any(gaps == 0) or np.any(gaps > np.uint64(header.elements)):
        raise DeltaError(f"delta has a gap outside 1 to {header.elements}")
    positions = np.cumsum(gaps, dtype=np.uint64)
    if positions.size and int(positions.max()) > header.elements:
        raise DeltaError(f"delta changes value {int(positions.max()) - 1} of {header.elements}")
    return positions.astype(np.int64) - 1, values
