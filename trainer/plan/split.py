"""How to split devices between sampling and training: every split priced, the fastest one that fits chosen."""

from typing import NamedTuple

from trainer.plan.async_loop import async_step_s, supply_s, trainer_stall_s
from trainer.plan.devices import Device
from trainer.plan.model_shape import ModelShape
from trainer.plan.quantity import require_count, require_not_negative
from trainer.plan.rollout_time import Drafting, Efficiency, RolloutTimes, fit_engine, rollout_times
from trainer.plan.update_time import Training, training_bytes_per_device, update_seconds, update_work
from trainer.plan.workload import Workload

MOST_DEVICES = 4096
"""Where the search for a number of devices that fits ends."""


class Split(NamedTuple):
    """One split of the devices, and the overlapped step it gives."""

    inference_devices: int
    training_devices: int
    rollouts: RolloutTimes
    supply_s: float
    """Time in which the inference devices finish a batch."""
    update_s: float
    step_s: float
    trainer_stall_s: float
    """What the trainer waits in a step."""


def price_splits(
    shape: ModelShape,
    device: Device,
    workload: Workload,
    training: Training,
    *,
    devices: int,
    efficiency: Efficiency,
    drafting: Drafting,
    sync_s: float,
) -> list[Split]:
    """Every split whose two sides fit in memory, fewest inference devices first."""
    require_count(devices=devices)
    require_not_negative(sync_s=sync_s)
    work = update_work(shape, workload, training)
    splits: list[Split] = []
    for sampling in range(1, devices - training.pipeline_stages + 1):
        learning = devices - sampling
        usable = device.memory_bytes * efficiency.memory_share
        if training_bytes_per_device(shape, training, devices=learning) > usable:
            continue
        engine = fit_engine(shape, device, workload, devices=sampling, memory_share=efficiency.memory_share)
        if engine is None:
            continue
        times = rollout_times(shape, device, workload, engine, efficiency=efficiency, drafting=drafting)
        supply = supply_s(times.durations_s, slots=engine.slots, batch_rollouts=len(workload.rollouts))
        update = update_seconds(work, device, training, devices=learning, mfu=efficiency.mfu)
        splits.append(
            Split(
                inference_devices=sampling,
                training_devices=learning,
                rollouts=times,
                supply_s=supply,
                update_s=update,
                step_s=async_step_s(supply_s=supply, update_s=update, sync_s=sync_s),
                trainer_stall_s=trainer_stall_s(supply_s=supply, update_s=update),
            )
        )
    return splits


def fastest(splits: list[Split]) -> Split | None:
    """The split with the shortest step; of equals, the one with fewer inference devices."""
    return min(splits, key=lambda split: split.step_s, default=None)


def fewest_devices(
    shape: ModelShape, device: Device, workload: Workload, training: Training, *, memory_share: float
) -> int | None:
    """Fewest devices on which sampling and training fit, together or split; None if no number up to a limit does."""
    usable = device.memory_bytes * memory_share
    samplers = learners = together = None
    for devices in range(training.pipeline_stages, MOST_DEVICES + 1):
        trained = training_bytes_per_device(shape, training, devices=devices)
        if trained > usable:
            continue
        learners = learners or devices
        engine = fit_engine(
            shape, device, workload, devices=devices, memory_share=memory_share, reserved_bytes_per_device=trained
        )
        if engine is not None:
            together = devices
            break
    for devices in range(1, MOST_DEVICES + 1):
        if fit_engine(shape, device, workload, devices=devices, memory_share=memory_share) is not None:
            samplers = devices
            break
    apart = samplers + learners if samplers and learners else None
    return min((count for count in (together, apart) if count is not None), default=None)
