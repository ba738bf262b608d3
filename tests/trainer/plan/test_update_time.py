"""Tests of trainer.plan.update_time: the step's arithmetic worked by hand, its time, its memory."""

import pytest

from trainer.plan.devices import DEVICES
from trainer.plan.flops import causal_pairs
from trainer.plan.memory import lora_parameters
from trainer.plan.model_shape import ModelShape
from trainer.plan.update_time import (
    Training,
    training_bytes_per_device,
    training_state_bytes,
    update_seconds,
    update_work,
)
from trainer.plan.workload import assumed_workload

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
STEP = assumed_workload(tasks=1, group_size=4, prompt=10, turns=1, action=5, observation=0, length_spread=0)
FULL = Training(lora_rank=None, microbatch_tokens=30, pipeline_stages=1)
LORA = Training(lora_rank=2, microbatch_tokens=30, pipeline_stages=1)
PAIR_FLOPS = 4 * 8 * 2


def test_a_full_step_counts_every_shared_prefix_once() -> None:
    work = update_work(SHAPE, STEP, FULL)
    tokens = 10 + 4 * 5
    pairs = causal_pairs(10) + 4 * (causal_pairs(15) - causal_pairs(10))
    forward = 2 * SHAPE.matmul_parameters * tokens + PAIR_FLOPS * pairs
    assert work.computed_tokens == tokens
    assert work.scoring_flops == work.recompute_flops == forward
    assert work.training_flops == 3 * forward
    assert work.total_flops == 5 * forward
    assert work.microbatches == 2


def test_a_lora_step_has_no_gradient_of_the_base() -> None:
    work = update_work(SHAPE, STEP, LORA)
    pairs = causal_pairs(10) + 4 * (causal_pairs(15) - causal_pairs(10))
    adapter = lora_parameters(SHAPE, rank=2)
    assert work.training_flops == 30 * (4 * SHAPE.matmul_parameters + 6 * adapter) + 3 * PAIR_FLOPS * pairs


def test_time_falls_with_devices_and_grows_with_the_bubble() -> None:
    work = update_work(SHAPE, STEP, FULL)._replace(microbatches=16)
    device = DEVICES["h100"]
    one = update_seconds(work, device, FULL, devices=1, mfu=0.5)
    assert one == pytest.approx(work.total_flops / (989e12 * 0.5))
    assert update_seconds(work, device, FULL, devices=4, mfu=0.5) == pytest.approx(one / 4)
    piped = update_seconds(work, device, FULL._replace(pipeline_stages=4), devices=4, mfu=0.5)
    assert piped == pytest.approx(one / 4 / (1 - 3 / 19))
    with pytest.raises(ValueError, match="2 devices cannot hold a pipeline of 4 stages"):
        update_seconds(work, device, FULL._replace(pipeline_stages=4), devices=2, mfu=0.5)


def test_devices_that_fill_no_pipeline_stand_idle() -> None:
    work = update_work(SHAPE, STEP, FULL)._replace(microbatches=16)
    piped = FULL._replace(pipeline_stages=2)
    five, four = (update_seconds(work, DEVICES["h100"], piped, devices=n, mfu=0.5) for n in (5, 4))
    assert five == four


def test_state_is_sharded_and_a_microbatch_s_inputs_are_not() -> None:
    assert training_state_bytes(SHAPE, FULL) == 16 * SHAPE.parameters
    assert training_state_bytes(SHAPE, LORA) == 2 * SHAPE.parameters + 16 * lora_parameters(SHAPE, rank=2)
    inputs = 2 * 30 * 2 * 8
    assert training_bytes_per_device(SHAPE, FULL, devices=4) == 16 * SHAPE.parameters / 4 + inputs
