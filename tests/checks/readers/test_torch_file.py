"""Torch files read without torch: compared value for value with what torch wrote and would read."""

import binascii
import io
import pickle
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from checks.readers.pickle_values import Lazy, RefusedPickle, numbers
from checks.readers.torch_file import load, load_file
from checks.readers.torch_tensor import Jagged


def saved(held: object, **options: Any) -> bytes:
    stream = io.BytesIO()
    torch.save(held, stream, **options)
    return stream.getvalue()


def read(content: bytes) -> Any:
    return load(memoryview(content))


def same(found: object, expected: torch.Tensor) -> None:
    assert isinstance(found, Lazy)
    array = found.array()
    assert array.shape == tuple(expected.shape)
    wide = expected.float() if expected.dtype == torch.bfloat16 else expected
    np.testing.assert_array_equal(array, wide.numpy())


DTYPES = [
    torch.float64,
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
    torch.uint16,
    torch.uint32,
]
LAYOUTS = pytest.mark.parametrize("new", [True, False], ids=["zip", "before 1.6"])


NEW_ONLY = (torch.uint16, torch.uint32)
WRITABLE = [(dtype, new) for dtype in DTYPES for new in (True, False) if new or dtype not in NEW_ONLY]


@pytest.mark.parametrize(("dtype", "new"), WRITABLE, ids=str)
def test_every_element_type(dtype: torch.dtype, new: bool) -> None:
    expected = (torch.arange(-6, 18).reshape(4, 6) * 3).to(dtype)
    same(read(saved(expected, _use_new_zipfile_serialization=new)), expected)


@LAYOUTS
def test_special_values_keep_their_bits(new: bool) -> None:
    values = torch.tensor([0.0, -0.0, float("inf"), float("-inf"), 6e-8, 65504.0, 1e-45, 3.0e38])
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        expected = values.to(dtype)
        found = read(saved(expected, _use_new_zipfile_serialization=new)).array().astype(np.float32)
        assert found.tobytes() == expected.float().numpy().tobytes()


@LAYOUTS
def test_views_keep_offset_and_strides(new: bool) -> None:
    whole = torch.arange(60.0).reshape(3, 4, 5)
    views = {
        "offset": whole[1:],
        "transposed": whole.transpose(0, 2),
        "step": whole[:, ::2, 1::3],
        "row": whole[2, 3],
        "one": whole[1, 1, 1],
        "expanded": torch.tensor([7.0]).expand(4, 3),
        "empty": whole[:0],
    }
    found = read(saved(views, _use_new_zipfile_serialization=new))
    for name, expected in views.items():
        same(found[name], expected)


@LAYOUTS
def test_shared_storages_are_shared(new: bool) -> None:
    whole = torch.arange(10)
    found = read(saved([whole[:4], whole[4:], {"again": whole}], _use_new_zipfile_serialization=new))
    same(found[0], whole[:4])
    same(found[1], whole[4:])
    same(found[2]["again"], whole)


def test_parameters_and_gradients() -> None:
    same(read(saved(torch.nn.Parameter(torch.arange(3.0)))), torch.arange(3.0))
    same(read(saved(torch.arange(3.0, requires_grad=True))), torch.arange(3.0))


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_tensors_in_a_plain_pickle(protocol: int) -> None:
    held = {"a": torch.arange(5), "view": torch.arange(10.0)[3:6], "half": torch.tensor([1.5]).half()}
    found = read(pickle.dumps(held, protocol))
    for name, expected in held.items():
        same(found[name], expected)


def test_a_jagged_tensor_gives_its_rows() -> None:
    rows = [torch.arange(3), torch.arange(5), torch.arange(0)]
    found = read(saved(torch.nested.as_nested_tensor(rows, layout=torch.jagged)))
    assert isinstance(found, Jagged)
    assert [row.tolist() for row in found.rows()] == [[0, 1, 2], [0, 1, 2, 3, 4], []]


def test_a_file_is_read_over_itself(tmp_path: Path) -> None:
    expected = torch.randn(1000)
    path = tmp_path / "x.pt"
    torch.save({"t": expected}, path)
    array = load_file(path)["t"].array()
    assert not array.flags.owndata
    assert not array.flags.writeable
    np.testing.assert_array_equal(array, expected.numpy())


def test_big_endian_storages_are_turned() -> None:
    """Written by hand: torch writes the order of its own machine."""
    content = rewritten(saved(torch.arange(4.0)), {"byteorder": b"big", "data/0": struct.pack(">4f", 0, 1, 2, 3)})
    np.testing.assert_array_equal(read(content).array(), [0.0, 1.0, 2.0, 3.0])


def rewritten(content: bytes, entries: dict[str, bytes | None], *, method: int = zipfile.ZIP_STORED) -> bytes:
    """A torch file with some entries replaced, or left out."""
    stream = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(stream, "w", method) as new:
        for name in old.namelist():
            given = entries.get(name.partition("/")[2], old.read(name))
            if given is not None:
                new.writestr(name, given)
    return stream.getvalue()


def read_whole(content: bytes) -> object:
    """The first tensor of a file, its elements too."""
    found = read(content)
    return (found[0] if isinstance(found, list) else found).array()


def refusal(content: bytes) -> str:
    with pytest.raises(RefusedPickle) as refused:
        read_whole(content)
    assert "\n" not in str(refused.value)
    return str(refused.value)


TENSOR = saved(torch.arange(100.0))


def test_what_is_broken_is_named() -> None:
    assert "cut off, or is still being written" in refusal(TENSOR[: len(TENSOR) // 2])
    assert "neither a zip of torch.save nor a pickle" in refusal(b"hello")
    assert "neither a zip of torch.save nor a pickle" in refusal(b"")
    assert "without data.pkl" in refusal(rewritten(TENSOR, {"data.pkl": None}))
    assert "without an entry 'data/0'" in refusal(rewritten(TENSOR, {"data/0": None}))
    assert "a storage of 40 bytes, expected 400" in refusal(rewritten(TENSOR, {"data/0": b"\0" * 40}))
    assert "is compressed" in refusal(rewritten(TENSOR, {}, method=zipfile.ZIP_DEFLATED))


def test_a_zip_bomb_is_not_opened() -> None:
    bomb = rewritten(TENSOR, {"data.pkl": b"\0" * 50_000_000}, method=zipfile.ZIP_DEFLATED)
    assert len(bomb) < 100_000
    assert "is compressed" in refusal(bomb)


def test_a_directory_that_claims_more_entries_than_fit_is_refused() -> None:
    end = TENSOR.rfind(b"PK\x05\x06")
    content = bytearray(TENSOR)
    content[end + 8 : end + 12] = b"\xfe\xff\xfe\xff"
    assert "claims 65534 entries" in refusal(bytes(content))


def pickled_tensor(size: str, stride: str, offset: int, count: int = 4) -> bytes:
    """A data.pkl of a tensor with this shape over a storage of floats, as torch lays it out."""
    return (
        b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n((X\x07\x00\x00\x00storagectorch\nFloatStorage\n"
        b"X\x01\x00\x00\x000X\x03\x00\x00\x00cpuJ"
        + struct.pack("<i", count)
        + b"tQJ"
        + struct.pack("<i", offset)
        + size.encode("latin-1")
        + stride.encode("latin-1")
        + b"\x89ccollections\nOrderedDict\n)RtR."
    )


@pytest.mark.parametrize(
    ("size", "stride", "offset", "count", "reason"),
    [
        ("J\x05\0\0\0\x85", "K\x01\x85", 0, 4, "reaches element 4 of a storage of 4"),
        ("J\x02\0\0\0\x85", "K\x01\x85", 3, 4, "reaches element 4 of a storage of 4"),
        ("J\x02\0\0\0\x85", "J\0\0\0\x7f\x85", 0, 4, "of a storage of 4"),
        ("J\xff\xff\xff\xff\x85", "K\x01\x85", 0, 4, "no small tuple of whole numbers"),
        ("J\x02\0\0\0\x85", "J\xff\xff\xff\xff\x85", 0, 4, "no small tuple of whole numbers"),
        ("J\x02\0\0\0\x85", "K\x01\x85", -1, 4, "from -1"),
        ("J\x02\0\0\0\x85", "K\x01K\x01\x86", 0, 4, "with strides"),
        ("J\0\0\0\x7f\x85", "K\x00\x85", 0, 4, "reaches element 0"),
        ("J\x02\0\0\0\x85", "K\x01\x85", 0, 2**30, "a storage of 16 bytes, expected 4294967296"),
        ("J\x02\0\0\0\x85", "K\x01\x85", 0, -1, "a storage of 16 bytes"),
    ],
)
def test_a_tensor_never_reaches_beyond_its_storage(
    size: str, stride: str, offset: int, count: int, reason: str
) -> None:
    held = {"data.pkl": pickled_tensor(size, stride, offset, count), "data/0": struct.pack("<4f", 1, 2, 3, 4)}
    assert reason in refusal(rewritten(TENSOR, held))


def test_the_handmade_tensor_is_right_when_nothing_is_changed() -> None:
    held = {"data.pkl": pickled_tensor("J\x02\0\0\0\x85", "K\x02\x85", 1), "data/0": struct.pack("<4f", 1, 2, 3, 4)}
    assert read(rewritten(TENSOR, held)).array().tolist() == [2.0, 4.0]


@pytest.mark.parametrize("content", [TENSOR, saved([torch.arange(4), "x"], _use_new_zipfile_serialization=False)])
def test_a_file_cut_anywhere_is_refused(content: bytes) -> None:
    for end in range(0, len(content) - 1, 7):
        with pytest.raises(RefusedPickle):
            read_whole(content[:end])


def test_changed_bytes_are_read_or_refused() -> None:
    chance = np.random.default_rng(5)
    content = saved({"a": torch.arange(20), "b": [1.5] * 10, "n": np.arange(3)})
    for _ in range(2000):
        changed = bytearray(content)
        for place in chance.integers(0, len(changed), size=3):
            changed[place] = int(chance.integers(0, 256))
        try:
            found = read(bytes(changed))
            for held in found.values() if isinstance(found, dict) else ():
                numbers(held)
        except RefusedPickle:
            continue


def test_zip64_sizes_are_read() -> None:
    """Written by hand in the layout of a file beyond 4 GiB, without being one."""
    content, name = b"\x80\x02K\x07.", b"archive/data.pkl"
    local = struct.pack("<4s5H3L2H", b"PK\x03\x04", 45, 0, 0, 0, 0, 0, len(content), len(content), len(name), 0) + name
    extra = struct.pack("<HH3Q", 1, 24, len(content), len(content), 0)
    full = 0xFFFFFFFF
    fields = (45, 45, 0, 0, 0, 0, binascii.crc32(content), full, full, len(name), len(extra), 0, 0, 0, 0, full)
    entry = struct.pack("<4s6H3L5H2L", b"PK\x01\x02", *fields) + name + extra
    start = len(local) + len(content)
    end64 = struct.pack("<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, 1, 1, len(entry), start)
    locator = struct.pack("<4sLQL", b"PK\x06\x07", 0, start + len(entry), 1)
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 0xFFFF, 0xFFFF, full, full, 0)
    whole = local + content + entry + end64 + locator + end
    assert zipfile.ZipFile(io.BytesIO(whole)).read("archive/data.pkl") == content
    assert read(whole) == 7
