"""Incremental detokenisation: the text of the whole, whole characters only, however the ids arrive."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models

from collector.parsing.detokenizer import BYTE_ALPHABET, Detokenizer
from collector.rendering.tokenizer import ChatTokenizer


def pieces(tokenizer: ChatTokenizer, ids: list[int], size: int) -> list[str]:
    detokenizer = Detokenizer(tokenizer)
    return [*(detokenizer.add(ids[at : at + size]) for at in range(0, len(ids), size)), detokenizer.finish()]


@settings(max_examples=300, deadline=None)
@given(ids=st.lists(st.integers(0, 151668), max_size=30), size=st.integers(1, 5))
def test_any_ids_in_any_groups_give_the_text_of_decoding_them_at_once(
    qwen_tokenizer: ChatTokenizer, ids: list[int], size: int
) -> None:
    assert "".join(pieces(qwen_tokenizer, ids, size)) == qwen_tokenizer.decode(ids)


@settings(max_examples=300, deadline=None)
@given(raw=st.binary(max_size=24))
def test_bytes_that_are_no_text_decode_as_the_tokenizer_decodes_them(qwen_tokenizer: ChatTokenizer, raw: bytes) -> None:
    ids = [qwen_tokenizer.backend.token_to_id(letter) for letter in map(_letter, raw)]
    assert "".join(pieces(qwen_tokenizer, ids, 1)) == qwen_tokenizer.decode(ids)


def test_half_a_character_is_held_until_its_other_half_comes(qwen_tokenizer: ChatTokenizer) -> None:
    ids = [qwen_tokenizer.backend.token_to_id(letter) for letter in map(_letter, "🙂".encode())]
    assert pieces(qwen_tokenizer, ids, 1) == ["", "", "", "🙂", ""]


def test_half_a_character_at_the_end_is_shown_as_a_replacement(qwen_tokenizer: ChatTokenizer) -> None:
    ids = [qwen_tokenizer.backend.token_to_id(letter) for letter in map(_letter, "a🙂".encode()[:3])]
    assert pieces(qwen_tokenizer, ids, 1) == ["a", "", "", "\ufffd"]


def test_hidden_ids_leave_no_text(qwen_tokenizer: ChatTokenizer) -> None:
    end = qwen_tokenizer.backend.token_to_id("<|im_end|>")
    assert Detokenizer(qwen_tokenizer, hidden_ids={end}).add([*qwen_tokenizer.encode("hi"), end]) == "hi"


@pytest.fixture
def spaced() -> ChatTokenizer:
    words = ["▁Hello", "▁world", "<0xF0>", "<0x9F>", "<0x99>", "<0x82>", "!", "<unk>"]
    backend = Tokenizer(models.WordLevel({word: index for index, word in enumerate(words)}, unk_token="<unk>"))
    backend.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    return ChatTokenizer(backend)


def test_a_decoder_that_looks_at_neighbours_gives_the_same_text(spaced: ChatTokenizer) -> None:
    ids = [0, 1, 2, 3, 4, 5, 6, 1, 2]
    shown = pieces(spaced, ids, 1)
    assert "".join(shown) == spaced.decode(ids)
    assert shown[:6] == [" Hello", " world", "", "", "", "🙂"]


def _letter(byte: int) -> str:
    return next(letter for letter, value in BYTE_ALPHABET.items() if value == byte)
