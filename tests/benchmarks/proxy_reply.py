"""The one reply that the stub engine gives, and the request that asks for it."""

import random
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec
from tokenizers import Tokenizer

_WORD = re.compile("Ġ[a-z]{2,8}")
_LONGEST = 4096
MODEL = "stub"
"""What every system under test calls the model."""
SYSTEM = (
    "You are a coding agent. You work in a repository that you can read and change with your tools. Think before you "
    "act, keep changes small, run the tests after each of them, and say plainly what you could not find out."
)


class Piece(NamedTuple):
    """One token and its text."""

    id: int
    text: str


@cache
def reply(model: Path, tokens: int) -> tuple[Piece, ...]:
    """Words of the model's vocabulary, one token each: they read the same alone and joined."""
    if not 0 < tokens <= _LONGEST:
        raise ValueError(f"{tokens} tokens, expected 1 to {_LONGEST}")
    vocabulary: dict[str, int] = Tokenizer.from_file(str(model / "tokenizer.json")).get_vocab()
    words = sorted((token, index) for token, index in vocabulary.items() if _WORD.fullmatch(token))
    chosen = random.Random(1).choices(words, k=_LONGEST)[:tokens]
    return tuple(Piece(index, " " + token[1:]) for token, index in chosen)


def text(model: Path, tokens: int) -> str:
    """The whole reply."""
    return "".join(piece.text for piece in reply(model, tokens))


def request(seed: int, tokens: int, messages: list[dict[str, str]] | None = None) -> bytes:
    """A streamed chat completion; the seed tells the stub which stream this is."""
    task = f"Task {seed}: find out why the nightly build of package {seed % 89} fails since last Tuesday, and mend it."
    said = messages or [{"role": "system", "content": SYSTEM}, {"role": "user", "content": task}]
    body = {"model": MODEL, "messages": said, "stream": True, "seed": seed, "max_tokens": tokens}
    return msgspec.json.encode(body)
