"""Uniform numbers that depend on a seed, a position and a token id alone: MurmurHash3 of the three."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint32]
"""32-bit words; arithmetic on them wraps."""


def uniform_noise(seed: int, position: int, vocab_size: int) -> NDArray[np.float64]:
    """A number in [0, 1] for each token id, the same in every batch and on every machine."""
    words = np.array([seed & 0xFFFFFFFF, (seed >> 32) & 0xFFFFFFFF, position], dtype=np.uint32)
    state = np.zeros(1, dtype=np.uint32)
    for scrambled in _scramble(words):
        state = _absorb(state, scrambled)
    state = _absorb(state, _scrambled_ids(vocab_size))
    return _finish(state, key_bytes=16).astype(np.float64) / 0xFFFFFFFF


@lru_cache(maxsize=4)
def _scrambled_ids(vocab_size: int) -> Words:
    return _scramble(np.arange(vocab_size, dtype=np.uint32))


def _scramble(words: Words) -> Words:
    return _rotate(words * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)


def _absorb(state: Words, scrambled: Words) -> Words:
    return _rotate(state ^ scrambled, 13) * np.uint32(5) + np.uint32(0xE6546B64)


def _finish(state: Words, *, key_bytes: int) -> Words:
    state = state ^ np.uint32(key_bytes)
    state ^= state >> np.uint32(16)
    state *= np.uint32(0x85EBCA6B)
    state ^= state >> np.uint32(13)
    state *= np.uint32(0xC2B2AE35)
    return state ^ (state >> np.uint32(16))


def _rotate(words: Words, by: int) -> Words:
    return (words << np.uint32(by)) | (words >> np.uint32(32 - by))
