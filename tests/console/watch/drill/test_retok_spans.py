"""Spans that come back as other ids are those that comparing every pair of token ends finds."""

import itertools
import random

from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from checks.measures.reencoding import Reencoder
from collector.parsing.detokenizer import BYTE_ALPHABET
from collector.rendering.tokenizer import ChatTokenizer
from console.watch.trace.retok_spans import RetokSpan, retokenized


def merging_tokenizer() -> ChatTokenizer:
    """Bytes, and a few merges that overlap: much of what is sampled at random comes back otherwise."""
    vocabulary = dict(BYTE_ALPHABET)
    vocabulary = {letter: number for number, letter in enumerate(vocabulary)}
    merges = [("a", "b"), ("b", "a"), ("ab", "a"), ("a", "a"), ("aa", "b"), ("b", "b")]
    for one, other in merges:
        vocabulary[one + other] = len(vocabulary)
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    return ChatTokenizer(backend)


SMALL = merging_tokenizer()
LETTERS = [SMALL.backend.token_to_id(each) for each in ("a", "b", "ab", "ba", "aba", "aa", "aab", "bb", "c")]


def ends(tokenizer: ChatTokenizer, ids: list[int]) -> list[int]:
    """Where each token ends in the text, in bytes."""
    reencoder, at, found = Reencoder(tokenizer), 0, [0]
    for each in ids:
        at += len(reencoder.bytes_of(each))
        found.append(at)
    return found


def by_brute_force(tokenizer: ChatTokenizer, ids: list[int]) -> list[tuple[int, int, tuple[int, ...], tuple[int, ...]]]:
    """Every pair of neighbouring places where both ways end a token, if the ids between them differ."""
    again = tokenizer.encode(tokenizer.decode(ids))
    one, other = ends(tokenizer, ids), ends(tokenizer, again)
    both = [(i, j) for i, end in enumerate(one) for j, end_now in enumerate(other) if end == end_now]
    return [
        (i, next_i, tuple(ids[i:next_i]), tuple(again[j:next_j]))
        for (i, j), (next_i, next_j) in itertools.pairwise(both)
        if ids[i:next_i] != again[j:next_j]
    ]


def shape(spans: tuple[RetokSpan, ...]) -> list[tuple[int, int, tuple[int, ...], tuple[int, ...]]]:
    return [(each.start, each.end, each.recorded, each.encoded) for each in spans]


@given(st.lists(st.sampled_from(LETTERS), max_size=12))
def test_spans_of_a_tokenizer_with_merges_are_those_of_brute_force(ids: list[int]) -> None:
    found = retokenized(SMALL, ids, None)
    assert shape(found.spans) == by_brute_force(SMALL, ids)
    assert all(each.same_text for each in found.spans)
    assert found.kept == len(ids) - sum(each.end - each.start for each in found.spans)
    assert (found.first is None) == (not found.spans)
    if found.first is not None:
        assert found.first.place == found.spans[0].start


def test_random_ids_of_qwen3_that_are_text(qwen_tokenizer: ChatTokenizer) -> None:
    source = random.Random(11)
    tried = 0
    for _ in range(400):
        ids = [source.randrange(151_000) for _ in range(source.randrange(1, 30))]
        text = qwen_tokenizer.decode(ids)
        whole = b"".join(Reencoder(qwen_tokenizer).bytes_of(each) for each in ids) == text.encode()
        if "\ufffd" in text or not whole or qwen_tokenizer.decode(qwen_tokenizer.encode(text)) != text:
            continue
        tried += 1
        assert shape(retokenized(qwen_tokenizer, ids, None).spans) == by_brute_force(qwen_tokenizer, ids)
    assert tried > 20


def test_half_a_character_does_not_come_back_as_the_same_text(qwen_tokenizer: ChatTokenizer) -> None:
    whole = qwen_tokenizer.encode("so 🦜")
    cut = whole[:-1]
    found = retokenized(qwen_tokenizer, cut, None)
    assert found.first is not None
    assert found.first.kind == "invalid_utf8"
    assert [each.same_text for each in found.spans] == [False]
    assert found.spans[0].recorded == tuple(cut[found.spans[0].start :])


def test_nothing_comes_back_as_nothing(qwen_tokenizer: ChatTokenizer) -> None:
    assert retokenized(qwen_tokenizer, [], None) == ((), 0, None)
