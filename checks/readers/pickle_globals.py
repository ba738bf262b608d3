"""Which names a pickle may use: builders of plain data and tensors, and classes of known frameworks kept inert."""

from collections.abc import Callable
from typing import Any, cast

from checks.readers.pickle_stack import hashable
from checks.readers.pickle_values import Builder, Inert, InertType, RefusedPickle, items, parts_of, table
from checks.readers.torch_tensor import DTYPES, STORAGES, ElementType, Jagged, PickledArray, Storage, Tensor

FRAMEWORKS = frozenset(
    {
        *("slime", "miles", "skyrl", "skyrl_train", "skyrl_gym", "verl", "roll", "tensordict", "transfer_queue"),
        *("omegaconf", "sglang", "vllm", "transformers", "PIL", "torch._dynamo", "torch._C", "torch.serialization"),
    }
)
"""Packages whose classes are known to hold data: what is made of them stays inert."""
_PLAIN_CLASSES = frozenset(
    {
        *(
            "builtins.list",
            "builtins.dict",
            "builtins.int",
            "builtins.long",
            "builtins.float",
            "builtins.str",
            "builtins.bool",
        ),
        *("builtins.tuple", "builtins.object", "builtins.slice", "builtins.complex", "types.SimpleNamespace"),
        *("datetime.datetime", "datetime.date", "datetime.time", "datetime.timedelta", "datetime.timezone"),
        *("pathlib.Path", "pathlib.PosixPath", "pathlib.PurePosixPath", "pathlib.WindowsPath"),
        *("uuid.UUID", "decimal.Decimal", "fractions.Fraction", "argparse.Namespace", "numpy.ndarray"),
        *("torch.device", "torch.Tensor", "torch.layout", "torch.nested._internal.nested_tensor.NestedTensor"),
    }
)


def _mapping(*arguments: object) -> dict[object, object]:
    """A dict from nothing, a dict or pairs, after a factory or without."""
    given = arguments[-1] if arguments else ()
    pairs = [*table(given).items()] or [pair for each in items(given) or () if len(pair := parts_of(each)) == 2]
    return {hashable(key): value for key, value in pairs}


def _encode(text: object, encoding: object = "latin1") -> bytes:
    """How protocol 2 writes bytes."""
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):
        raise RefusedPickle("bytes in an encoding other than latin1")
    return text.encode("latin-1")


def _bytes(content: object = b"", *_: object) -> bytes:
    return _encode(content) if isinstance(content, str) else content if isinstance(content, bytes) else b""


def _attribute(owner: object, name: object) -> InertType:
    """How protocol 2 names a class inside of a class."""
    if not isinstance(owner, InertType) or not isinstance(name, str) or owner.name.split(".")[0] not in FRAMEWORKS:
        raise RefusedPickle("an attribute of something that is no class of a known framework")
    return InertType(f"{owner.name}.{name[:100]}")


def _type_name(value: object, fallback: str) -> str:
    name = value.name.removeprefix("torch.") if isinstance(value, InertType) else fallback
    if name not in DTYPES:
        raise RefusedPickle(f"elements of type {name[:40]}, which is not read")
    return name


def _tensor(storage: object, offset: object, size: object, stride: object, *_: object) -> Tensor:
    return Tensor(storage, offset, size, stride)


def _typed_tensor(storage: object, offset: object, size: object, stride: object, *rest: object) -> Tensor:
    return Tensor(storage, offset, size, stride, dtype=_type_name(rest[2], "float32"))


def _parameter(tensor: object, *_: object) -> object:
    return tensor


def _of_type(builder: object, _: object, arguments: object, __: object = None) -> object:
    if not isinstance(builder, Builder) or not isinstance(arguments, tuple):
        raise RefusedPickle("a tensor subclass that is not known")
    return builder.build(*cast(tuple[object, ...], arguments))


# Any: keyword arguments of torch's constructor.
def _jagged(parts: dict[str, Any]) -> Jagged:
    return Jagged(parts.get("values"), parts.get("offsets"), parts.get("lengths"))


def _reconstructed(*_: object) -> PickledArray:
    return PickledArray()


def _scalar(dtype: object, content: object) -> object:
    if isinstance(dtype, ElementType) and dtype.is_object:
        return content
    return PickledArray(dtype, (), content).array().item()


def _from_buffer(content: object, dtype: object, shape: object, order: object) -> PickledArray:
    return PickledArray(dtype, shape, content, columns_first=order == "F")


def _size(parts: object = ()) -> tuple[object, ...]:
    return tuple(cast(list[object], parts)) if isinstance(parts, list | tuple) else ()


def _list(parts: object = (), *_: object) -> list[object]:
    return list(cast(list[object], parts)) if isinstance(parts, list | tuple) else []


_BUILDERS: dict[str, Callable[..., object]] = {
    "collections.OrderedDict": _mapping,
    "collections.defaultdict": _mapping,
    "collections.Counter": _mapping,
    "collections.deque": _list,
    "builtins.set": _list,
    "builtins.frozenset": _list,
    "builtins.bytearray": _bytes,
    "builtins.bytes": _bytes,
    "builtins.getattr": _attribute,
    "_codecs.encode": _encode,
    "torch.Size": _size,
    "torch._utils._rebuild_tensor": _tensor,
    "torch._utils._rebuild_tensor_v2": _tensor,
    "torch._utils._rebuild_tensor_v3": _typed_tensor,
    "torch._utils._rebuild_parameter": _parameter,
    "torch._tensor._rebuild_from_type_v2": _of_type,
    "torch.nested._internal.nested_tensor._rebuild_njt": _jagged,
    "numpy.dtype": ElementType,
    "numpy.core.multiarray._reconstruct": _reconstructed,
    "numpy.core.multiarray.scalar": _scalar,
    "numpy.core.numeric._frombuffer": _from_buffer,
}


def find(module: str, name: str) -> object:
    """What stands for a name; RefusedPickle for one that is not known to hold data only."""
    module = {"__builtin__": "builtins", "copy_reg": "copyreg"}.get(module, module)
    full = f"{module}.{name}".replace("numpy._core.", "numpy.core.")
    if full in _BUILDERS:
        return Builder(full, _BUILDERS[full])
    if module in ("torch", "torch.storage") and name in STORAGES:
        return InertType(f"torch.{name}")
    if module == "torch" and (name in DTYPES or name.startswith(("float8", "complex"))):
        return InertType(full)
    packages = module.split(".")
    if full in _PLAIN_CLASSES or packages[0] in FRAMEWORKS or ".".join(packages[:2]) in FRAMEWORKS:
        return InertType(full)
    raise RefusedPickle(
        f"it names {full[:100]!r}, which is neither plain data, a tensor nor a class of a known framework; "
        "nothing was run"
    )


def storage_of(identity: object, raw: Callable[[str, int, str], memoryview | None], *, big_endian: bool) -> Storage:
    """The storage that a persistent id of torch names: ('storage', class, key, device, elements)."""
    parts = cast(tuple[object, ...], identity) if isinstance(identity, tuple) else ()
    if len(parts) < 5 or parts[0] != "storage" or not isinstance(parts[1], InertType) or type(parts[4]) is not int:
        raise RefusedPickle("a storage that is not named as torch names it")
    kind = STORAGES.get(parts[1].name.removeprefix("torch."))
    if kind is None:
        raise RefusedPickle(f"a storage of class {parts[1].name[:60]}, which is not read")
    if not isinstance(parts[2], str | int):
        raise RefusedPickle("a storage whose key is no text")
    return Storage(kind, parts[4], raw(str(parts[2]), parts[4], kind), big_endian=big_endian)


def inert_named(value: object, *endings: str) -> Inert | None:
    """The value, if it is an inert object of a class whose name ends so."""
    return value if isinstance(value, Inert) and value.name.endswith(endings) else None
