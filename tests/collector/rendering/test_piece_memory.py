"""Piece by piece is what the tokenizer makes of the whole, whatever the text and however often it came before."""

import random
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, normalizers, pre_tokenizers
from tokenizers.models import BPE
from tokenizers.trainers import BpeTrainer

from collector.rendering.piece_memory import PieceMemory
from collector.rendering.tokenizer import ChatTokenizer

LONG = " the quick brown fox jumps over the lazy dog again and again until it is tired of it"
TEXTS = st.lists(
    st.sampled_from(["<a>", "<a>b>", "<b>", "<n>", "<", ">", " ", "\n", "é", "e\u0301", "the fox", "x", LONG, ""])
    | st.text(max_size=6),
    max_size=9,
).map("".join)


def trained(**parts: object) -> Tokenizer:
    """A byte-level tokenizer with tokens that begin alike, one that is normalized and one that is not special."""
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    for name, part in parts.items():
        setattr(tokenizer, name, part)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(
        [LONG] * 9, BpeTrainer(vocab_size=400, initial_alphabet=alphabet, show_progress=False)
    )
    tokenizer.add_special_tokens(["<a>", "<a>b>"])
    tokenizer.add_tokens([AddedToken("<b>", normalized=False), AddedToken("<n>", normalized=True)])
    return tokenizer


def whole(tokenizer: Tokenizer, text: str) -> list[int]:
    return tokenizer.encode(text, add_special_tokens=False).ids


TOKENIZERS = [trained(), trained(normalizer=normalizers.NFC())]
MEMORIES = [PieceMemory(tokenizer, most_bytes=2000) for tokenizer in TOKENIZERS]


@settings(deadline=None, max_examples=300)
@given(text=TEXTS)
def test_the_ids_are_those_of_the_whole(text: str) -> None:
    for tokenizer, memory in zip(TOKENIZERS, MEMORIES, strict=True):
        for _ in range(2):
            assert memory.encode(text) == whole(tokenizer, text)


@settings(deadline=None, max_examples=100)
@given(text=st.lists(st.sampled_from(["<|im_start|>", "<|im_end|>", "<think>", "<|im_", LONG, "\n", " "]) | st.text()))
def test_a_real_tokenizer_gives_the_same_in_pieces(qwen_tokenizer: ChatTokenizer, text: list[str]) -> None:
    joined = "".join(text)
    assert qwen_tokenizer.encode(joined) == whole(qwen_tokenizer.backend, joined)


def test_what_came_before_is_not_encoded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = trained()
    memory, encoded = PieceMemory(tokenizer), list[str]()
    real = memory._encoded
    monkeypatch.setattr(memory, "_encoded", lambda text: (encoded.append(text), real(text))[1])
    for number in range(3):
        memory.encode(f"<a>{LONG}<b>{number}<a>{LONG}{LONG}")
    assert [text for text in encoded if LONG in text] == [LONG, LONG + LONG]


def test_no_more_is_kept_than_was_asked_for_and_the_newest_stay() -> None:
    memory = PieceMemory(trained(), most_bytes=20_000)
    texts = [f"{LONG} {number}" for number in range(500)]
    for text in texts:
        memory.encode(text)
    kept = list(memory._ids)
    assert 0 < memory._bytes <= 20_000
    assert kept == texts[-len(kept) :]
    assert memory.encode(LONG * 200) == whole(memory._backend, LONG * 200)
    assert memory._bytes <= 20_000


@pytest.mark.parametrize(
    "tokenizer",
    [
        trained(pre_tokenizer=pre_tokenizers.Metaspace(prepend_scheme="first"), decoder=decoders.Metaspace()),
        trained(
            pre_tokenizer=pre_tokenizers.Sequence(
                [pre_tokenizers.Digits(), pre_tokenizers.Metaspace(prepend_scheme="first")]
            )
        ),
    ],
)
def test_a_tokenizer_that_treats_the_first_piece_in_its_own_way_is_asked_for_the_whole(tokenizer: Tokenizer) -> None:
    text = f"the fox<a>the fox<b>{LONG}"
    assert whole(tokenizer, text) != [*whole(tokenizer, "the fox"), *whole(tokenizer, f"<a>the fox<b>{LONG}")[1:]]
    assert PieceMemory(tokenizer).encode(text) == whole(tokenizer, text)


@pytest.mark.parametrize("way", ["lstrip", "rstrip", "single_word"])
def test_a_token_that_reaches_beyond_itself_is_left_to_the_tokenizer(way: str) -> None:
    tokenizer = trained()
    tokenizer.add_tokens([AddedToken("<s>", normalized=False, **{way: True})])
    for text in (f"the fox <s> x{LONG}", f"the fox<s>x{LONG}", f"{LONG}<a> <s> <a>{LONG}"):
        assert PieceMemory(tokenizer).encode(text) == whole(tokenizer, text)


def test_threads_share_one_memory() -> None:
    tokenizer = trained()
    memory = PieceMemory(tokenizer, most_bytes=5_000)
    source = random.Random(1)
    texts = [f"<a>{LONG}{source.randrange(40)}<b>{LONG}" for _ in range(400)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(memory.encode, texts)) == [whole(tokenizer, text) for text in texts]
    assert memory._bytes == sum(map(_size_of, memory._ids.items()))


def _size_of(kept: tuple[str, object]) -> int:
    return sum(map(sys.getsizeof, kept))


def branches(pattern: str) -> list[int]:
    """Of each choice of a pattern of plain characters, how many branches it has."""
    open_ones, counts = [1], list[int]()
    for character in pattern:
        if character == "(":
            open_ones.append(1)
        elif character == ")":
            counts.append(open_ones.pop())
        elif character == "|":
            open_ones[-1] += 1
    return counts + open_ones


def test_of_thousands_of_tokens_that_begin_alike_not_each_is_tried() -> None:
    tokenizer = trained()
    unused = [f"<unused{number}>" for number in range(3000)]
    runs = [mark * length for mark in "\n\t" for length in range(1, 40)]
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in [*unused, *runs, "<table>"]])
    memory = PieceMemory(tokenizer)
    # Ten digits, and what else may stand in their place.
    assert max(branches(memory._split.pattern)) <= 25
    source = random.Random(3)
    for _ in range(30):
        text = "".join(
            source.choice([*unused[::300], *runs, "<table>", "<unused", "<a>b>", "7>", LONG]) for _ in "12345678"
        )
        assert memory.encode(text) == whole(tokenizer, text)


@settings(deadline=None)
@given(tokens=st.sets(st.text("ab", min_size=1, max_size=6), min_size=1, max_size=30), text=st.text("abc"))
def test_the_longest_of_tokens_within_each_other_is_taken(tokens: set[str], text: str) -> None:
    tokenizer = trained()
    tokenizer.add_tokens([AddedToken(token, normalized=False) for token in tokens])
    assert PieceMemory(tokenizer).encode(text) == whole(tokenizer, text)
