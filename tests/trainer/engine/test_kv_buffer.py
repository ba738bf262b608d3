"""Keys and values of one sequence."""

import torch

from trainer.engine.kv_buffer import KvBuffer, KvLayout, blocks

LAYOUT = KvLayout(layers=2, heads=3, width=4, dtype=torch.float32, device=torch.device("cpu"))


def test_tokens_are_rounded_up_to_whole_blocks() -> None:
    assert [blocks(tokens) for tokens in (1, 64, 65)] == [64, 64, 128]
    assert KvBuffer(LAYOUT, 65).capacity == 128


def test_memory_of_a_token_is_counted() -> None:
    # Keys and values, 2 layers, 3 heads of 4 numbers of 4 bytes.
    assert LAYOUT.bytes_per_token == 2 * 2 * 3 * 4 * 4


def test_growing_keeps_what_is_there() -> None:
    buffer = KvBuffer(LAYOUT, 10)
    piece = torch.randn(2, 2, 3, 5, 4)
    buffer.fill(piece)
    buffer.write(1, 5, torch.ones(3, 2, 4), torch.full((3, 2, 4), 2.0))
    buffer.length = 7
    buffer.grow(65)
    assert (buffer.capacity, buffer.length) == (128, 7)
    assert torch.equal(buffer.kept[:, :, :, :5], piece)
    assert torch.equal(buffer.kept[0, 1, :, 5:7], torch.ones(3, 2, 4))
    assert torch.equal(buffer.kept[1, 1, :, 5:7], torch.full((3, 2, 4), 2.0))
