"""How long the rollouts of a step take on a number of devices: replicas, slots, decode passes, prefill, waiting."""

import math
from typing import NamedTuple

from trainer.plan.devices import Device
from trainer.plan.flops import model_forward_flops
from trainer.plan.memory import kv_bytes_per_token, rollouts_that_fit, weight_bytes
from trainer.plan.model_shape import ModelShape
from trainer.plan.quantity import require_count, require_positive, require_share
from trainer.plan.roofline import Work, decode_work, pass_seconds
from trainer.plan.speculative import tokens_per_pass
from trainer.plan.workload import Workload

WEIGHTS_SHARE = 0.5
"""Most of a replica's usable memory that weights may take; a replica spans more devices until they do."""


class Efficiency(NamedTuple):
    """How much of a device's rating real kernels reach."""

    mfu: float
    """Share of peak arithmetic in prefill and training."""
    bandwidth_share: float
    """Share of peak memory bandwidth in decoding."""
    memory_share: float
    """Share of memory that may be filled."""


class Drafting(NamedTuple):
    """Speculative decoding; no drafts is ordinary decoding."""

    draft_tokens: int = 0
    acceptance_rate: float = 1.0


class Engine(NamedTuple):
    """Replicas of the model on the devices that sample."""

    devices: int
    devices_per_replica: int
    replicas: int
    kv_bytes_per_replica: float
    rollouts_that_fit: int
    """Rollouts of mean peak length that fit in all replicas together."""
    slots_per_replica: int
    """Rollouts a replica runs at once."""

    @property
    def slots(self) -> int:
        """Rollouts that run at once on all replicas."""
        return self.slots_per_replica * self.replicas


class RolloutTimes(NamedTuple):
    """The rollouts of a step on an engine."""

    engine: Engine
    work: Work
    """One decode pass of one replica."""
    pass_s: float
    tokens_per_pass: float
    durations_s: tuple[float, ...]
    wait_share: float
    """Share of all rollout seconds spent waiting for tools."""

    @property
    def device_s(self) -> float:
        """Device-seconds of the step's rollouts at perfect packing."""
        return math.fsum(self.durations_s) / self.engine.slots * self.engine.devices


def fit_engine(
    shape: ModelShape,
    device: Device,
    workload: Workload,
    *,
    devices: int,
    memory_share: float,
    reserved_bytes_per_device: float = 0.0,
) -> Engine | None:
    """The smallest replicas whose weights leave room for a cache, as many as the devices hold; None if none fits."""
    require_count(devices=devices)
    require_positive(memory_share=memory_share)
    require_share(memory_share=memory_share)
    usable = device.memory_bytes * memory_share - reserved_bytes_per_device
    weights = weight_bytes(shape.parameters)
    per_replica = 1
    while weights > WEIGHTS_SHARE * usable * per_replica:
        per_replica *= 2
        if per_replica > devices or usable <= 0:
            return None
    replicas = devices // per_replica
    kv_per_replica = usable * per_replica - weights
    rollout_bytes = workload.mean_peak_tokens * shape_kv_bytes_per_token(shape)
    fit = rollouts_that_fit(cache_bytes=kv_per_replica, rollout_bytes=rollout_bytes)
    if not fit:
        return None
    return Engine(
        devices=devices,
        devices_per_replica=per_replica,
        replicas=replicas,
        kv_bytes_per_replica=kv_per_replica,
        rollouts_that_fit=fit * replicas,
        slots_per_replica=min(fit, math.ceil(len(workload.rollouts) / replicas)),
    )


def shape_kv_bytes_per_token(shape: ModelShape) -> int:
    """Bytes one token of this model keeps in the cache."""
    return kv_bytes_per_token(layers=shape.layers, kv_heads=shape.kv_heads, head_width=shape.head_width)


def rollout_times(
    shape: ModelShape,
    device: Device,
    workload: Workload,
    engine: Engine,
    *,
    efficiency: Efficiency,
    drafting: Drafting,
) -> RolloutTimes:
    """Durations with every slot taken: a pass serves all of a replica's slots, and so does prefill, in turn."""
    work = decode_work(
        shape,
        sequences=engine.slots_per_replica,
        context_tokens=workload.mean_decode_context,
        kv_bytes_per_token=shape_kv_bytes_per_token(shape),
        positions=1 + drafting.draft_tokens,
    )
    pass_s = pass_seconds(
        work,
        device,
        devices=engine.devices_per_replica,
        mfu=efficiency.mfu,
        bandwidth_share=efficiency.bandwidth_share,
    )
    yielded = tokens_per_pass(acceptance_rate=drafting.acceptance_rate, draft_tokens=drafting.draft_tokens)
    shared = workload.computed_prefill_tokens / sum(rollout.fresh for rollout in workload.rollouts)
    flops_per_s = device.peak_flops_per_s * engine.devices_per_replica * efficiency.mfu
    decode = [rollout.sampled / yielded * pass_s for rollout in workload.rollouts]
    prefill = [
        shared
        * engine.slots_per_replica
        * model_forward_flops(shape, tokens=rollout.fresh, pairs=rollout.fresh_pairs)
        / flops_per_s
        for rollout in workload.rollouts
    ]
    waits = [workload.tool_wait_s * (len(rollout.turns) - 1) for rollout in workload.rollouts]
    durations = tuple(sum(parts) for parts in zip(decode, prefill, waits, strict=True))
    return RolloutTimes(
        engine=engine,
        work=work,
        pass_s=pass_s,
        tokens_per_pass=yielded,
        durations_s=durations,
        wait_share=math.fsum(waits) / math.fsum(durations),
    )
