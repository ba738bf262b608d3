"""Batches of tensors as frameworks pickle them: tensordict, verl's and ROLL's DataProto, SkyRL's TensorBatch."""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from checks.readers.pickle_globals import inert_named
from checks.readers.pickle_values import Array, Inert, Lazy, RefusedPickle, items, parts_of, table, whole
from checks.readers.torch_file import load
from checks.readers.torch_tensor import DTYPES, Jagged, PickledArray, jagged_rows, widened

Columns = dict[str, list[Any]]
"""Name to one entry for each row: an array for a tensor, else what was pickled."""


class JaggedRows(list[Any]):
    """Rows of a nested tensor: of unequal length, so without padding."""


_VALUES, _OFFSETS = "<NJT_VALUES>", "<NJT_OFFSETS>"


# Any: an array, or what was pickled.
def cell(columns: Columns, name: str, row: int) -> Any:
    """What a column holds for a row; None where there is no such column or it ends before."""
    held = columns.get(name)
    return held[row] if held is not None and row < len(held) else None


def columns_of(batch: object) -> Columns:
    """The columns of a tensordict, or of what verl writes in its place."""
    if batch is None:
        return {}
    made = inert_named(batch, "._make_td")
    if made is not None and len(made.arguments) == 2:
        return _columns(table(made.arguments[1]).get("_tensordict"))
    made = inert_named(batch, "._rebuild_tensordict_files_consolidated", "._rebuild_tensordict_files")
    if made is not None and len(made.arguments) == 2:
        return _consolidated(made.arguments[0], made.arguments[1])
    if len(parts := parts_of(batch)) == 3:
        return _as_numpy(parts[2])
    raise RefusedPickle(f"a {type(batch).__name__} where a batch of tensors is expected")


def _columns(fields: object) -> Columns:
    if not isinstance(fields, dict):
        raise RefusedPickle("a tensordict without fields")
    found: Columns = {}
    for name, value in cast(dict[str, object], fields).items():
        rows = rows_of(value)
        if rows is not None:
            found[str(name)] = rows
    return found


# Any: an entry for each row.
def rows_of(value: object) -> list[Any] | None:
    """One entry for each row of a field; None for a field of another shape."""
    if isinstance(value, Jagged):
        return JaggedRows(value.rows())
    stack = inert_named(value, "NonTensorStack")
    if stack is not None:
        return [_plain(each) for each in cast(list[object], stack.get("tensordicts") or [])]
    if isinstance(value, PickledArray) and (held := value.objects()) is not None:
        return held
    if isinstance(value, Lazy):
        array = value.array()
        return list(array) if array.ndim else None
    return cast(list[Any], value) if isinstance(value, list) else None


def _plain(value: object) -> object:
    data = inert_named(value, "NonTensorData")
    held = data.get("non_tensordict") if data is not None else None
    return cast(dict[str, object], held).get("data") if isinstance(held, dict) else value


def _consolidated(metadata: object, storage: object) -> Columns:
    """Fields that lie one after the other in a single tensor of bytes, with their places beside it."""
    leaves = cast(dict[str, Any], metadata).get("leaves") if isinstance(metadata, dict) else None
    if not isinstance(leaves, dict) or not isinstance(storage, Lazy):
        raise RefusedPickle("a consolidated tensordict without its leaves or its storage")
    content = storage.array()
    arrays = {name: _leaf(name, content, leaf) for name, leaf in cast(dict[str, object], leaves).items()}
    found: Columns = {name: list(array) for name, array in arrays.items() if not name.startswith("<") and array.ndim}
    for name, values in arrays.items():
        if name.startswith(_VALUES):
            offsets = arrays.get(_OFFSETS + name.removeprefix(_VALUES))
            if offsets is None:
                raise RefusedPickle(f"a consolidated nested tensor {name!r} without offsets")
            found[name.removeprefix(_VALUES)] = JaggedRows(jagged_rows(values, offsets))
    return found


def _leaf(name: str, content: Array, leaf: object) -> Array:
    parts = cast(tuple[Any, ...], leaf) if isinstance(leaf, tuple) else ()
    dtype = str(parts[0]).removeprefix("torch.") if parts else ""
    shape = [whole(extent) for extent in items(parts[1]) or ()] if len(parts) > 4 else [None]
    bounds = [whole(part) for part in parts[2:5]]
    if dtype not in DTYPES or None in shape or None in bounds:
        raise RefusedPickle(f"field {name[:40]!r} of a consolidated tensordict is not described as expected")
    start, stop, padding = cast(list[int], bounds)
    raw = content[start : stop - padding]
    return _typed(raw.tobytes(), dtype, cast(list[int], shape))


def _typed(raw: bytes, dtype: str, shape: Sequence[int]) -> Array:
    kind = np.dtype(DTYPES[dtype]).newbyteorder("<")
    if len(raw) != int(np.prod(shape, dtype=object)) * kind.itemsize or min(shape, default=0) < 0:
        raise RefusedPickle(f"a tensor of shape {tuple(shape)} in {len(raw)} bytes")
    return widened(np.frombuffer(raw, dtype=kind), dtype).reshape(shape)


def _as_numpy(fields: object) -> Columns:
    """verl with VERL_DATAPROTO_SERIALIZATION_METHOD=numpy: (element type, shape, bytes) for each field."""
    found: Columns = {}
    for name, value in cast(dict[str, Any], fields).items() if isinstance(fields, dict) else ():
        parts = cast(tuple[Any, ...], value) if isinstance(value, tuple) else ()
        if len(parts) == 3:
            found[name] = list(_triple(parts))
        elif len(parts) == 2 and isinstance(parts[1], list):
            found[name] = [_triple(part) for part in cast(list[Any], parts[1])]
    return found


# Any: one field as verl encodes it.
def _triple(parts: Any) -> Array:
    dtype, shape, content = parts
    raw = content.array().tobytes() if isinstance(content, Lazy) else content
    extents = [whole(extent) for extent in items(shape) or ()]
    if dtype not in DTYPES or None in extents or not isinstance(raw, bytes):
        raise RefusedPickle(f"a tensor of type {str(dtype)[:40]!r} that is not encoded as expected")
    return _typed(raw, dtype, cast(list[int], extents))


def data_proto(value: object) -> tuple[Columns, Columns, dict[str, Any]]:
    """Tensors, other columns and meta information of a DataProto of verl or ROLL."""
    proto = inert_named(value, "DataProto")
    state = cast(tuple[object, ...], proto.state) if proto is not None and isinstance(proto.state, tuple) else ()
    if len(state) != 3:
        raise RefusedPickle("no DataProto of verl or ROLL in it")
    batch = load(memoryview(state[0])) if isinstance(state[0], bytes) else state[0]
    others = cast(dict[str, object], state[1]) if isinstance(state[1], dict) else {}
    plain = {name: rows for name, held in others.items() if (rows := rows_of(held)) is not None}
    return columns_of(batch), plain, table(state[2])


def tensor_batch(value: object) -> tuple[Columns, dict[str, Any]]:
    """Tensors and metadata of SkyRL's TensorBatch, in each of the layouts that it was pickled in."""
    if not isinstance(value, Inert):
        raise RefusedPickle("no TensorBatch of SkyRL in it")
    state = table(value.state) or next((held for part in value.arguments if (held := table(part))), table(None))
    fields = state.get("batch_dict")
    if not isinstance(fields, dict):
        raise RefusedPickle("a TensorBatch of SkyRL without its batch_dict")
    found: Columns = {}
    for name, held in cast(dict[str, object], fields).items():
        rows = _skyrl_rows(held)
        if rows is not None:
            found[name] = rows
    return found, table(state.get("metadata"))


# Any: an entry for each row.
def _skyrl_rows(held: object) -> list[Any] | None:
    if held is None:
        return None
    if isinstance(held, bytes):
        return rows_of(load(memoryview(held)))
    encoded = cast(dict[str, Any], held) if isinstance(held, dict) else {}
    form, content = encoded.get("format", "numpy"), encoded.get("data")
    if form == "torch" and isinstance(content, bytes):
        return rows_of(load(memoryview(content)))
    if form == "numpy" and isinstance(content, bytes):
        extents = [whole(extent) for extent in items(encoded.get("shape")) or ()]
        if str(encoded.get("dtype")) not in DTYPES or None in extents:
            raise RefusedPickle(f"a tensor of type {str(encoded.get('dtype'))[:40]!r}, which is not read")
        array = _typed(content, str(encoded["dtype"]), cast(list[int], extents))
        return list(array) if array.ndim else None
    return None
