"""Records of martingale: bits of floats against Python's own packing, and scores decoded together or one by one."""

import math
import struct

import pytest

from checks.readers.martingale_record import floats_of_bits, score_bits, sequence_record

_SCORE = b'{"digest": "aa", "logprob_bits": "f32:bc0c3800"}'


def _bits(value: float, kind: str = "f32") -> str:
    return f"{kind}:{struct.pack('>f' if kind == 'f32' else '>d', value).hex()}"


def test_bits_are_read_exactly_whichever_their_width() -> None:
    singles = [struct.unpack("<f", struct.pack("<f", value))[0] for value in (0.0, -0.1, -1e-40, 3.4e38, -17.25)]
    assert floats_of_bits([_bits(value) for value in singles]) == singles
    doubles = [-0.1, 5e-324, -1.7976931348623157e308]
    assert floats_of_bits([_bits(value, "f64") for value in doubles]) == doubles
    assert floats_of_bits([_bits(-0.5), _bits(-0.1, "f64")]) == [-0.5, -0.1]
    assert math.copysign(1, floats_of_bits([_bits(-0.0)])[0]) == -1
    assert floats_of_bits([]) == []


@pytest.mark.parametrize(
    "bad",
    ["f32:3eb4f7", "f32:3eb4f7d9aa", "f64:3eb4f7d9", "f16:3eb4", "f32:3eb4f7dg", "f32: 3eb4f7d", "f32:3eb4f7é9", ""],
)
def test_bits_that_are_none_are_refused_alone_and_among_others(bad: str) -> None:
    for bits in ([bad], [_bits(-0.5), bad, _bits(-0.5)], [bad, bad + "00000000"]):
        with pytest.raises(ValueError, match="instead of a float's bits, expected f32:<8 hex digits>"):
            floats_of_bits(bits)


def test_bits_that_only_together_have_the_right_length_are_refused() -> None:
    with pytest.raises(ValueError, match="instead of a float's bits"):
        floats_of_bits(["f32:3eb4f7d9f32:3eb4f7d9", ""])


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (b"{", "Expecting property name"),
        (b"", "Expecting value"),
        (_SCORE + b"," + _SCORE, "Extra data"),
        (b'{"digest": "aa"}', "missing required field `logprob_bits`"),
        (b'{"logprob_bits": 1}', "Expected `str`, got `int`"),
        (b"\xff", "can't decode byte"),
        (None, "NoneType instead of JSON text"),
        (7, "int instead of JSON text"),
    ],
)
def test_one_broken_score_is_told_whatever_stands_around_it(broken: object, reason: str) -> None:
    assert score_bits([_SCORE, _SCORE]) == ["f32:bc0c3800"] * 2
    with pytest.raises(ValueError, match=reason):
        score_bits([_SCORE, broken, _SCORE])


def test_a_sequence_without_its_prompt_is_one_and_ids_beyond_int32_are_refused() -> None:
    token = '{"position": 0, "token_id": %d, "logprob_bits": "f32:bc0c3800", "revision_digest": "aa", "topk": null}'
    found = sequence_record(b'{"prompt_ids": null, "prompt_len": 3, "tokens": [%b]}' % (token % 5).encode())
    assert (found.prompt_ids, found.prompt_len, found.tokens[0].token_id) == (None, 3, 5)
    for wrong in (2**31, -1):
        with pytest.raises(ValueError, match=r"Expected `int` [<>]= "):
            sequence_record(b'{"tokens": [%b]}' % (token % wrong).encode())
