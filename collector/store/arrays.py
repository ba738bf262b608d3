"""Token arrays as little-endian bytes: int32 ids, float32 log-probabilities, int8 masks."""

import math
import struct
import sys
from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np

assert sys.byteorder == "little", "the stored form of arrays is little-endian"

IDS = np.dtype(np.int32)
MASK = np.dtype(np.int8)
FLOATS = np.dtype(np.float32)

_TYPECODES: dict[np.dtype[Any], str] = {IDS: "i", MASK: "b", FLOATS: "f"}


def to_bytes(values: Sequence[float], dtype: np.dtype[Any]) -> bytes:
    """The values as packed bytes; raises rather than wrap, cut or overflow one."""
    if isinstance(values, np.ndarray) and values.dtype == dtype:
        return values.tobytes()
    code = _TYPECODES[dtype]
    if isinstance(values, array) and values.typecode == code:
        return values.tobytes()
    packed = struct.pack(f"{len(values)}{code}", *values)
    if dtype == FLOATS and not np.isfinite(np.frombuffer(packed, FLOATS)).all():
        _refuse_overflow(values, packed)
    return packed


def _refuse_overflow(values: Sequence[float], packed: bytes) -> None:
    for value, kept in zip(values, struct.unpack(f"{len(values)}f", packed), strict=True):
        if math.isinf(kept) and not math.isinf(value):
            raise OverflowError(f"{value} does not fit in float32")
