"""Tests of trainer.delta: bits survive the round trip, and nothing damaged, foreign or invented is accepted."""

import struct

import numpy as np
import pytest
import torch
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from trainer import delta as codec
from trainer.delta import BLOCK_VALUES, DeltaError, decode, encode, read_header
from trainer.plan.weight_sync import delta_bytes

HEADER = struct.Struct("<4sHHQQQQQ")
WORD = st.integers(0, 2**16 - 1)


def bits(*values: int) -> NDArray[np.uint16]:
    return np.array(values, np.uint16)


def sealed(body: bytes) -> bytes:
    """A body with a checksum that fits it: damage that only the meaning gives away."""
    return body + struct.pack("<Q", xxhash.xxh3_64_intdigest(body))


def forged(base: NDArray[np.uint16], positions: bytes, *, changed: int, elements: int | None = None) -> bytes:
    """A well-formed message with chosen position bytes, for `base`."""
    head = HEADER.pack(
        b"RHBD", 1, 0, elements or base.size, changed, len(positions), xxhash.xxh3_64_intdigest(base.tobytes()), 0
    )
    return sealed(head + positions + b"\0\0" * changed)


@settings(deadline=None)
@given(st.lists(st.tuples(WORD, WORD, st.booleans()), max_size=300))
def test_any_pair_comes_back_bit_for_bit(pairs: list[tuple[int, int, bool]]) -> None:
    base = bits(*(old for old, _, _ in pairs))
    target = bits(*(new if changes else old for old, new, changes in pairs))
    message = encode(base, target)
    np.testing.assert_array_equal(decode(message, base), target)
    assert read_header(message).changed == int(np.count_nonzero(base != target))


@settings(max_examples=25, deadline=None)
@given(
    size=st.integers(1, 3 * BLOCK_VALUES + 5),
    share=st.sampled_from([0.0, 1e-5, 0.01, 0.5, 1.0]),
    seed=st.integers(0, 2**32 - 1),
)
def test_pairs_of_several_blocks_come_back_bit_for_bit(size: int, share: float, seed: int) -> None:
    draw = np.random.default_rng(seed)
    base = draw.integers(0, 2**16, size, dtype=np.uint16)
    changed = draw.random(size) < share
    target = np.where(changed, base ^ draw.integers(1, 2**16, size, dtype=np.uint16), base)
    message = encode(base, target)
    assert read_header(message).changed == int(changed.sum())
    np.testing.assert_array_equal(decode(message, base), target)


def test_a_message_worked_by_hand() -> None:
    """Index 0 changes, a gap of 1 from -1; then index 300, a gap of 300 = 2 x 128 + 44."""
    base = np.zeros(400, np.uint16)
    target = base.copy()
    target[0], target[300] = 0x3F80, 0xBEEF
    message = encode(base, target)
    assert message[:8] == b"RHBD\x01\x00\x00\x00"
    assert struct.unpack_from("<QQQ", message, 8) == (400, 2, 3)
    assert message[48:51] == bytes([1, 0x80 | 44, 2])
    assert message[51:55] == b"\x80\x3f\xef\xbe"
    assert len(message) == 48 + 3 + 4 + 8
    assert struct.unpack_from("<Q", message, 40)[0] == xxhash.xxh3_64_intdigest(target.tobytes())


def test_signed_zeros_infinities_and_nan_payloads_survive() -> None:
    base = bits(0x0000, 0x7F80, 0x7FC0, 0xFF81)
    target = bits(0x8000, 0xFF80, 0x7FC1, 0x0001)
    np.testing.assert_array_equal(decode(encode(base, target), base), target)


def test_a_real_optimizer_step_in_torch_is_rebuilt() -> None:
    master = torch.randn(64, 33, generator=torch.Generator().manual_seed(0)) * 0.02
    before = master.to(torch.bfloat16)
    after = (master + 3e-6 * torch.sign(master)).to(torch.bfloat16)
    base, target = (each.view(torch.uint16).numpy() for each in (before, after))
    message = encode(base, target)
    rebuilt = torch.from_numpy(decode(message, base)).view(torch.bfloat16)
    assert torch.equal(rebuilt, after)
    assert rebuilt.shape == after.shape
    assert 0 < read_header(message).changed < base.size


def test_equal_tensors_make_an_empty_delta() -> None:
    base = bits(1, 2, 3)
    message = encode(base, base.copy())
    assert len(message) == 56
    np.testing.assert_array_equal(decode(message, base), base)
    assert decode(encode(bits(), bits()), bits()).size == 0


def test_bytes_are_those_the_plan_foresees() -> None:
    draw = np.random.default_rng(0)
    base = draw.integers(0, 2**16, 2_000_000, dtype=np.uint16)
    changed = draw.random(base.size) < 0.01
    size = len(encode(base, base ^ changed.astype(np.uint16)))
    assert size == pytest.approx(delta_bytes(parameters=base.size, changed_share=0.01), rel=0.02)


def test_the_base_is_left_alone() -> None:
    base = bits(1, 2, 3)
    decode(encode(base, bits(1, 9, 3)), base)
    np.testing.assert_array_equal(base, bits(1, 2, 3))


def test_another_base_is_refused() -> None:
    message = encode(bits(1, 2, 3), bits(1, 2, 4))
    with pytest.raises(DeltaError, match="made from another base"):
        decode(message, bits(1, 5, 3))
    with pytest.raises(DeltaError, match="for 3 values and the base has 4"):
        decode(message, bits(1, 2, 3, 4))


def test_tensors_of_another_type_or_shape_are_refused() -> None:
    with pytest.raises(DeltaError, match="base has dtype float32, expected uint16"):
        encode(np.zeros(3, np.float32), bits(1, 2, 3))  # pyright: ignore[reportArgumentType]
    with pytest.raises(DeltaError, match="base has 3 values and target 2"):
        encode(bits(1, 2, 3), bits(1, 2))


@settings(deadline=None)
@given(data=st.data())
def test_every_flipped_byte_is_noticed(data: st.DataObject) -> None:
    base = np.arange(500, dtype=np.uint16)
    message = bytearray(encode(base, base ^ (np.arange(500) % 7 == 0).astype(np.uint16)))
    at = data.draw(st.integers(0, len(message) - 1))
    message[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(DeltaError):
        decode(bytes(message), base)


@settings(deadline=None)
@given(st.integers(0, 200))
def test_every_truncation_is_noticed(kept: int) -> None:
    base = np.arange(500, dtype=np.uint16)
    message = encode(base, base ^ (np.arange(500) % 7 == 0).astype(np.uint16))
    with pytest.raises(DeltaError, match=r"delta has \d+ bytes"):
        decode(message[: min(kept, len(message) - 1)], base)


@settings(deadline=None)
@given(st.binary(max_size=300))
def test_noise_is_refused_with_one_kind_of_error(noise: bytes) -> None:
    with pytest.raises(DeltaError):
        decode(noise, bits(1, 2, 3))


@settings(deadline=None)
@given(positions=st.binary(max_size=40), changed=st.integers(0, 30))
def test_invented_positions_are_refused_or_rebuild_another_tensor(positions: bytes, changed: int) -> None:
    """The checksum fits, so only the meaning can be wrong; the target's hash is 0, which no rebuild has."""
    with pytest.raises(DeltaError):
        decode(forged(np.zeros(50, np.uint16), positions, changed=changed), np.zeros(50, np.uint16))


@pytest.mark.parametrize(
    ("positions", "changed", "message"),
    [
        (b"\x00", 1, "gap outside 1 to 50"),
        (b"\x33", 1, "gap outside 1 to 50"),
        (b"\x30\x30", 2, "changes value 95 of 50"),
        (b"\x81\x00", 1, "padded with zero bytes"),
        (b"\x81", 1, "0 whole positions, its header says 1"),
        (b"\x01\x01", 1, "2 whole positions, its header says 1"),
        (b"\xff" * 9 + b"\x01", 1, "a position of 10 bytes"),
        (b"\xff" * 8 + b"\x7f", 1, "gap outside 1 to 50"),
        (b"\x01", 51, "51 of 50 values changed"),
    ],
)
def test_a_message_that_contradicts_itself_says_how(positions: bytes, changed: int, message: str) -> None:
    base = np.zeros(50, np.uint16)
    with pytest.raises(DeltaError, match=message):
        decode(forged(base, positions, changed=changed), base)


def test_a_header_cannot_make_the_reader_allocate(monkeypatch: pytest.MonkeyPatch) -> None:
    """2^60 claimed values are refused before any array is made."""
    message = forged(bits(1), b"", changed=0, elements=2**60)
    monkeypatch.setattr(codec.np, "empty_like", lambda *_: pytest.fail("allocated on a header's word"))
    with pytest.raises(DeltaError, match=f"for {2**60} values and the base has 1"):
        decode(message, bits(1))
    lying = bytearray(message)
    struct.pack_into("<Q", lying, 16, 2**59)
    with pytest.raises(DeltaError, match="cut off or damaged"):
        decode(bytes(lying), bits(1))


def test_another_version_and_another_file_are_named() -> None:
    message = bytearray(encode(bits(1), bits(2)))
    message[4] = 9
    with pytest.raises(DeltaError, match="format version 9, expected 1; upgrade"):
        decode(bytes(message), bits(1))
    with pytest.raises(DeltaError, match="not a bf16 delta: it begins with b'PK"):
        decode(b"PK\x03\x04" + bytes(80), bits(1))


def test_a_memoryview_is_as_good_as_bytes() -> None:
    base, target = bits(1, 2), bits(1, 3)
    np.testing.assert_array_equal(decode(memoryview(encode(base, target)), base), target)
