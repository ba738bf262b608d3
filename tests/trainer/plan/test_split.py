"""Tests of trainer.plan.split: every split that fits is priced, and the fastest is chosen."""

import pytest

from trainer.plan.async_loop import inference_share
from trainer.plan.devices import DEVICES
from trainer.plan.model_shape import ModelShape
from trainer.plan.rollout_time import Drafting, Efficiency
from trainer.plan.split import Split, fastest, fewest_devices, price_splits
from trainer.plan.update_time import Training
from trainer.plan.workload import assumed_workload

LLAMA_8B = ModelShape(
    family="llama",
    layers=32,
    hidden=4096,
    heads=32,
    kv_heads=8,
    head_width=128,
    vocabulary=128_256,
    tied_embeddings=False,
    dense_width=14_336,
)
STEP = assumed_workload(tasks=8, group_size=8, tool_wait_s=0.0)
REACHED = Efficiency(mfu=0.4, bandwidth_share=0.6, memory_share=0.9)


def splits(devices: int, *, rank: int | None = 32, stages: int = 1, sync_s: float = 1.0) -> list[Split]:
    training = Training(lora_rank=rank, microbatch_tokens=40_000, pipeline_stages=stages)
    return price_splits(
        LLAMA_8B,
        DEVICES["h100"],
        STEP,
        training,
        devices=devices,
        efficiency=REACHED,
        drafting=Drafting(),
        sync_s=sync_s,
    )


def test_a_lora_trainer_fits_beside_any_number_of_samplers() -> None:
    assert [(s.inference_devices, s.training_devices) for s in splits(8)] == [(n, 8 - n) for n in range(1, 8)]


def test_a_full_trainer_needs_enough_devices_for_its_state() -> None:
    """128.5 GB of state and 10.5 GB of inputs a device: three with 72 GB usable hold them, two do not."""
    assert [split.training_devices for split in splits(8, rank=None)] == [7, 6, 5, 4, 3]


def test_the_fastest_step_is_the_slower_side_and_the_pause() -> None:
    priced = splits(8)
    for split in priced:
        assert split.step_s == max(split.supply_s, split.update_s) + 1.0
        assert split.trainer_stall_s == max(0.0, split.supply_s - split.update_s)
    best = fastest(priced)
    assert best is not None
    assert best.step_s == min(split.step_s for split in priced)


def test_with_many_devices_the_choice_is_near_the_closed_form() -> None:
    best = fastest(splits(16))
    assert best is not None
    share = inference_share(
        rollout_device_s=best.rollouts.device_s, update_device_s=best.update_s * best.training_devices
    )
    assert best.inference_devices / 16 == pytest.approx(share, abs=1.5 / 16)


def test_a_pipeline_keeps_its_stages() -> None:
    assert [split.training_devices for split in splits(8, stages=4)] == [7, 6, 5, 4]


def test_one_device_cannot_be_split() -> None:
    assert splits(1) == []
    assert fastest([]) is None


def test_fewest_devices_is_where_the_first_step_fits() -> None:
    """Full training of an 8B model on 72 usable GB: 128.5 / n + 10.5 GB must leave what the weights half fill."""
    training = Training(lora_rank=None, microbatch_tokens=40_000, pipeline_stages=1)
    needed = fewest_devices(LLAMA_8B, DEVICES["h100"], STEP, training, memory_share=0.9)
    assert needed == 3
    assert fewest_devices(LLAMA_8B, DEVICES["h100"], STEP, training, memory_share=0.05) is None
    assert splits(needed + 1, rank=None)
    assert not splits(needed, rank=None)
