"""The hash behind every draw, against a plain MurmurHash3 over bytes."""

import numpy as np

from trainer.engine.noise import uniform_noise

MASK = 0xFFFFFFFF


def murmur3(key: bytes) -> int:
    """MurmurHash3 x86 32-bit with seed 0, for keys of whole words."""
    state = 0
    for at in range(0, len(key), 4):
        word = int.from_bytes(key[at : at + 4], "little") * 0xCC9E2D51 & MASK
        word = ((word << 15 | word >> 17) & MASK) * 0x1B873593 & MASK
        state ^= word
        state = ((state << 13 | state >> 19) & MASK) * 5 + 0xE6546B64 & MASK
    state ^= len(key)
    state = (state ^ state >> 16) * 0x85EBCA6B & MASK
    state = (state ^ state >> 13) * 0xC2B2AE35 & MASK
    return state ^ state >> 16


def test_the_plain_hash_gives_the_published_value() -> None:
    # Widely published test vector of MurmurHash3_x86_32 with seed 0.
    assert murmur3(b"test") == 0xBA6BD213


def test_noise_is_the_hash_of_seed_position_and_token() -> None:
    for seed, position in ((0, 0), (1, 5), (2**40 + 3, 70000), (-1, 12), (-(2**63), 1)):
        noise = uniform_noise(seed, position, 300)
        for token in (0, 1, 77, 299):
            key = (seed & (2**64 - 1)).to_bytes(8, "little") + position.to_bytes(4, "little")
            assert noise[token] == murmur3(key + token.to_bytes(4, "little")) / MASK


def test_noise_is_uniform_over_seeds_positions_and_tokens() -> None:
    numbers = np.concatenate([uniform_noise(seed, position, 500) for seed in range(10) for position in range(10)])
    counts, _ = np.histogram(numbers, bins=20, range=(0, 1))
    # 50,000 numbers in 20 bins: 2,500 each, give or take five times the root of 2,375.
    assert np.abs(counts - 2500).max() < 5 * 2375**0.5
    assert len(np.unique(numbers)) > 49_990
