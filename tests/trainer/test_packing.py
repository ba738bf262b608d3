"""The packing: every row's tokens are found on its path, shared ones once, and trained ones where their logits are."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from trainer.microbatches import FULL_TOKENS, microbatches
from trainer.packing import Packed, pack
from trainer.rows import SampledRun, TrainingRow


def row(ids: list[int], name: str | None = "a") -> TrainingRow:
    """A row whose last token was sampled."""
    run = SampledRun(f"t{ids}", len(ids) - 1, len(ids), np.array([-0.5], dtype=np.float32), 1.0, 1)
    return TrainingRow("s", name, np.array(ids, dtype=np.int32), (run,))


def seen(packed: Packed, index: int) -> list[int]:
    """What the token at a packed index can attend to, itself last."""
    branch = next(each for each in packed.branches if each.start <= index < each.end)
    path = ([] if branch.context is None else branch.context.tolist()) + list(range(branch.start, index + 1))
    return packed.ids_T[torch.tensor(path)].tolist()


def test_a_shared_prefix_is_there_once() -> None:
    packed = pack([row([1, 2, 3, 4]), row([1, 2, 5])])
    assert packed.ids_T.tolist() == [1, 2, 3, 4, 5]
    assert packed.positions_T.tolist() == [0, 1, 2, 3, 2]
    assert packed.predicting_N.tolist() == [2, 1]
    assert packed.targets_N.tolist() == [4, 5]
    assert packed.unshared_tokens == 7


def test_adapters_share_nothing_and_lie_apart() -> None:
    packed = pack([row([1, 2, 3], "b"), row([1, 2, 3], "a"), row([1, 2, 4], "b")])
    assert [tuple(each) for each in packed.slices] == [("a", 0, 3), ("b", 3, 7)]
    assert packed.rows_N.tolist() == [0, 1, 2]


def test_a_row_inside_another_adds_no_token() -> None:
    packed = pack([row([1, 2, 3]), row([1, 2]), row([1, 2, 3])])
    assert packed.ids_T.tolist() == [1, 2, 3]
    assert packed.predicting_N.tolist() == [1, 0, 1]


def test_a_token_after_nothing_cannot_be_scored() -> None:
    with pytest.raises(ValueError, match="sampled after an empty prompt"):
        pack([row([7])])


tokens = st.lists(st.integers(0, 2), min_size=2, max_size=9)


@given(st.lists(st.tuples(tokens, st.sampled_from(["a", "b"])), min_size=1, max_size=10))
def test_every_trained_token_is_predicted_from_exactly_its_own_context(drawn: list[tuple[list[int], str]]) -> None:
    packed = pack([row(ids, name) for ids, name in drawn])
    for n, (ids, name) in enumerate(drawn):
        at = int(packed.predicting_N[n])
        assert seen(packed, at) == ids[:-1]
        assert int(packed.targets_N[n]) == ids[-1]
        assert int(packed.positions_T[at]) == len(ids) - 2
        assert next(each.adapter for each in packed.slices if each.start <= at < each.end) == name
    distinct = {(name, tuple(ids[: end + 1])) for ids, name in drawn for end in range(len(ids))}
    assert len(packed.ids_T) == len(distinct), "as many tokens as the tries of both adapters have nodes"


@given(st.lists(st.tuples(tokens, st.sampled_from(["a", "b"])), min_size=1, max_size=10), st.integers(1, 25))
def test_microbatches_hold_every_row_once_within_the_budget(drawn: list[tuple[list[int], str]], budget: int) -> None:
    rows = [row(ids, name) for ids, name in drawn]
    made = microbatches(rows, budget_tokens=budget)
    assert sorted(index for part in made for index in part) == list(range(len(rows)))
    for part in made:
        assert len(pack([rows[index] for index in part]).ids_T) <= max(budget, len(rows[part[0]].ids))


def test_a_further_adapter_joins_a_microbatch_only_until_it_is_full() -> None:
    half, rest = FULL_TOKENS // 2, FULL_TOKENS - FULL_TOKENS // 2
    rows = [row([1] * half, "a"), row([2] * rest, "b"), row([3] * 2, "c"), row([3, 4] * half, "c")]
    assert microbatches(rows, budget_tokens=10 * FULL_TOKENS) == [[0, 1], [2, 3]]
    assert microbatches([row([at] * half, "a") for at in range(4)], budget_tokens=10 * FULL_TOKENS) == [[0, 1, 2, 3]]
