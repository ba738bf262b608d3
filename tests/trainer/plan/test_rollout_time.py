"""Tests of trainer.plan.rollout_time on a device with round numbers."""

import pytest

from trainer.plan.devices import Device
from trainer.plan.model_shape import ModelShape
from trainer.plan.rollout_time import (
    Drafting,
    Efficiency,
    fit_engine,
    rollout_times,
    shape_kv_bytes_per_token,
)
from trainer.plan.workload import Workload, assumed_workload

SHAPE = ModelShape(
    family="llama",
    layers=2,
    hidden=8,
    heads=2,
    kv_heads=1,
    head_width=4,
    vocabulary=32,
    tied_embeddings=False,
    dense_width=16,
)
WEIGHTS = 2 * SHAPE.parameters
FULL = Efficiency(mfu=1.0, bandwidth_share=1.0, memory_share=1.0)


def device(memory_bytes: float, *, peak: float = 1e30, bandwidth: float = 1e30) -> Device:
    return Device(
        name="toy",
        title="toy",
        peak_flops_per_s=peak,
        memory_bytes=memory_bytes,
        bandwidth_bytes_per_s=bandwidth,
        source="invented",
        as_of="2026-01",
    )


def workload(tool_wait_s: float = 0.0) -> Workload:
    return assumed_workload(
        tasks=2, group_size=4, prompt=10, turns=2, action=5, observation=3, length_spread=0, tool_wait_s=tool_wait_s
    )


def test_a_replica_spans_devices_until_weights_half_fill_them() -> None:
    step = workload()
    assert step.mean_peak_tokens == 10 + 8 + 5
    one = fit_engine(SHAPE, device(2 * WEIGHTS), step, devices=8, memory_share=1.0)
    two = fit_engine(SHAPE, device(1.5 * WEIGHTS), step, devices=8, memory_share=1.0)
    assert one is not None
    assert two is not None
    assert (one.devices_per_replica, one.replicas) == (1, 8)
    assert (two.devices_per_replica, two.replicas) == (2, 4)
    assert two.kv_bytes_per_replica == 2 * WEIGHTS
    rollout = 23 * shape_kv_bytes_per_token(SHAPE)
    assert two.rollouts_that_fit == 4 * int(2 * WEIGHTS // rollout)
    assert fit_engine(SHAPE, device(0.1 * WEIGHTS), step, devices=8, memory_share=1.0) is None


def test_the_trainer_s_share_of_memory_is_not_the_engine_s() -> None:
    beside = fit_engine(
        SHAPE, device(3 * WEIGHTS), workload(), devices=2, memory_share=1.0, reserved_bytes_per_device=WEIGHTS
    )
    assert beside is not None
    assert beside.kv_bytes_per_replica == WEIGHTS
    full = fit_engine(
        SHAPE, device(3 * WEIGHTS), workload(), devices=2, memory_share=1.0, reserved_bytes_per_device=3 * WEIGHTS
    )
    assert full is None


def test_with_endless_arithmetic_a_rollout_takes_its_passes_and_its_waits() -> None:
    step, slow = workload(tool_wait_s=7.0), device(100 * WEIGHTS, bandwidth=1000.0)
    engine = fit_engine(SHAPE, slow, step, devices=4, memory_share=1.0)
    assert engine is not None
    assert (engine.slots_per_replica, engine.slots) == (2, 8)
    times = rollout_times(SHAPE, slow, step, engine, efficiency=FULL, drafting=Drafting())
    read = 2 * SHAPE.matmul_parameters + 2 * step.mean_decode_context * shape_kv_bytes_per_token(SHAPE)
    assert times.pass_s == pytest.approx(read / 1000)
    assert times.durations_s == pytest.approx([10 * times.pass_s + 7.0] * 8)
    assert times.wait_share == pytest.approx(7.0 / times.durations_s[0])
    assert times.device_s == pytest.approx(4 * times.durations_s[0])


def test_drafts_divide_the_passes() -> None:
    step, slow = workload(tool_wait_s=0.0), device(100 * WEIGHTS, bandwidth=1000.0)
    engine = fit_engine(SHAPE, slow, step, devices=4, memory_share=1.0)
    assert engine is not None
    plain = rollout_times(SHAPE, slow, step, engine, efficiency=FULL, drafting=Drafting())
    drafted = rollout_times(SHAPE, slow, step, engine, efficiency=FULL, drafting=Drafting(4, 1.0))
    assert drafted.tokens_per_pass == 5
    assert drafted.durations_s[0] == pytest.approx(plain.durations_s[0] / 5)


def test_prefill_of_every_slot_holds_up_each() -> None:
    """Endless bandwidth, no attention to speak of: fresh tokens of a group share one prompt, 2 slots a replica."""
    step, slow = workload(tool_wait_s=0.0), device(100 * WEIGHTS, peak=1e6)
    engine = fit_engine(SHAPE, slow, step, devices=4, memory_share=1.0)
    assert engine is not None
    times = rollout_times(SHAPE, slow, step, engine, efficiency=FULL, drafting=Drafting())
    fresh, pairs = 13, 10 * 11 / 2 + 3 * (18 - 1)
    flops = 2 * SHAPE.matmul_parameters * fresh + 4 * 8 * 2 * pairs
    shared = (2 * 10 + 8 * 3) / (8 * 13)
    decode = 10 * times.work.flops / 1e6
    assert step.computed_prefill_tokens == 44
    assert times.durations_s[0] == pytest.approx(decode + 2 * shared * flops / 1e6)
