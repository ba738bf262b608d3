"""Puts a sheet together: prices the synchronous loop and every split, and says which to take."""

from trainer.plan.async_loop import sync_step_s
from trainer.plan.devices import CHECKED
from trainer.plan.makespan import continuous_makespan_s
from trainer.plan.quantity import require_count, require_positive, require_share
from trainer.plan.rollout_time import RolloutTimes, fit_engine, rollout_times
from trainer.plan.sections_sampling import (
    cache_section,
    decode_section,
    makespan_section,
    memory_section,
    prefill_section,
    workload_section,
)
from trainer.plan.sections_training import (
    compaction_section,
    loop_section,
    sharing_section,
    split_section,
    sync_bytes,
    update_section,
    weight_sync_section,
)
from trainer.plan.sheet import PlanInput, Section, Sheet
from trainer.plan.split import Split, fastest, fewest_devices, price_splits
from trainer.plan.update_time import training_bytes_per_device, update_seconds, update_work
from trainer.plan.weight_sync import copy_seconds


def make_sheet(plan: PlanInput) -> Sheet:
    """The whole sheet."""
    _require_plan(plan)
    together = _all_sampling(plan)
    work = update_work(plan.shape, plan.workload, plan.training)
    update_s = sync_step = None
    sync_s = copy_seconds(size_bytes=sync_bytes(plan), link_bytes_per_s=plan.link_bytes_per_s)
    if plan.devices >= plan.training.pipeline_stages:
        update_s = update_seconds(work, plan.device, plan.training, devices=plan.devices, mfu=plan.efficiency.mfu)
    if together is not None and update_s is not None:
        rollout_s = continuous_makespan_s(together.durations_s, slots=together.engine.slots)
        sync_step = sync_step_s(rollout_s=rollout_s, update_s=update_s, sync_s=sync_s)
    splits = price_splits(
        plan.shape,
        plan.device,
        plan.workload,
        plan.training,
        devices=plan.devices,
        efficiency=plan.efficiency,
        drafting=plan.drafting,
        sync_s=sync_s,
    )
    chosen = fastest(splits)
    timed = together or (chosen.rollouts if chosen else None)
    sections: list[Section | None] = [
        workload_section(plan),
        memory_section(plan, together.engine if together else None),
        cache_section(plan, together.engine if together else None),
        prefill_section(plan),
        decode_section(plan, timed) if timed else None,
        makespan_section(timed) if timed else None,
        sharing_section(plan),
        compaction_section(plan),
        update_section(plan, work, update_s),
        weight_sync_section(plan),
        loop_section(plan, together, sync_step, update_s, chosen),
        split_section(splits, chosen) if splits else None,
    ]
    return Sheet(
        title=f"{plan.model} on {plan.devices} x {plan.device.title}",
        verdict=_verdict(sync_step, chosen, plan),
        sections=tuple(section for section in sections if section is not None),
        assumptions=_assumptions(plan),
    )


def _require_plan(plan: PlanInput) -> None:
    """What no section may have looked at before something is printed."""
    require_count(devices=plan.devices, pipeline_stages=plan.training.pipeline_stages, max_tokens=plan.max_tokens)
    for name, share in plan.efficiency._asdict().items():
        require_positive(**{name: share})
        require_share(**{name: share})


def _all_sampling(plan: PlanInput) -> RolloutTimes | None:
    """The step's rollouts with every device sampling, beside the trainer's resident state; None if that cannot fit."""
    reserved = training_bytes_per_device(plan.shape, plan.training, devices=plan.devices)
    engine = fit_engine(
        plan.shape,
        plan.device,
        plan.workload,
        devices=plan.devices,
        memory_share=plan.efficiency.memory_share,
        reserved_bytes_per_device=reserved,
    )
    if engine is None:
        return None
    return rollout_times(
        plan.shape, plan.device, plan.workload, engine, efficiency=plan.efficiency, drafting=plan.drafting
    )


def _verdict(sync_step: float | None, split: Split | None, plan: PlanInput) -> str:
    if split is None and sync_step is None:
        needed = fewest_devices(
            plan.shape, plan.device, plan.workload, plan.training, memory_share=plan.efficiency.memory_share
        )
        return f"does not fit on {plan.devices} x {plan.device.memory_bytes / 1e9:.0f} GB, together or split; " + (
            f"{needed} would do, fewer with smaller microbatches" if needed else "use smaller microbatches"
        )
    if split is None or (sync_step is not None and sync_step <= split.step_s):
        beside = "no split fits" if split is None else f"the best split takes {split.step_s:.3g} s"
        return f"train synchronously, all devices in each phase: {sync_step:.3g} s a step, no staleness; {beside}"
    limit = "rollouts limit it" if split.supply_s >= split.update_s else "the trainer limits it"
    against = (
        "sampling and training do not fit on the same devices"
        if sync_step is None
        else f"synchronous takes {sync_step:.3g} s, {sync_step / split.step_s:.2f} times as long"
    )
    return (
        f"sample on {split.inference_devices} and train on {split.training_devices} of {plan.devices} devices, "
        f"overlapped: {split.step_s:.3g} s a step, {limit}; {against}"
    )


def _assumptions(plan: PlanInput) -> tuple[str, ...]:
    efficiency, device, drafting = plan.efficiency, plan.device, plan.drafting
    stated = [
        *plan.workload.assumptions,
        f"{device.title}: {device.source} ({device.as_of}; checked {CHECKED})",
        f"kernels reach {efficiency.mfu:.0%} of peak arithmetic in prefill and training and "
        f"{efficiency.bandwidth_share:.0%} of peak bandwidth in decode; {efficiency.memory_share:.0%} of memory is "
        "usable",
        "weights, gradients and cache are bf16; allocators, norms, softmax and traffic between devices cost nothing",
        "a replica spans the fewest devices (a power of two) whose usable memory its weights at most half fill",
        "every slot of a replica decodes in every pass, at the mean context; a prefill holds all of them up",
        "the update scores pi_old once, trains with full activation checkpointing and computes shared prefixes once",
        "trainer state stays in memory while the same devices sample",
        f"weights travel at {plan.link_bytes_per_s / 1e9:g} GB/s to every engine at once, and generation stands still",
        "a delta's values change independently of each other",
        f"lags are simulated with the step's own rollout durations, dealt in seeded order (seed {plan.seed})",
    ]
    if drafting.draft_tokens:
        stated.append(
            f"drafts are accepted independently with probability {drafting.acceptance_rate:g}, and cost nothing"
        )
    if plan.shape.moe_layers:
        stated.append(f"routing is uniform: a pass reads the experts, of {plan.shape.experts}, its tokens should touch")
    return tuple(stated)
