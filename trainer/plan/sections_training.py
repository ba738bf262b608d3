"""The sheet's sections on training: prefix sharing, compaction, the update, weight sync, the loop, the split."""

from trainer.plan.async_loop import expected_lag_steps, inference_share
from trainer.plan.bf16 import steps_until_copy_changes
from trainer.plan.compaction import rows_cost
from trainer.plan.flops import attention_overtakes_at_tokens, model_forward_flops
from trainer.plan.memory import BF16_BYTES, lora_parameters, weight_bytes
from trainer.plan.pipeline import bubble_of_busy, bubble_of_wall
from trainer.plan.rollout_time import RolloutTimes
from trainer.plan.sheet import Column, PlanInput, Quantity, Section, Table
from trainer.plan.simulation import LoopTimes, simulate_loop
from trainer.plan.split import Split
from trainer.plan.update_time import UpdateWork
from trainer.plan.weight_sync import copy_seconds, delta_bytes, entropy_bound_bytes

TYPICAL_WEIGHT = 0.0177
"""Median magnitude of Qwen2.5-1.5B's weights, measured by PULSE (lecture 12, section 4)."""
RUN_AHEAD_STEPS = (0, 1, 2, 4)
SIMULATED_ROLLOUTS = 20_000
_SIMULATED_STEPS = (20, 200)


def sharing_section(plan: PlanInput) -> Section:
    """What computing every shared prefix once saves the trainer."""
    sharing = plan.workload.sharing
    return Section(
        "Prefix sharing in training",
        (
            Quantity(
                "all_tokens", "tokens of all rows", sharing.all_tokens, "tokens", f"{len(plan.workload.rows)} rows"
            ),
            Quantity("tree_tokens", "as a prefix tree", sharing.tree_tokens, "tokens", "each shared prefix once"),
            Quantity("work_ratio", "ideal work ratio", sharing.work_ratio, "times", "fewer positions"),
            Quantity("duplicated_share", "duplicated share", sharing.duplicated_share, "share"),
        ),
    )


def compaction_section(plan: PlanInput) -> Section | None:
    """What compacting history does to the rows, against appending; nothing where nothing is compacted."""
    if plan.appended is None:
        return None
    costs = {
        name: rows_cost(
            tuple(workload.rows),
            matmul_parameters=plan.shape.matmul_parameters,
            layers=plan.shape.layers,
            attention_width=plan.shape.attention_width,
        )
        for name, workload in (("append", plan.appended), ("compact", plan.workload))
    }
    return Section(
        "Compaction against append, rows computed one by one",
        (),
        Table(
            (
                Column("harness", "harness", ""),
                Column("rows", "rows", "count"),
                Column("positions", "positions", "tokens"),
                Column("pairs", "pairs", "count"),
                Column("flops", "forward", "FLOPs"),
            ),
            tuple((name, len(cost.row_tokens), cost.positions, cost.pairs, cost.flops) for name, cost in costs.items()),
        ),
    )


def update_section(plan: PlanInput, work: UpdateWork, update_s: float | None) -> Section:
    """What one optimizer step computes."""
    shape, stages = plan.shape, plan.training.pipeline_stages
    linear = model_forward_flops(shape, tokens=work.computed_tokens, pairs=0)
    overtakes = attention_overtakes_at_tokens(
        matmul_parameters=shape.matmul_parameters, layers=shape.layers, attention_width=shape.attention_width
    )
    quantities = [
        Quantity("training_flops", "forward and backward", work.training_flops, "FLOPs", "shared prefixes once"),
        Quantity("attention_share", "attention in the forward", 1 - linear / work.scoring_flops, "share"),
        Quantity("attention_overtakes", "attention overtakes at", overtakes, "tokens", "row length"),
        Quantity("scoring_flops", "scoring pi_old", work.scoring_flops, "FLOPs", "one forward pass"),
        Quantity(
            "recompute_flops",
            "recomputation",
            work.recompute_flops,
            "FLOPs",
            f"{work.recompute_flops / work.training_flops:.0%} on top, checkpointing",
        ),
        Quantity(
            "microbatches",
            "microbatches",
            work.microbatches,
            "count",
            f"{plan.training.microbatch_tokens:,} tokens each",
        ),
    ]
    if stages > 1:
        pipelines = max(1, plan.devices // stages)
        each = -(-work.microbatches // pipelines)
        quantities += [
            Quantity(
                "bubble_busy", "pipeline bubble", bubble_of_busy(stages=stages, microbatches=each), "share", "of busy"
            ),
            Quantity(
                "bubble_wall", "", bubble_of_wall(stages=stages, microbatches=each), "share", "of wall-clock time"
            ),
        ]
    quantities.append(Quantity("update_s", "time on all devices", update_s, "s", f"at {plan.efficiency.mfu:.0%} MFU"))
    return Section("Update", tuple(quantities))


def sync_bytes(plan: PlanInput) -> float:
    """What is published after a step: the adapter, or every weight."""
    if plan.training.lora_rank is None:
        return weight_bytes(plan.shape.parameters)
    return BF16_BYTES * lora_parameters(plan.shape, rank=plan.training.lora_rank)


def weight_sync_section(plan: PlanInput) -> Section:
    """How long new weights take to reach an engine, in three forms."""
    share, parameters = plan.changed_share, plan.shape.parameters
    forms = [
        ("full", "every bf16 weight", float(weight_bytes(parameters))),
        ("delta", f"bf16 delta, {share:.2%} changed", delta_bytes(parameters=parameters, changed_share=share)),
        ("bound", "its entropy bound", entropy_bound_bytes(parameters=parameters, changed_share=share)),
    ]
    if plan.training.lora_rank is not None:
        forms.insert(1, ("lora", f"LoRA adapter, rank {plan.training.lora_rank}", sync_bytes(plan)))
    steps = steps_until_copy_changes(TYPICAL_WEIGHT, step=plan.learning_rate)
    return Section(
        "Weight sync",
        (
            Quantity(
                "steps_until_copy_changes",
                f"until {TYPICAL_WEIGHT:g} changes in bf16",
                steps,
                "steps",
                f"of {plan.learning_rate:g}, one sign",
            ),
        ),
        Table(
            (
                Column("form", "form", ""),
                Column("what", "what is sent", ""),
                Column("bytes", "size", "bytes"),
                Column("seconds", "one copy", "s"),
                Column("times", "against full", "times"),
            ),
            tuple(
                (
                    name,
                    what,
                    size,
                    copy_seconds(size_bytes=size, link_bytes_per_s=plan.link_bytes_per_s),
                    forms[0][2] / size,
                )
                for name, what, size in forms
            ),
        ),
    )


def loop_section(
    plan: PlanInput, together: RolloutTimes | None, sync_step: float | None, update_s: float | None, split: Split | None
) -> Section:
    """Synchronous against asynchronous, with the staleness each bound on running ahead gives."""
    quantities = [
        Quantity("sync_step_s", "synchronous step", sync_step, "s", "one phase after another"),
    ]
    if together is not None and update_s is not None:
        rollout_work, update_work = together.device_s, update_s * plan.devices
        share = inference_share(rollout_device_s=rollout_work, update_device_s=update_work)
        quantities += [
            Quantity("rollout_device_s", "rollout work", rollout_work, "device s", "W_r, perfectly packed"),
            Quantity("update_device_s", "update work", update_work, "device s", "W_u"),
            Quantity("inference_share", "inference share", share, "share", "W_r / (W_r + W_u)"),
        ]
    if split is None:
        return Section("Synchronous or asynchronous", tuple(quantities))
    durations = split.rollouts.durations_s
    if split.update_s <= split.supply_s:
        lag = expected_lag_steps(durations, supply_s=split.supply_s, update_s=split.update_s)
        quantities.append(Quantity("expected_lag_steps", "mean lag, closed form", lag, "steps", "without a bound"))
    return Section(
        f"Synchronous or asynchronous, {split.inference_devices} + {split.training_devices} devices",
        tuple(quantities),
        Table(
            (
                Column("run_ahead_steps", "run ahead", "count"),
                Column("step_s", "step", "s"),
                Column("trainer_stall_share", "trainer waits", "share"),
                Column("slot_busy_share", "slots busy", "share"),
                Column("mean_lag_steps", "mean lag", "steps"),
                Column("max_lag_steps", "stalest", "steps"),
            ),
            tuple((ahead, *_simulated(plan, split, ahead)) for ahead in RUN_AHEAD_STEPS),
        ),
    )


def split_section(splits: list[Split], chosen: Split | None) -> Section:
    """Every split that fits, around the recommended one."""
    shown = splits
    if chosen is not None and len(splits) > 9:
        at = splits.index(chosen)
        first = max(0, min(at - 4, len(splits) - 9))
        shown = splits[first : first + 9]
    return Section(
        "Split of the devices, overlapped",
        (),
        Table(
            (
                Column("inference_devices", "sample", "count"),
                Column("training_devices", "train", "count"),
                Column("step_s", "step", "s"),
                Column("supply_s", "a batch", "s"),
                Column("update_s", "an update", "s"),
                Column("trainer_stall_s", "trainer waits", "s"),
                Column("choice", "", ""),
            ),
            tuple(
                (
                    split.inference_devices,
                    split.training_devices,
                    split.step_s,
                    split.supply_s,
                    split.update_s,
                    split.trainer_stall_s,
                    "<- fastest" if split is chosen else "",
                )
                for split in shown
            ),
        ),
    )


def _simulated(plan: PlanInput, split: Split, run_ahead: int) -> LoopTimes:
    batch = len(plan.workload.rollouts)
    fewest, most = _SIMULATED_STEPS
    return simulate_loop(
        split.rollouts.durations_s,
        slots=split.rollouts.engine.slots,
        batch_rollouts=batch,
        update_s=split.update_s,
        sync_s=copy_seconds(size_bytes=sync_bytes(plan), link_bytes_per_s=plan.link_bytes_per_s),
        run_ahead_steps=run_ahead,
        steps=max(fewest, min(most, SIMULATED_ROLLOUTS // batch)),
        seed=plan.seed,
    )
