"""What martingale writes as JSON about a sequence and its scores, and floats as it spells their bits."""

import struct
from collections.abc import Sequence
from typing import Annotated, Any, TypeVar

import msgspec
import numpy as np

from checks.readers.lines import decode_json

T = TypeVar("T")
_TokenId = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
_F32 = np.frombuffer(b"f32:", np.uint8)
_F32_TEXT = 12
_WIDTHS = {"f32": (">f", 8), "f64": (">d", 16)}


class TokenRecord(msgspec.Struct, frozen=True, gc=False):
    """One sampled token."""

    position: int
    token_id: _TokenId
    logprob_bits: str
    revision_digest: str


class SequenceRecord(msgspec.Struct, frozen=True):
    """One sequence: `record_json` of the table `sequences`, as far as it is read."""

    tokens: list[TokenRecord] = []
    # Any: an id of whatever type the recording side gave.
    sequence_id: Any = None
    prompt_ids: list[_TokenId] | None = None
    prompt_len: int | None = None
    reward_bits: str | None = None


class _ScoreRecord(msgspec.Struct, frozen=True, gc=False):
    logprob_bits: str


_SEQUENCE = msgspec.json.Decoder(SequenceRecord)
_SCORE = msgspec.json.Decoder(_ScoreRecord)
_SCORES = msgspec.json.Decoder(list[_ScoreRecord])


def sequence_record(record: object) -> SequenceRecord:
    """A sequence from its JSON; ValueError says what is wrong with it."""
    return _decoded(record, _SEQUENCE)


def score_bits(records: Sequence[object]) -> list[str]:
    """The bits of each score from its JSON, decoded all at once; ValueError says what is wrong with one."""
    try:
        found = _SCORES.decode(b"[" + b",".join(records) + b"]")  # pyright: ignore[reportArgumentType]
    except (TypeError, msgspec.DecodeError, UnicodeDecodeError):
        found = []
    if len(found) != len(records):
        found = [_decoded(record, _SCORE) for record in records]
    return [each.logprob_bits for each in found]


def floats_of_bits(bits: Sequence[str]) -> list[float]:
    """The floats whose bits are written as `f32:` and 8 hex digits, or `f64:` and 16."""
    if set(map(len, bits)) != {_F32_TEXT}:
        return [_float(each) for each in bits]
    # What is not ASCII becomes a question mark, which is no hex digit either.
    table = np.frombuffer("".join(bits).encode("ascii", "replace"), np.uint8).reshape(-1, _F32_TEXT)
    try:
        raw = bytes.fromhex(table[:, 4:].tobytes().decode())
    except ValueError:
        raw = b""
    if len(raw) != 4 * len(bits) or not (table[:, :4] == _F32).all():
        return [_float(each) for each in bits]
    return np.frombuffer(raw, ">f4").astype(np.float64).tolist()


def _float(bits: str) -> float:
    kind, _, digits = bits.partition(":")
    form, width = _WIDTHS.get(kind, ("", 0))
    try:
        raw = bytes.fromhex(digits) if len(digits) == width else b""
    except ValueError:
        raw = b""
    if 2 * len(raw) != width or not raw:
        raise ValueError(f"{bits!r} instead of a float's bits, expected f32:<8 hex digits> or f64:<16 hex digits>")
    return struct.unpack(form, raw)[0]


def _decoded(record: object, decoder: msgspec.json.Decoder[T]) -> T:
    if not isinstance(record, bytes):
        raise ValueError(f"{type(record).__name__} instead of JSON text")
    try:
        return decoder.decode(record)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _converted(record, decoder)


def _converted(record: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    """A record in Python's dialect of JSON, or with something in it that was not expected."""
    try:
        return msgspec.convert(decode_json(record), decoder.type)
    except (msgspec.ValidationError, RecursionError) as error:
        raise ValueError(str(error)) from error
