"""The sheet's sections on sampling: workload, memory, cache, prefill, decode, makespan."""

import statistics

from trainer.plan.flops import model_forward_flops
from trainer.plan.makespan import compare_makespans
from trainer.plan.memory import (
    checkpointed_input_bytes,
    full_training_bytes,
    left_bytes,
    lora_parameters,
    lora_training_bytes,
    rollouts_that_fit,
    weight_bytes,
)
from trainer.plan.rollout_time import Engine, RolloutTimes, shape_kv_bytes_per_token
from trainer.plan.roofline import ridge_flops_per_byte, weights_only_intensity
from trainer.plan.sheet import PlanInput, Quantity, Section
from trainer.plan.speculative import drifted_acceptance_floor, tokens_per_pass
from trainer.plan.update_time import training_state_bytes

DRIFT_TV = 0.1
"""Total variation by which the sheet lets a policy move away from its drafter."""


def workload_section(plan: PlanInput) -> Section:
    """What one optimizer step is made of."""
    rollouts = plan.workload.rollouts
    lengths = sorted(sum(rollout.row_tokens) for rollout in rollouts)
    return Section(
        "Workload of one step",
        (
            Quantity("rollouts", "rollouts", len(rollouts), "count"),
            Quantity(
                "turns_mean", "turns a rollout", statistics.fmean(len(r.turns) for r in rollouts), "count", "mean"
            ),
            Quantity("rollout_tokens_mean", "tokens a rollout", statistics.fmean(lengths), "tokens", "mean"),
            Quantity("rollout_tokens_p95", "", lengths[round(0.95 * (len(lengths) - 1))], "tokens", "95 % are shorter"),
            Quantity("rollout_tokens_max", "", lengths[-1], "tokens", "longest"),
            Quantity("sampled_tokens", "tokens sampled", plan.workload.sampled_tokens, "tokens"),
            Quantity("tool_wait_s", "wait between calls", plan.workload.tool_wait_s, "s"),
        ),
    )


def memory_section(plan: PlanInput, engine: Engine | None) -> Section:
    """What stands in memory when every device samples and trains in turn."""
    shape, rank = plan.shape, plan.training.lora_rank
    state = training_state_bytes(shape, plan.training)
    inputs = checkpointed_input_bytes(tokens=plan.training.microbatch_tokens, layers=shape.layers, hidden=shape.hidden)
    usable = plan.device.memory_bytes * plan.efficiency.memory_share * plan.devices
    copies = engine.replicas if engine else 1
    used = {
        "state": state,
        "engine_weights": copies * weight_bytes(shape.parameters),
        "cache": len(plan.workload.rollouts) * plan.workload.mean_peak_tokens * shape_kv_bytes_per_token(shape),
    }
    left = left_bytes(usable, **used)
    quantities = [
        Quantity("parameters", "parameters", shape.parameters, "count"),
        Quantity("matmul_parameters", "used by one token", shape.matmul_parameters, "count", "no input embedding"),
        Quantity("weight_bytes", "bf16 weights", weight_bytes(shape.parameters), "bytes", "2 bytes a parameter"),
        Quantity(
            "full_training_bytes",
            "state to train all of it",
            full_training_bytes(shape.parameters),
            "bytes",
            "16 bytes a parameter",
        ),
    ]
    if rank is not None:
        adapter = lora_parameters(shape, rank=rank)
        quantities += [
            Quantity("adapter_parameters", f"LoRA parameters, rank {rank}", adapter, "count", "no experts, no head"),
            Quantity(
                "lora_training_bytes",
                "state to train LoRA",
                lora_training_bytes(shape.parameters, adapter_parameters=adapter),
                "bytes",
                "frozen base 2, adapter 16",
            ),
        ]
    quantities += [
        Quantity("checkpointed_input_bytes", "kept layer inputs", inputs, "bytes", "of one microbatch"),
        Quantity("device_bytes", "memory of all devices", plan.device.memory_bytes * plan.devices, "bytes"),
        Quantity("usable_bytes", "of it usable", usable, "bytes", f"{plan.efficiency.memory_share:.0%}"),
        Quantity(
            "left_bytes",
            "left for activations",
            left,
            "bytes",
            f"less state, {copies} x weights, cache" if left >= 0 else "below zero: does not fit",
        ),
    ]
    return Section("Memory, trainer and engine on the same devices", tuple(quantities))


def cache_section(plan: PlanInput, engine: Engine | None) -> Section:
    """How big the KV cache is and how many rollouts fit in it."""
    per_token = shape_kv_bytes_per_token(plan.shape)
    mean, count = plan.workload.mean_peak_tokens, len(plan.workload.rollouts)
    quantities = [
        Quantity("kv_bytes_per_token", "KV bytes a token", per_token, "bytes", "keys and values, bf16"),
        Quantity("kv_bytes_rollout", "a rollout at its longest", mean * per_token, "bytes", f"mean {mean:,.0f} tokens"),
        Quantity(
            "kv_bytes_cap", "a rollout at the limit", plan.max_tokens * per_token, "bytes", f"{plan.max_tokens:,}"
        ),
        Quantity("kv_bytes_step", "all rollouts", count * mean * per_token, "bytes", f"{count} at once"),
        Quantity("kv_bytes_step_cap", "all at the limit", count * plan.max_tokens * per_token, "bytes"),
    ]
    if engine is None:
        quantities.append(Quantity("rollouts_that_fit", "rollouts that fit", 0, "count", "no room beside the trainer"))
    else:
        cache = engine.kv_bytes_per_replica
        at_limit = rollouts_that_fit(cache_bytes=cache, rollout_bytes=plan.max_tokens * per_token)
        quantities += [
            Quantity(
                "replicas",
                "engine replicas",
                engine.replicas,
                "count",
                f"{engine.devices_per_replica} device{'s' * (engine.devices_per_replica > 1)} each",
            ),
            Quantity("cache_bytes", "cache of all replicas", cache * engine.replicas, "bytes", "beside the trainer"),
            Quantity("rollouts_that_fit", "rollouts that fit", engine.rollouts_that_fit, "count", "at the mean length"),
            Quantity("rollouts_that_fit_cap", "", at_limit * engine.replicas, "count", "at the limit"),
        ]
    return Section("KV cache", tuple(quantities))


def prefill_section(plan: PlanInput) -> Section:
    """What the prefix cache saves, and what an edit of history costs."""
    workload = plan.workload
    fresh = sum(rollout.fresh for rollout in workload.rollouts)
    computed = workload.computed_prefill_tokens
    edit = sum(
        rollout.turns[-1].prompt - rollout.turns[-1].fresh - rollout.turns[0].prompt
        for rollout in workload.rollouts
        if rollout.turns[-1].prompt - rollout.turns[-1].fresh > rollout.turns[0].prompt
    )
    pairs = sum(rollout.fresh_pairs for rollout in workload.rollouts) * computed / fresh
    flops = model_forward_flops(plan.shape, tokens=computed, pairs=pairs)
    rate = plan.devices * plan.device.peak_flops_per_s * plan.efficiency.mfu
    calls = sum(len(rollout.turns) for rollout in workload.rollouts)
    return Section(
        "Prefill",
        (
            Quantity(
                "prefill_uncached_tokens", "without a cache", workload.submitted_tokens, "tokens", "every turn resends"
            ),
            Quantity("prefill_cached_tokens", "every prefix cached", computed, "tokens", "each new token once"),
            Quantity(
                "prefill_saving", "saved by the cache", workload.submitted_tokens / computed, "times", "fewer tokens"
            ),
            Quantity("prefill_edit_tokens", "an edit after the prompt", edit, "tokens", "extra, before the last turn"),
            Quantity("prefill_s", "time on all devices", flops / rate, "s", "with the cache"),
            Quantity(
                "prefill_intensity", "intensity of a call", weights_only_intensity(computed / calls), "FLOPs/byte"
            ),
        ),
    )


def decode_section(plan: PlanInput, times: RolloutTimes) -> Section:
    """Whether decoding waits for memory or for arithmetic, and how fast it is."""
    ridge, work = ridge_flops_per_byte(plan.device), times.work
    running = times.engine.slots_per_replica
    bound = (
        "arithmetic"
        if work.flops_per_byte > ridge * plan.efficiency.mfu / plan.efficiency.bandwidth_share
        else "memory"
    )
    quantities = [
        Quantity("ridge", "ridge point", ridge, "FLOPs/byte", "peak rate over bandwidth"),
        Quantity("decode_sequences", "sequences a replica decodes", running, "count"),
        Quantity(
            "decode_intensity_weights",
            "intensity, weights only",
            weights_only_intensity(running * (1 + plan.drafting.draft_tokens)),
            "FLOPs/byte",
            "tokens in the pass",
        ),
        Quantity(
            "decode_intensity", "intensity with the cache", work.flops_per_byte, "FLOPs/byte", f"waits for {bound}"
        ),
        Quantity("decode_pass_s", "one pass", times.pass_s, "s"),
        Quantity("decode_rollout_tokens_s", "a rollout's speed", times.tokens_per_pass / times.pass_s, "tokens/s"),
        Quantity(
            "decode_tokens_s",
            "all replicas",
            times.tokens_per_pass / times.pass_s * times.engine.slots,
            "tokens/s",
            "every slot busy",
        ),
    ]
    if plan.drafting.draft_tokens:
        accepted, drafts = plan.drafting.acceptance_rate, plan.drafting.draft_tokens
        floor = drifted_acceptance_floor(acceptance_rate=accepted, policy_drift_tv=DRIFT_TV)
        later = tokens_per_pass(acceptance_rate=floor, draft_tokens=drafts)
        quantities += [
            Quantity(
                "tokens_per_pass", "tokens a pass, speculative", times.tokens_per_pass, "tokens", f"{drafts} drafts"
            ),
            Quantity(
                "tokens_per_pass_drifted", "after the policy drifts", later, "tokens", f"worst at TV {DRIFT_TV:g}"
            ),
        ]
    return Section("Decode", tuple(quantities))


def makespan_section(times: RolloutTimes) -> Section:
    """How long the step's rollouts take together, and what stragglers cost."""
    slots = times.engine.slots
    spans = compare_makespans(times.durations_s, slots=slots)
    return Section(
        f"Makespan of the rollouts, {times.engine.devices} devices sampling",
        (
            Quantity("slots", "slots", slots, "count", f"{times.engine.slots_per_replica} a replica"),
            Quantity("rollout_mean_s", "a rollout", statistics.fmean(times.durations_s), "s", "mean"),
            Quantity("rollout_max_s", "", max(times.durations_s), "s", "longest"),
            Quantity("wait_share", "of it waiting for tools", times.wait_share, "share"),
            Quantity("static_s", "static batching", spans.static_s, "s"),
            Quantity("continuous_s", "continuous batching", spans.continuous_s, "s"),
            Quantity("lower_bound_s", "no schedule beats", spans.lower_bound_s, "s"),
            Quantity("upper_bound_s", "no order takes longer than", spans.upper_bound_s, "s"),
            Quantity("slot_utilisation", "slots busy", spans.slot_utilisation, "share", "continuous"),
            Quantity("straggler_cost_s", "cost of stragglers", spans.straggler_cost_s, "s", "over a perfect packing"),
        ),
    )
