"""What prefix sharing saves: 16 rows of 2,048 + 128 tokens, forward and backward, against row by row. One JSON line.

Target: at least 85 % of the counted-FLOP ratio. Counted are the body's matrix products (frozen: 2 forward, 2 backward
per parameter and token), attention over its real query-key pairs (4 forward, 8 backward per width, layer and pair)
and the head over trained tokens. A random Llama of SmolLM2-135M's width and few layers: the ratio hangs on shapes only.
"""

import argparse
import json
import platform
import resource
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from trainer.linear_modules import linear_modules
from trainer.lora import TrainedAdapter, new_adapter
from trainer.packing import Packed, pack
from trainer.policy import Policy
from trainer.rows import SampledRun, TrainingRow

WIDTH, HEADS, KEY_HEADS, INNER, VOCABULARY = 576, 9, 3, 1536, 49152
TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj")


def main() -> None:
    """Prints the line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=16)
    parser.add_argument("--prefix", type=int, default=2048)
    parser.add_argument("--completion", type=int, default=128)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    policy, adapter = model(args.layers)
    rows = made_rows(args.rows, args.prefix, args.completion)
    shared, dense = [pack(rows)], [pack([row]) for row in rows]
    gradients = {name: gradient(policy, adapter, parts) for name, parts in (("shared", shared), ("dense", dense))}
    difference = (gradients["shared"] - gradients["dense"]).norm() / gradients["dense"].norm()
    times: dict[str, list[float]] = {"shared": [], "dense": []}
    for _ in range(args.repeats):
        for name, parts in (("shared", shared), ("dense", dense)):
            begun = time.perf_counter()
            gradient(policy, adapter, parts)
            times[name].append(time.perf_counter() - begun)
    ideal = flops(policy, dense) / flops(policy, shared)
    measured = [d / s for d, s in zip(times["dense"], times["shared"], strict=True)]
    line = {
        "benchmark": "prefix",
        "rows": [args.rows, args.prefix, args.completion],
        "layers": args.layers,
        "tokens_dense": sum(len(part.ids_T) for part in dense),
        "tokens_shared": sum(len(part.ids_T) for part in shared),
        "flop_ratio": ideal,
        "time_ratio": statistics.median(measured),
        "time_ratio_range": [min(measured), max(measured)],
        "share_of_flop_ratio": statistics.median(measured) / ideal,
        "dense_s": statistics.median(times["dense"]),
        "shared_s": statistics.median(times["shared"]),
        "gradient_difference": float(difference),
        "peak_rss_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "threads": 1,
        "machine": platform.machine(),
    }
    print(json.dumps(line))


def model(layers: int) -> tuple[Policy, TrainedAdapter]:
    """A random frozen Llama, and an adapter that changes it."""
    shape: dict[str, Any] = {"hidden_size": WIDTH, "intermediate_size": INNER, "num_hidden_layers": layers}
    shape |= {"num_attention_heads": HEADS, "num_key_value_heads": KEY_HEADS, "vocab_size": VOCABULARY}
    network = LlamaForCausalLM(LlamaConfig(**shape, max_position_embeddings=8192, tie_word_embeddings=True))
    policy = Policy(network)
    adapter = new_adapter(network, "a", rank=8, alpha=16, targets=TARGETS, seed=1)
    with torch.no_grad():
        for pair in adapter.pairs.values():
            pair.up_O_R.normal_(0, 0.02)
    return policy, adapter


def made_rows(count: int, prefix: int, completion: int) -> list[TrainingRow]:
    """A group: one prompt, `count` completions."""
    random = np.random.default_rng(0)
    prompt = random.integers(0, VOCABULARY, prefix)
    made: list[TrainingRow] = []
    for index in range(count):
        ids = np.concatenate([prompt, random.integers(0, VOCABULARY, completion)]).astype(np.int32)
        run = SampledRun(str(index), prefix, prefix + completion, np.zeros(completion, dtype=np.float32), 1.0, 1)
        made.append(TrainingRow(str(index), "a", ids, (run,)))
    return made


def gradient(policy: Policy, adapter: TrainedAdapter, parts: Sequence[Packed]) -> torch.Tensor:
    """The adapter's gradient of the sum of all log-probabilities, flat."""
    for parameter in adapter.parameters():
        parameter.grad = None
    for part in parts:
        policy.score(part, {"a": adapter}).logprobs_N.sum().backward()
    return torch.cat([p.grad.flatten() for p in adapter.parameters() if p.grad is not None])


def flops(policy: Policy, parts: Sequence[Packed]) -> float:
    """Counted FLOPs of forward and backward."""
    body = sum(module.weight.numel() for module in linear_modules(policy.network).values())
    layers = policy.network.config.num_hidden_layers
    total = 0.0
    for part in parts:
        pairs = sum(b.tokens * b.past + b.tokens * (b.tokens + 1) / 2 for b in part.branches)
        total += 4 * body * len(part.ids_T) + 12 * WIDTH * layers * pairs
        # The head's products: forward, again in the backward pass, and the gradient of the hidden states.
        total += 6 * VOCABULARY * WIDTH * len(part.targets_N)
    return total


if __name__ == "__main__":
    main()
