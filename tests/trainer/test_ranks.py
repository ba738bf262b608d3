"""Shares of a step, worked by hand; what two processes sum is in test_sharded_base.py."""

import pytest
import torch

from trainer.lora import Pair, TrainedAdapter
from trainer.ranks import Ranks, Share


def test_each_microbatch_is_counted_once_and_every_rank_makes_as_many_passes() -> None:
    shares = [Ranks(rank, 3).share(7) for rank in range(3)]
    assert shares[0] == [Share(0, True), Share(3, True), Share(6, True)]
    assert shares[1] == [Share(1, True), Share(4, True), Share(6, False)]
    assert shares[2] == [Share(2, True), Share(5, True), Share(6, False)]


def test_one_microbatch_is_computed_by_all_and_counted_by_the_first() -> None:
    assert [Ranks(rank, 2).share(1) for rank in range(2)] == [[Share(0, True)], [Share(0, False)]]


@pytest.mark.parametrize("rank", [0, 1])
def test_no_microbatches_are_no_passes(rank: int) -> None:
    assert Ranks(rank, 2).share(0) == []


def test_alone_nothing_is_changed() -> None:
    pair = Pair(torch.nn.Parameter(torch.ones(2, 2)), torch.nn.Parameter(torch.ones(2, 2)))
    pair.down_R_I.grad = gradient = torch.full((2, 2), 3.0)
    ranks = Ranks.join("cpu")
    ranks.sum_gradients([TrainedAdapter("a", 2, 2.0, {"m": pair})])
    assert pair.down_R_I.grad is gradient
    assert pair.up_O_R.grad is None
    assert ranks.sum_counts({"a": 3}) == {"a": 3}
    assert ranks.collect([5, 6]) == [5, 6]
    assert ranks.is_writer
