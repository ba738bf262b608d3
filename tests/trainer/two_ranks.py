"""Two steps of two adapters over some ranks; under torchrun a script: MODEL FOLDER, FOLDER OF THE RESULTS."""

import sys
from pathlib import Path
from typing import NamedTuple

import torch
import torch.distributed as distributed
from torch import Tensor
from torch.distributed.tensor import DTensor

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.trainer.row_by_row import adapter, network, rows
from trainer.adapter_optimizer import AdapterOptimizer
from trainer.lora import TrainedAdapter
from trainer.microbatches import microbatches
from trainer.optimizer_config import OptimizerConfig
from trainer.packing import pack
from trainer.policy import Policy
from trainer.ranks import Ranks, end_process
from trainer.scorer import Scored


class Case(NamedTuple):
    """One way of training."""

    dtype: torch.dtype
    checkpointing: bool
    tied: bool


CASES = (
    Case(torch.float64, False, False),
    Case(torch.float64, True, True),
    Case(torch.float32, True, False),
)


def train(folder: Path, ranks: Ranks, case: Case) -> dict[str, Tensor]:
    """Gradients, weights and log-probabilities of two steps, by name."""
    model = network(folder, case.dtype)
    if case.tied:
        model.lm_head.weight = model.model.embed_tokens.weight
    adapters = {name: adapter(model, name, rank, case.dtype) for name, rank in (("a", 4), ("b", 8), ("c", 2))}
    # Lower layers have nothing to do in the backward pass of a rank that trains this one only.
    above = {module: pair for module, pair in adapters["b"].pairs.items() if ".layers.3." in module}
    adapters["b"] = adapters["b"]._replace(pairs=above)
    policy = Policy(model, checkpointing=case.checkpointing)
    whole = sum(parameter.numel() for parameter in model.parameters())
    policy.shard(ranks)
    assert sum(_held(parameter) for parameter in model.parameters()) <= 1.01 * whole / ranks.size
    optimizers = {name: AdapterOptimizer(made, OptimizerConfig(lr=1e-2)) for name, made in adapters.items()}
    found: dict[str, Tensor] = {}
    for step in range(2):
        given = [*rows("a", step), *rows("b", step)]
        chosen = microbatches(given, budget_tokens=64)
        trained = {name: sum(row.trained_tokens for row in given if row.adapter == name) for name in adapters}
        scores: list[Tensor] = []
        for microbatch, counted in ranks.share(len(chosen)):
            part = [given[index] for index in chosen[microbatch]]
            scored = _backward(policy, adapters, part, trained, counted=counted)
            scores += [scored] if counted else []
        assert len(chosen) == 4 + step, "one rank is left over in the last pass of the second step"
        found[f"logprobs {step}"] = torch.cat(ranks.collect(scores))
        ranks.sum_gradients(adapters.values())
        for name, made in adapters.items():
            for index, parameter in enumerate(made.parameters()):
                assert (parameter.grad is None) == (name == "c"), "nobody's rows are of c"
                if parameter.grad is not None:
                    found[f"gradient {step} {name} {index}"] = parameter.grad.clone()
            optimizers[name].update()
    for name, made in adapters.items():
        for index, parameter in enumerate(made.parameters()):
            found[f"weight {name} {index}"] = parameter.detach()
    return found


def _held(parameter: Tensor) -> int:
    return parameter.to_local().numel() if isinstance(parameter, DTensor) else parameter.numel()


def _backward(
    policy: Policy, adapters: dict[str, TrainedAdapter], part: list, trained: dict[str, int], *, counted: bool
) -> Tensor:
    packed = pack(part)
    with torch.no_grad():
        old = policy.score(packed, adapters).logprobs_N
    of_N = torch.tensor([trained[part[index].adapter] for index in packed.rows_N.tolist()])

    def loss_of(scored: Scored, indices: Tensor) -> Tensor:
        return (scored.logprobs_N / of_N[indices]).sum() * int(counted)

    policy.backward(packed, adapters, loss_of)
    return old


def main() -> None:
    """Writes what each rank found."""
    torch.set_num_threads(1)
    folder, results = Path(sys.argv[1]), Path(sys.argv[2])
    ranks = Ranks.join("cpu")
    for index, case in enumerate(CASES):
        torch.save(train(folder, ranks, case), results / f"{index}.{ranks.rank}.pt")
    assert ranks.sum_counts({"a": 1, f"of {ranks.rank}": 2}) == {"a": ranks.size, "of 0": 2, "of 1": 2}
    distributed.destroy_process_group()
    end_process(0)


if __name__ == "__main__":
    main()
