"""Eight adapters in one step against eight steps one after another, warm and cold, in one run. One JSON line.

Target on a CPU: within 5 % at large microbatches, at least 1.3 times at small ones. Warm: one process holds the base
and all adapters. Cold: each of the eight runs loads the base first, as a run of its own does.
"""

import argparse
import json
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from trainer.adapter_optimizer import AdapterOptimizer
from trainer.lora import new_adapter
from trainer.multi_lora_step import multi_lora_step
from trainer.objective_config import ObjectiveConfig
from trainer.optimizer_config import OptimizerConfig
from trainer.policy import Policy
from trainer.rows import SampledRun, TrainingRow

TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj")
OBJECTIVE = ObjectiveConfig()


def main() -> None:
    """Prints the line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--adapters", type=int, default=8)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    torch.set_num_threads(1)
    names = [f"tenant-{index}" for index in range(args.adapters)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shape = {"hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": args.layers}
        shape |= {"num_attention_heads": 9, "num_key_value_heads": 3, "vocab_size": 8192}
        LlamaForCausalLM(LlamaConfig(**shape)).save_pretrained(folder)
        line = {
            "benchmark": "multi_lora",
            "adapters": args.adapters,
            "layers": args.layers,
            "small": compare(folder, names, rows_each=1, tokens=12, repeats=args.repeats),
            "large": compare(folder, names, rows_each=4, tokens=160, repeats=args.repeats),
            "threads": 1,
            "machine": platform.machine(),
        }
    print(json.dumps(line))


def compare(folder: Path, names: list[str], *, rows_each: int, tokens: int, repeats: int) -> dict[str, object]:
    """One step together against one each, for rows of one size."""
    rows = {name: made_rows(name, rows_each, tokens) for name in names}
    warm = Trainer(folder, names)
    # Turn about, so that both meet the same load of the machine; the first round warms up.
    pairs = [
        (seconds(lambda: warm.step(rows, names)), seconds(lambda: [warm.step(rows, [name]) for name in names]))
        for _ in range(repeats + 1)
    ]
    together, alone = zip(*pairs[1:], strict=True)
    cold_together = [seconds(lambda: Trainer(folder, names).step(rows, names)) for _ in range(2)]
    cold_alone = [seconds(lambda: [Trainer(folder, [name]).step(rows, [name]) for name in names]) for _ in range(2)]
    ratios = [one.wall / all_.wall for one, all_ in zip(alone, together, strict=True)]
    return {
        "rows_each": rows_each,
        "tokens_each": tokens,
        "together_s": statistics.median(each.wall for each in together),
        "alone_s": statistics.median(each.wall for each in alone),
        "warm_ratio": statistics.median(ratios),
        "warm_ratio_range": [min(ratios), max(ratios)],
        "warm_cpu_ratio": statistics.median(one.cpu / all_.cpu for one, all_ in zip(alone, together, strict=True)),
        "cold_ratio": min(each.wall for each in cold_alone) / min(each.wall for each in cold_together),
    }


class Trainer:
    """The base and some adapters, loaded from disk."""

    def __init__(self, folder: Path, names: list[str]) -> None:
        network = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        self.policy = Policy(network)
        self.optimizers = {
            name: AdapterOptimizer(
                new_adapter(network, name, rank=8, alpha=16, targets=TARGETS, seed=index), OptimizerConfig()
            )
            for index, name in enumerate(names)
        }

    def step(self, rows: dict[str, list[TrainingRow]], names: list[str]) -> None:
        """One step of the named adapters."""
        given = [row for name in names for row in rows[name]]
        advantages = {run.turn_id: 1.0 for row in given for run in row.runs}
        optimizers = {name: self.optimizers[name] for name in names}
        multi_lora_step(self.policy, optimizers, given, advantages, dict.fromkeys(names, OBJECTIVE))


def made_rows(name: str, count: int, tokens: int) -> list[TrainingRow]:
    """Rows that share nothing; the second half of each was sampled."""
    random = np.random.default_rng(sum(name.encode()))
    half = tokens // 2
    return [
        TrainingRow(
            f"{name}/{index}",
            name,
            random.integers(0, 8192, tokens).astype(np.int32),
            (SampledRun(f"{name}/{index}", half, tokens, np.full(tokens - half, -9, dtype=np.float32), 1.0, 1),),
        )
        for index in range(count)
    ]


class Seconds(NamedTuple):
    """What one call took."""

    wall: float
    cpu: float
    """Of this process: what other processes do adds little to it."""


def seconds(work: Callable[[], object]) -> Seconds:
    """Wall and CPU time of one call."""
    begun, cpu = time.perf_counter(), time.process_time()
    work()
    return Seconds(time.perf_counter() - begun, time.process_time() - cpu)


if __name__ == "__main__":
    main()
