"""How long one optimizer step takes on a number of devices, and whether its state fits there."""

import math
from typing import NamedTuple

from trainer.plan.devices import Device
from trainer.plan.flops import full_training_flops, lora_training_flops, model_forward_flops
from trainer.plan.memory import checkpointed_input_bytes, full_training_bytes, lora_parameters, lora_training_bytes
from trainer.plan.model_shape import ModelShape
from trainer.plan.pipeline import bubble_of_wall, packed_microbatches
from trainer.plan.quantity import require_count, require_positive, require_share
from trainer.plan.workload import Workload


class Training(NamedTuple):
    """How the trainer trains."""

    lora_rank: int | None
    """Rank of the adapter; None trains every parameter."""
    microbatch_tokens: int
    """Token budget of a microbatch."""
    pipeline_stages: int


class UpdateWork(NamedTuple):
    """Arithmetic of one optimizer step over the step's rows, prefixes shared once."""

    computed_tokens: int
    scoring_flops: float
    """The forward pass that fixes pi_old."""
    training_flops: float
    """Forward and backward."""
    recompute_flops: float
    """The second forward pass of full activation checkpointing."""
    microbatches: int

    @property
    def total_flops(self) -> float:
        """All of it."""
        return self.scoring_flops + self.training_flops + self.recompute_flops


def update_work(shape: ModelShape, workload: Workload, training: Training) -> UpdateWork:
    """Counts the step over the rows' prefix tree."""
    tokens = workload.sharing.tree_tokens
    forward = model_forward_flops(shape, tokens=tokens, pairs=workload.tree_pairs)
    trained = full_training_flops(forward)
    if training.lora_rank is not None:
        attention = forward - 2 * shape.matmul_parameters * tokens
        trained = lora_training_flops(
            tokens=tokens,
            attention_forward=attention,
            matmul_parameters=shape.matmul_parameters,
            adapter_parameters=lora_parameters(shape, rank=training.lora_rank),
        )
    return UpdateWork(
        computed_tokens=tokens,
        scoring_flops=forward,
        training_flops=trained,
        recompute_flops=forward,
        microbatches=packed_microbatches(workload.rows, budget_tokens=training.microbatch_tokens),
    )


def update_seconds(work: UpdateWork, device: Device, training: Training, *, devices: int, mfu: float) -> float:
    """The step on `devices`, the pipeline's bubble included; each pipeline takes its share of the microbatches."""
    require_count(devices=devices, pipeline_stages=training.pipeline_stages)
    require_positive(mfu=mfu)
    require_share(mfu=mfu)
    pipelines = devices // training.pipeline_stages
    if not pipelines:
        raise ValueError(f"{devices} devices cannot hold a pipeline of {training.pipeline_stages} stages")
    each = math.ceil(work.microbatches / pipelines)
    bubble = bubble_of_wall(stages=training.pipeline_stages, microbatches=each)
    used = pipelines * training.pipeline_stages
    return work.total_flops / (used * device.peak_flops_per_s * mfu) / (1 - bubble)


def training_state_bytes(shape: ModelShape, training: Training) -> int:
    """Weights, gradients and optimizer of what is trained, and the frozen base when that is an adapter."""
    if training.lora_rank is None:
        return full_training_bytes(shape.parameters)
    return lora_training_bytes(shape.parameters, adapter_parameters=lora_parameters(shape, rank=training.lora_rank))


def training_bytes_per_device(shape: ModelShape, training: Training, *, devices: int) -> float:
    """State sharded over the devices, and the checkpointed inputs of one microbatch of the layers a stage holds."""
    require_count(devices=devices)
    inputs = checkpointed_input_bytes(tokens=training.microbatch_tokens, layers=shape.layers, hidden=shape.hidden)
    return training_state_bytes(shape, training) / devices + inputs / training.pipeline_stages
