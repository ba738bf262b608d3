"""Tensors and NumPy arrays as pickles hold them, made into arrays over the file, without a copy where possible."""

import math
import re
from typing import cast

import numpy as np

from checks.readers.pickle_values import Array, Inert, Lazy, RefusedPickle

_ELEMENT = re.compile(r"b1|[iu][1248]|f[248]|[SU][1-9][0-9]{0,5}")
EXPANDED_LIMIT = 2**24
"""Most elements of a tensor that has more of them than its storage."""
DTYPES: dict[str, str] = {
    "float64": "f8",
    "float32": "f4",
    "float16": "f2",
    "bfloat16": "u2",
    "int64": "i8",
    "int32": "i4",
    "int16": "i2",
    "int8": "i1",
    "uint8": "u1",
    "uint16": "u2",
    "uint32": "u4",
    "uint64": "u8",
    "bool": "?",
}
"""Torch's name of an element type to NumPy's; bfloat16 is widened after it was read."""
STORAGES: dict[str, str] = {
    "DoubleStorage": "float64",
    "FloatStorage": "float32",
    "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16",
    "LongStorage": "int64",
    "IntStorage": "int32",
    "ShortStorage": "int16",
    "CharStorage": "int8",
    "ByteStorage": "uint8",
    "BoolStorage": "bool",
    "UntypedStorage": "uint8",
}
"""Class of a storage to its element type."""


class Storage:
    """The elements that tensors are views of; in older files they follow the pickle, so they are set later."""

    def __init__(self, dtype: str, count: int, raw: memoryview | None = None, *, big_endian: bool = False) -> None:
        self.dtype = dtype
        self.count = count
        self.raw = raw
        self.big_endian = big_endian

    def elements(self, dtype: str) -> Array:
        """All elements, read as a type."""
        kind = np.dtype(DTYPES[dtype]).newbyteorder(">" if self.big_endian else "<")
        size = self.count * np.dtype(DTYPES[self.dtype]).itemsize
        if self.raw is None or self.count < 0 or len(self.raw) < size:
            held = 0 if self.raw is None else len(self.raw)
            raise RefusedPickle(f"a storage of {held} bytes, expected {size}")
        values = np.frombuffer(self.raw[: size - size % kind.itemsize], dtype=kind)
        return widened(values, dtype)


class Tensor(Lazy):
    """A view of a storage: offset, size and stride in elements."""

    def __init__(
        self, storage: object, offset: object, size: object, stride: object, *, dtype: str | None = None
    ) -> None:
        super().__init__("torch.Tensor")
        if not isinstance(storage, Storage) or type(offset) is not int:
            raise RefusedPickle("a tensor without a storage or an offset")
        self._storage = storage
        self._dtype = dtype or storage.dtype
        self._offset = offset
        self._size, self._stride = shape_of(size), shape_of(stride)

    def array(self) -> Array:
        """The tensor's elements, in its shape."""
        elements = self._storage.elements(self._dtype)
        size, stride, offset = self._size, self._stride, self._offset
        count = math.prod(size)
        if len(size) != len(stride) or offset < 0:
            raise RefusedPickle(f"a tensor of shape {size} with strides {stride} from {offset}")
        if count == 0:
            return np.empty(size, dtype=elements.dtype)
        last = offset + sum((extent - 1) * step for extent, step in zip(size, stride, strict=True))
        if last >= len(elements) or count > max(len(elements), EXPANDED_LIMIT):
            raise RefusedPickle(f"a tensor of shape {size} reaches element {last} of a storage of {len(elements)}")
        steps = tuple(step * elements.itemsize for step in stride)
        return np.lib.stride_tricks.as_strided(elements[offset:], size, steps, writeable=False)


class Jagged(Lazy):
    """A nested tensor: rows of unequal length, one after the other."""

    def __init__(self, values: object, offsets: object, lengths: object = None) -> None:
        super().__init__("torch.nested")
        if not isinstance(values, Tensor) or not isinstance(offsets, Tensor):
            raise RefusedPickle("a nested tensor without values or offsets")
        self._values, self._offsets = values, offsets
        self._lengths = lengths if isinstance(lengths, Tensor) else None

    def rows(self) -> list[Array]:
        """The rows, as views."""
        lengths = None if self._lengths is None else self._lengths.array()
        return jagged_rows(self._values.array(), self._offsets.array(), lengths)

    def array(self) -> Array:
        """Refused: rows of unequal length are no array."""
        raise RefusedPickle("a nested tensor where a plain one is expected")


class ElementType(Inert):
    """The element type of a NumPy array, as a pickle names it."""

    def __init__(self, code: object, *_: object) -> None:
        super().__init__("numpy.dtype")
        self.code = code if isinstance(code, str) else ""
        self._order = "|"

    def set_state(self, state: object) -> None:
        """Keeps the byte order."""
        parts = cast(tuple[object, ...], state) if isinstance(state, tuple) else ()
        if len(parts) > 1 and parts[1] in ("<", ">", "|", "="):
            self._order = str(parts[1])

    @property
    def is_object(self) -> bool:
        """Whether elements are objects."""
        return self.code.startswith("O")

    def numpy(self) -> np.dtype[np.generic]:
        """The type, of those that hold numbers or text."""
        if _ELEMENT.fullmatch(self.code) is None:
            raise RefusedPickle(f"an array of element type {self.code[:20]!r}, expected numbers, text or objects")
        found = np.dtype(self.code)
        return found if self._order in "|=" else found.newbyteorder(self._order)  # pyright: ignore[reportArgumentType]


class PickledArray(Lazy):
    """A NumPy array: element type, shape and the bytes or the objects of it."""

    def __init__(
        self, dtype: object = None, shape: object = (), content: object = None, *, columns_first: bool = False
    ) -> None:
        super().__init__("numpy.ndarray")
        self._fill(dtype, shape, content, columns_first)

    def _fill(self, dtype: object, shape: object, content: object, columns_first: bool) -> None:
        self._dtype, self._shape, self._content, self._columns_first = dtype, shape, content, columns_first

    def set_state(self, state: object) -> None:
        """Takes version, shape, element type, order and content, as NumPy writes them."""
        parts = cast(tuple[object, ...], state) if isinstance(state, tuple) else ()
        if len(parts) != 5:
            raise RefusedPickle(f"an array's state has {len(parts)} parts, expected 5")
        self._fill(parts[2], parts[1], parts[4], bool(parts[3]))

    def objects(self) -> list[object] | None:
        """The elements of an array of objects in one dimension; None for other arrays."""
        if isinstance(self._dtype, ElementType) and self._dtype.is_object and isinstance(self._content, list):
            content = cast(list[object], self._content)
            found: list[object] = []
            for part in content:
                found.extend(cast(Array, part).tolist() if isinstance(part, np.ndarray) else [part])
            return found
        return None

    def array(self) -> Array:
        """The array."""
        if not isinstance(self._dtype, ElementType) or not isinstance(self._content, bytes):
            raise RefusedPickle("an array without an element type or without content")
        kind, shape = self._dtype.numpy(), shape_of(self._shape)
        if math.prod(shape) * kind.itemsize != len(self._content) or min(shape, default=0) < 0:
            raise RefusedPickle(f"an array of shape {shape} in {len(self._content)} bytes")
        return np.frombuffer(self._content, dtype=kind).reshape(shape, order="F" if self._columns_first else "C")


def jagged_rows(values: Array, offsets: Array, lengths: Array | None = None) -> list[Array]:
    """Rows that lie one after the other, as views: each from its offset to the next, or of its own length."""
    starts = offsets.reshape(-1).astype(np.int64)
    sizes = np.diff(starts) if lengths is None else lengths.reshape(-1).astype(np.int64)
    starts = starts[: len(sizes)]
    if len(starts) < len(sizes) or (starts < 0).any() or (sizes < 0).any() or (sizes > len(values) - starts).any():
        raise RefusedPickle(f"a nested tensor whose rows reach beyond its {len(values)} values")
    return [values[start : start + size] for start, size in zip(starts, sizes, strict=True)]


def shape_of(value: object) -> tuple[int, ...]:
    """A shape or strides: a few whole numbers, none of them negative."""
    parts = cast(tuple[object, ...], value) if isinstance(value, tuple) else (None,)
    if len(parts) > 16 or any(type(part) is not int or part < 0 or part >= 2**62 for part in parts):
        raise RefusedPickle("a shape or stride that is no small tuple of whole numbers")
    return cast(tuple[int, ...], parts)


def widened(values: Array, dtype: str) -> Array:
    """Elements of bfloat16 as float32, which is exact: its upper half is bfloat16. Others as they are."""
    if dtype != "bfloat16":
        return values
    return (values.astype(np.uint32) << 16).view(np.float32)
