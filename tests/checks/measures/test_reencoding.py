"""Decode and encode against the plain reading of it, on random ids."""

import random

from hypothesis import given
from hypothesis import strategies as st

from checks.measures.reencoding import Reencoder, first_difference
from collector.parsing.detokenizer import BYTE_ALPHABET
from collector.rendering.tokenizer import ChatTokenizer
from tests.collector.published import small_backend

SMALL = ChatTokenizer(small_backend())
ID_OF_BYTE = {byte: SMALL.backend.token_to_id(letter) for letter, byte in BYTE_ALPHABET.items()}


def plain(tokenizer: ChatTokenizer, ids: list[int]) -> int | None:
    """The definition, word for word."""
    back = tokenizer.encode(tokenizer.decode(ids))
    for place in range(max(len(ids), len(back))):
        if ids[place : place + 1] != back[place : place + 1]:
            return place
    return None


def test_random_ids_of_qwen3_differ_where_the_definition_says(qwen_tokenizer: ChatTokenizer) -> None:
    source = random.Random(5)
    completions = [[source.randrange(151_669) for _ in range(source.randrange(1, 40))] for _ in range(300)]
    found = Reencoder(qwen_tokenizer).differences(completions, [None] * len(completions))
    kinds = set()
    for ids, difference in zip(completions, found, strict=True):
        place = plain(qwen_tokenizer, ids)
        assert (difference is None) == (place is None)
        if difference is not None:
            # In broken UTF-8 a replacement character may merge with what is before it; drift there is told apart.
            assert difference.place == place or difference.kind == "drift"
            kinds.add(difference.kind)
    assert kinds == {"drift", "invalid_utf8"}


def test_text_that_was_encoded_never_differs(qwen_tokenizer: ChatTokenizer) -> None:
    source = random.Random(6)
    alphabet = "ab  \n\t.,'(){}12éñ漢字🙂\u0301<think></think>"
    texts = ["".join(source.choice(alphabet) for _ in range(source.randrange(1, 60))) for _ in range(300)]
    completions = [qwen_tokenizer.encode(text) for text in texts]
    assert Reencoder(qwen_tokenizer).differences(completions, [None] * len(texts)) == [None] * len(texts)


def utf8_error(data: bytes) -> UnicodeDecodeError | None:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        return error
    return None


@given(st.lists(st.integers(0, 255), max_size=12))
def test_bytes_are_invalid_exactly_when_they_are_not_utf8(data: list[int]) -> None:
    ids = [ID_OF_BYTE[byte] for byte in data]
    (difference,) = Reencoder(SMALL).differences([ids], [None])
    error = utf8_error(bytes(data))
    if error is None:
        assert difference is None
    else:
        assert difference is not None
        assert (difference.kind, difference.place) == ("invalid_utf8", plain(SMALL, ids))
        # The replacement character is EF BF BD: as many bytes of it may stand there already.
        assert error.start <= difference.place <= error.start + 2
        assert difference.at_cut_end == (error.reason == "unexpected end of data")


@given(st.lists(st.integers(0, 2)), st.lists(st.integers(0, 2)))
def test_first_difference_counts_the_end_of_the_shorter_list(left: list[int], right: list[int]) -> None:
    place = first_difference(left, right)
    if place is None:
        assert left == right
    else:
        assert left[:place] == right[:place]
        assert left[place : place + 1] != right[place : place + 1]
