"""FLOPs of a pass: worked by hand, and against what torch counts."""

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode
from transformers import LlamaConfig, LlamaForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM

from trainer.lora import TrainedAdapter, new_adapter
from trainer.packing import Packed, pack
from trainer.plan.model_shape import shape_of
from trainer.policy import Policy
from trainer.rows import SampledRun, TrainingRow
from trainer.training.step_flops import PassShape, recomputation_flops, scoring_flops, training_flops

WIDTH, INNER, LAYERS, VOCABULARY = 16, 24, 2, 40
TARGETS = ("q_proj", "v_proj", "down_proj")
RANK = {"a": 2, "b": 3}

# Two layers of q, k, v and o of 16 x 16 (four heads of 4, no grouping) and three of 16 x 24.
BODY = 2 * (4 * 16 * 16 + 3 * 16 * 24)
HEAD = 16 * 40
# rank x (in + out) of q, v and down in two layers
PER_RANK = 2 * (32 + 32 + 40)


@pytest.fixture(scope="module")
def network() -> Any:
    return new_network()


def new_network() -> Any:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    sizes = {"vocab_size": VOCABULARY, "hidden_size": WIDTH, "intermediate_size": INNER, "num_hidden_layers": LAYERS}
    return LlamaForCausalLM(LlamaConfig(**sizes, num_attention_heads=4, num_key_value_heads=4)).eval()


def row(name: str, ids: list[int], start: int) -> TrainingRow:
    logprobs = np.full(len(ids) - start, -3, dtype=np.float32)
    return TrainingRow("s", name, np.array(ids, dtype=np.int32), (SampledRun("t", start, len(ids), logprobs, 1.0, 1),))


def packed() -> Packed:
    """a: 5 tokens, then 2 that share 3 of them; b: 4 tokens. 11 computed, 6 with loss."""
    return pack([row("a", [1, 2, 3, 4, 5], 3), row("a", [1, 2, 3, 6, 7], 3), row("b", [1, 2, 3, 4], 2)])


def adapters(network: Any) -> dict[str, TrainedAdapter]:
    return {
        name: new_adapter(network, name, rank=rank, alpha=4, targets=TARGETS, seed=0) for name, rank in RANK.items()
    }


# a: 1 + 2 + 3 + 4 + 5 = 15, and its branch 2 x 3 past + 1 + 2 = 9; b: 1 + 2 + 3 + 4 = 10
PAIRS = 15 + 9 + 10
# a query-key product and a weighted sum, 2 FLOPs a multiplication: 4 x width, in two layers
ATTENTION = PAIRS * 4 * 16 * 2
LORA = 7 * 2 * PER_RANK + 4 * 3 * PER_RANK


def test_training_is_counted_as_by_hand(network: Any) -> None:
    shape = PassShape.of(network)
    assert shape == PassShape(body_parameters=BODY, head_parameters=HEAD, layers=2, attention_width=16)
    by_hand = 11 * 4 * BODY + 6 * LORA + 3 * ATTENTION + 6 * 4 * HEAD
    assert training_flops(shape, packed(), adapters(network)) == by_hand


def test_scoring_and_recomputation_are_counted_apart(network: Any) -> None:
    shape = PassShape.of(network)
    assert shape is not None
    body = 11 * 2 * BODY + 2 * LORA + ATTENTION
    assert scoring_flops(shape, packed(), adapters(network)) == body + 6 * 2 * HEAD
    kept, again = (
        recomputation_flops(shape, packed(), adapters(network), checkpointing=checkpointing)
        for checkpointing in (False, True)
    )
    assert (kept, again) == (6 * 2 * HEAD, body + 6 * 2 * HEAD)


def test_shared_tokens_are_counted_once(network: Any) -> None:
    shape = PassShape.of(network)
    assert shape is not None
    rows = [row("a", [1, 2, 3, 4, 5], 3), row("a", [1, 2, 3, 6, 7], 3)]
    alone = sum(training_flops(shape, pack([each]), adapters(network)) for each in rows)
    together = training_flops(shape, pack(rows), adapters(network))
    # 3 tokens and their 6 pairs
    assert alone - together == 3 * (4 * BODY + 6 * 2 * PER_RANK) + 3 * 6 * 4 * 16 * 2


def test_torch_counts_the_same_but_for_what_is_masked_computed_again_and_never_needed(network: Any) -> None:
    policy, made = Policy(network), adapters(network)
    with torch.no_grad():
        for each in made.values():
            for pair in each.pairs.values():
                pair.up_O_R.fill_(0.01)
    # torch does not count its fused attention on a CPU; the plain one is two products.
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as scoring, torch.no_grad():
        policy.score(packed(), made)
    shape = PassShape.of(network)
    assert shape is not None
    # Attention computes a branch's queries with every key, the masked ones too: 5 x 5, 2 x 5 and 4 x 4 pairs.
    masked = (25 + 10 + 16 - PAIRS) * 4 * 16 * 2
    assert scoring.get_total_flops() == scoring_flops(shape, packed(), made) + masked
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as training:
        policy.backward(packed(), made, lambda scored, _: scored.logprobs_N.sum())
    counted = training.get_total_flops()
    logits_again = recomputation_flops(shape, packed(), made, checkpointing=False)
    # Nothing asks for the gradient of the first layer's input: not through its q, k and v, nor through q's and v's A.
    unneeded = 11 * 2 * 3 * 16 * 16 + sum(tokens * 2 * 2 * 16 * RANK[name] for name, tokens in (("a", 7), ("b", 4)))
    # Its keys are those of the frozen base, so that their gradient, a product over all pairs, is not asked for either.
    unneeded += (25 + 10 + 16) * 2 * 16
    # torch's math attention computes the products of the backward pass over all keys as well.
    assert counted == training_flops(shape, packed(), made) + logits_again + 3 * masked - unneeded


# Depth first: 3 tokens and, after them, twice 2 of a; 4 of b. The twice 2 see 2 x 3 past and 1 + 2 pairs each.
REJOINED = 2 * 9
NODE_KEYS = 3 * 3 + 2 * (2 * 5) + 4 * 4


@pytest.mark.parametrize("checkpointing", [False, True])
def test_depth_first_computes_attention_to_ancestors_again(network: Any, checkpointing: bool) -> None:
    shape = PassShape.of(network)
    assert shape is not None
    packed_again, again = (
        recomputation_flops(shape, packed(), adapters(network), checkpointing=checkpointing, mode=mode)
        for mode in ("packed", "depth_first")
    )
    assert again - packed_again == REJOINED * 4 * 16 * 2
    # A node that nothing is learned behind goes not backward: row two, without its last tokens' loss.
    rows = [row("a", [1, 2, 3, 4, 5], 3), row("a", [1, 2, 3, 6, 7], 3)]
    rows[1] = rows[1]._replace(runs=(rows[1].runs[0]._replace(end=4, logprobs=rows[1].runs[0].logprobs[:1]),))
    fewer = recomputation_flops(shape, pack(rows), adapters(network), checkpointing=False, mode="depth_first")
    assert fewer == 9 * 4 * 16 * 2 + 3 * 2 * HEAD


@pytest.mark.parametrize("checkpointing", [False, True])
def test_torch_counts_the_same_depth_first(checkpointing: bool) -> None:
    network = new_network()
    policy, made = Policy(network, mode="depth_first", checkpointing=checkpointing), adapters(network)
    with torch.no_grad():
        for each in made.values():
            for pair in each.pairs.values():
                pair.up_O_R.fill_(0.01)
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as training:
        policy.backward(packed(), made, lambda scored, _: scored.logprobs_N.sum())
    shape = PassShape.of(network)
    assert shape is not None
    masked, masked_again = (NODE_KEYS - PAIRS) * 4 * 16 * 2, (2 * 10 - REJOINED) * 4 * 16 * 2
    again = recomputation_flops(shape, packed(), made, checkpointing=checkpointing, mode="depth_first")
    masked_again += masked if checkpointing else 0
    # As above: nothing asks for the gradients of the first layer's input and keys.
    unneeded = 11 * 2 * 3 * 16 * 16 + sum(tokens * 2 * 2 * 16 * RANK[name] for name, tokens in (("a", 7), ("b", 4)))
    unneeded += NODE_KEYS * 2 * 16
    # What is computed again stops at the last product whose result no gradient needs: in plain attention, not in the
    # fused one, that of the values; in a whole layer, that of the last module's B.
    stopped = 2 * 10 * 2 * 16 * 2
    if checkpointing:
        stopped += sum(tokens * 2 * 16 * RANK[name] * 2 for name, tokens in (("a", 7), ("b", 4)))
    expected = training_flops(shape, packed(), made) + again + 3 * masked + masked_again - unneeded - stopped
    assert training.get_total_flops() == expected


def test_experts_are_counted_by_the_plan() -> None:
    config = Qwen3MoeConfig(
        vocab_size=40,
        hidden_size=16,
        intermediate_size=24,
        moe_intermediate_size=8,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=4,
        num_experts=4,
        num_experts_per_tok=2,
    )
    shape = PassShape.of(Qwen3MoeForCausalLM(config))
    assert shape is not None
    # q and o of 16 x 16, k and v of 16 x 8; a router of 16 x 4 and two experts of three 16 x 8 a token
    assert shape.body_parameters == 2 * (2 * 256 + 2 * 128 + 64 + 2 * 3 * 128)
    assert shape.body_parameters + shape.head_parameters == shape_of(config.to_dict()).matmul_parameters
