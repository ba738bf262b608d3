"""TensorBoard event files, encoded here from the definitions of their records and messages."""

import struct
from pathlib import Path

import numpy as np
import pytest

from checks.readers.file_head import FileHead
from checks.readers.formats import FORMATS
from checks.readers.tensorboard import RECORD_LIMIT, TENSORBOARD, masked_crc, scalars
from checks.readers.unreadable import UnreadableParts
from checks.rows import StepRow


def crc(content: bytes) -> int:
    """CRC-32C bit by bit, then masked."""
    register = 0xFFFFFFFF
    for byte in content:
        register ^= byte
        for _ in range(8):
            register = register >> 1 ^ (0x82F63B78 if register & 1 else 0)
    register ^= 0xFFFFFFFF
    return ((register >> 15 | register << 17) + 0xA282EAD8) & 0xFFFFFFFF


def record(content: bytes) -> bytes:
    length = struct.pack("<Q", len(content))
    return length + struct.pack("<I", crc(length)) + content + struct.pack("<I", crc(content))


def varint(value: int) -> bytes:
    value &= 2**64 - 1
    found = b""
    while value > 127:
        found, value = found + bytes([value & 127 | 128]), value >> 7
    return found + bytes([value])


def field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def event(step: int, *values: bytes, at: float = 1_700_000_000.0) -> bytes:
    summary = b"".join(field(1, value) for value in values)
    return b"\x09" + struct.pack("<d", at) + b"\x10" + varint(step) + field(5, summary)


def simple(tag: str, value: float) -> bytes:
    return field(1, tag.encode()) + b"\x15" + struct.pack("<f", value)


def tensor(tag: str, content: bytes) -> bytes:
    return field(1, tag.encode()) + field(8, content) + field(9, field(1, field(1, b"scalars")))


VERSION = b"\x09" + struct.pack("<d", 1_700_000_000.0) + field(3, b"brain.Event:2")


def write(path: Path, *events: bytes) -> Path:
    path.write_bytes(b"".join(record(each) for each in (VERSION, *events)))
    return path


def read(*paths: Path) -> tuple[list[StepRow], UnreadableParts]:
    unreadable = UnreadableParts()
    heads = [FileHead.of(path) for path in paths]
    for head in heads:
        assert next(form.name for form in FORMATS if form.recognise(head)) == "tensorboard"
    found = [row for unit in TENSORBOARD.units(heads) for row in TENSORBOARD.read(unit, unreadable)]
    return [row for row in found if isinstance(row, StepRow)], unreadable


def test_the_check_sum_is_crc_32c() -> None:
    """The published check value of CRC-32C is that of the nine digits: 0xE3069283."""
    assert masked_crc(b"123456789") == ((0xE3069283 >> 15 | 0xE3069283 << 17) + 0xA282EAD8) & 0xFFFFFFFF
    for content in (b"", b"\0" * 32, bytes(range(256))):
        assert masked_crc(content) == crc(content)


def test_scalars_of_one_step_are_one_row(tmp_path: Path) -> None:
    path = write(
        tmp_path / "events.out.tfevents.1.host",
        event(1, simple("train/vllm_kl", 0.5)),
        event(1, simple("train/grad_norm", 1.25), simple("train/not_known", 9.0)),
        event(300, simple("train/grad_norm", float("nan"))),
    )
    rows, unreadable = read(path)
    assert unreadable.count == 0
    assert [(row.step, row.kl_mu_old) for row in rows] == [(1, 0.5), (300, None)]
    assert rows[0].grad_norm == 1.25
    assert np.isnan(rows[1].grad_norm or 0)
    assert rows[0].at is not None
    assert rows[0].at.timestamp() == 1_700_000_000


def test_tensors_of_one_element_are_scalars(tmp_path: Path) -> None:
    kinds = {
        "content": b"\x08\x01" + field(4, struct.pack("<f", 0.5)),
        "double content": b"\x08\x02" + field(4, struct.pack("<d", 0.1)),
        "float_val": b"\x08\x01" + field(5, struct.pack("<f", 0.25)),
        "double_val": b"\x08\x02" + field(6, struct.pack("<d", 0.3)),
        "unpacked float_val": b"\x08\x01\x2d" + struct.pack("<f", 0.75),
        "int64 content": b"\x08\x09" + field(4, struct.pack("<q", -7)),
    }
    path = write(
        tmp_path / "e", *[event(step, tensor(tag, content)) for step, (tag, content) in enumerate(kinds.items())]
    )
    unreadable = UnreadableParts()
    found = {each.tag: each.value for each in scalars(path, unreadable)}
    assert found == {
        "content": 0.5,
        "double content": 0.1,
        "float_val": 0.25,
        "double_val": 0.3,
        "unpacked float_val": 0.75,
        "int64 content": -7.0,
    }


def test_tensors_of_several_elements_are_no_scalars(tmp_path: Path) -> None:
    path = write(tmp_path / "e", event(1, tensor("x", b"\x08\x01" + field(4, struct.pack("<2f", 1, 2)))))
    assert list(scalars(path, UnreadableParts())) == []


def test_a_live_file_is_read_up_to_its_cut_end(tmp_path: Path) -> None:
    path = write(tmp_path / "e", event(1, simple("train/grad_norm", 1.0)), event(2, simple("train/grad_norm", 2.0)))
    whole, last = path.read_bytes(), len(record(event(2, simple("train/grad_norm", 2.0))))
    for end in range(len(whole) - last, len(whole)):
        path.write_bytes(whole[:end])
        rows, unreadable = read(path)
        assert [row.step for row in rows] == [1]
        assert unreadable.count == (0 if end == len(whole) - last else 1)


def test_a_changed_record_is_counted_and_the_next_read(tmp_path: Path) -> None:
    path = write(tmp_path / "e", event(1, simple("train/grad_norm", 1.0)), event(2, simple("train/grad_norm", 2.0)))
    content = bytearray(path.read_bytes())
    content[len(record(VERSION)) + 20] ^= 1
    path.write_bytes(content)
    rows, unreadable = read(path)
    assert [row.step for row in rows] == [2]
    assert unreadable.first[0].reason == "a record does not match its check sum"


def test_a_changed_length_ends_the_reading(tmp_path: Path) -> None:
    path = write(tmp_path / "e", event(1, simple("train/grad_norm", 1.0)))
    content = bytearray(path.read_bytes())
    content[len(record(VERSION)) + 5] = 0x7F
    path.write_bytes(content)
    rows, unreadable = read(path)
    assert rows == []
    assert "length does not match its check sum" in unreadable.first[0].reason


def test_a_large_record_is_passed_over(tmp_path: Path) -> None:
    length = struct.pack("<Q", RECORD_LIMIT + 1)
    large = length + struct.pack("<I", crc(length)) + b"\0" * (RECORD_LIMIT + 5)
    path = tmp_path / "e"
    path.write_bytes(record(VERSION) + large + record(event(2, simple("train/grad_norm", 2.0))))
    rows, unreadable = read(path)
    assert ([row.step for row in rows], unreadable.count) == ([2], 0)


@pytest.mark.parametrize("content", [b"\x2a\xff", b"\x2a\x05abc", b"\xff" * 11, b"\x0b", b"\x09\x00"])
def test_a_record_that_is_no_event_is_counted(tmp_path: Path, content: bytes) -> None:
    path = write(tmp_path / "e", content, event(2, simple("train/grad_norm", 2.0)))
    rows, unreadable = read(path)
    assert ([row.step for row in rows], unreadable.count) == ([2], 1)


@pytest.mark.parametrize("at", [float("nan"), float("inf"), -1e300, 0.0])
def test_a_time_that_cannot_be_is_not_observed(tmp_path: Path, at: float) -> None:
    path = write(tmp_path / "e", event(2, simple("train/grad_norm", 2.0), at=at))
    assert [(row.grad_norm, row.at) for row in read(path)[0]] == [(2.0, None)]


def test_files_of_one_run_are_joined(tmp_path: Path) -> None:
    first = write(tmp_path / "a", event(1, simple("train/grad_norm", 1.0)))
    second = write(tmp_path / "b", event(1, simple("eval/reward", 0.5)), event(2, simple("train/grad_norm", 2.0)))
    assert [(row.step, row.grad_norm, row.reward_eval) for row in read(first, second)[0]] == [
        (1, 1.0, 0.5),
        (2, 2.0, None),
    ]
