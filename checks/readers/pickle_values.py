"""What a pickle that was read as data consists of, and how numbers, text and JSON are got out of it."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

# Any: NumPy's own generic parameter for an element type known only when it is read.
Array = np.ndarray[Any, np.dtype[Any]]
JSON_LIMIT = 200_000
"""Values of one object that are turned into JSON; references that repeat count each time."""
_DEPTH_LIMIT = 200


class RefusedPickle(Exception):
    """Why a pickle or a torch file is not read, in one line."""


class Builder(NamedTuple):
    """One of our own functions that stands where a pickle names a function."""

    name: str
    build: Callable[..., object]


class InertType(NamedTuple):
    """Stands where a pickle names a class that is known to hold data; nothing of it is imported."""

    name: str


class Inert:
    """An object of such a class: what it was made from, and the state it was given."""

    def __init__(self, name: str, arguments: tuple[object, ...] = ()) -> None:
        self.name = name
        self.arguments = arguments
        self.state: object = None
        # Any: entries of a subclass of dict, elements of a subclass of list.
        self.entries: dict[Any, Any] = {}
        self.elements: list[Any] = []

    def set_state(self, state: object) -> None:
        """Keeps the state as it is."""
        self.state = state

    def get(self, name: str) -> object:
        """An attribute out of the state."""
        state = self.state
        if type(state) is tuple and len(cast(tuple[object, ...], state)) == 2:
            state = cast(tuple[object, ...], state)[0]
        return cast(dict[object, object], state).get(name) if isinstance(state, dict) else None


class Lazy(Inert):
    """An inert object that holds an array, made when it is asked for."""

    def array(self) -> Array:
        """The array, read only; RefusedPickle when what is stored is not what is stated."""
        raise NotImplementedError


# Any: entries as they were pickled.
def table(value: object) -> dict[str, Any]:
    """A dict as it is; an empty one for anything else."""
    return cast(dict[str, Any], value) if isinstance(value, dict) else {}


# Any: as above.
def parts_of(value: object) -> tuple[Any, ...]:
    """A tuple as it is; an empty one for anything else."""
    return cast(tuple[Any, ...], value) if isinstance(value, tuple) else ()


def numbers(value: object) -> Array | None:
    """A list, tensor or array of numbers in one dimension; None when it is something else."""
    if isinstance(value, Lazy):
        value = value.array()
    if isinstance(value, np.ndarray):
        flat = cast(Array, value)
        return flat if flat.ndim == 1 and flat.dtype.kind in "biuf" else None
    if not isinstance(value, list | tuple):
        return None
    parts = cast(Sequence[object], value)
    pieces: list[Array] = []
    for part in parts:
        if isinstance(part, np.ndarray):
            pieces.append(cast(Array, part))
        elif isinstance(part, int | float) or part is None:
            pieces.append(np.array([math.nan if part is None else part]))
        elif isinstance(part, Lazy) and part.array().ndim == 0:
            pieces.append(part.array().reshape(1))
        else:
            return None
    joined = np.concatenate(pieces) if pieces else np.empty(0)
    return joined if joined.dtype.kind in "biuf" else None


def ids(value: object) -> list[int] | None:
    """Token ids: whole numbers that fit int32."""
    array = numbers(value)
    if array is None or not array.size:
        return None if array is None else []
    if array.dtype.kind == "f" and not (np.isfinite(array).all() and (array == np.floor(array)).all()):
        return None
    wide = array.astype(np.int64)
    fits = int(wide.min()) >= -(2**31) and int(wide.max()) < 2**31
    return cast(list[int], wide.tolist()) if fits else None


def floats(value: object) -> list[float] | None:
    """Floats of any width as Python's, without a loss."""
    array = numbers(value)
    return None if array is None else cast(list[float], array.astype(np.float64).tolist())


def number(value: object) -> float | None:
    """One number, also that of a tensor or array that holds only one; None when it is something else."""
    if isinstance(value, Lazy):
        value = value.array()
    if isinstance(value, np.ndarray):
        array = cast(Array, value)
        value = array.reshape(()).item() if array.size == 1 else None
    try:
        return float(value) if isinstance(value, int | float) else None
    except OverflowError:
        return None


def whole(value: object) -> int | None:
    """One whole number of 64 bits; None when it is something else."""
    if isinstance(value, Lazy):
        value = value.array()
    if isinstance(value, np.ndarray):
        array = cast(Array, value)
        value = array.reshape(()).item() if array.size == 1 else None
    if isinstance(value, float):
        value = int(value) if value.is_integer() else None
    return int(value) if isinstance(value, int) and -(2**63) <= value < 2**63 else None


def items(value: object) -> list[object] | None:
    """The elements of a list, an array or a tensor's first dimension, numbers as Python's; None for anything else."""
    if isinstance(value, Lazy):
        value = value.array()
    if isinstance(value, np.ndarray):
        array = cast(Array, value)
        return list(array) if array.ndim > 1 else cast(list[object], array.tolist())
    if not isinstance(value, list | tuple):
        return None
    found: list[object] = []
    for part in cast(Sequence[object], value):
        if isinstance(part, np.ndarray):
            found.extend(cast(list[object], cast(Array, part).tolist()))
        else:
            found.append(part)
    return found


def as_json(value: object) -> object:
    """The value as JSON has it; RefusedPickle for one that is too large or too deep written out."""
    left = [JSON_LIMIT]
    return _as_json(value, left, 0)


def _as_json(value: object, left: list[int], depth: int) -> object:
    left[0] -= 1
    if left[0] < 0 or depth > _DEPTH_LIMIT:
        raise RefusedPickle(f"messages of more than {JSON_LIMIT:,} values or {_DEPTH_LIMIT} levels")
    if isinstance(value, dict):
        entries = cast(dict[object, object], value)
        return {str(key): _as_json(each, left, depth + 1) for key, each in entries.items()}
    if isinstance(value, list | tuple):
        return [_as_json(each, left, depth + 1) for each in items(cast(list[object], value)) or ()]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, str | int) or value is None else f"<{type(value).__name__}>"
