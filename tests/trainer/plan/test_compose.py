"""Tests of trainer.plan.compose: the sections agree with the functions and with each other."""

import msgspec
import pytest

from trainer.plan.compose import make_sheet
from trainer.plan.devices import DEVICES
from trainer.plan.makespan import continuous_makespan_s
from trainer.plan.model_shape import ModelShape
from trainer.plan.rollout_time import Drafting, Efficiency
from trainer.plan.sheet import PlanInput, Sheet
from trainer.plan.split import price_splits
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
PLAN = PlanInput(
    model="Llama-3.1-8B",
    shape=LLAMA_8B,
    device=DEVICES["h100"],
    devices=8,
    workload=assumed_workload(tasks=8, group_size=8),
    appended=None,
    training=Training(lora_rank=32, microbatch_tokens=40_000, pipeline_stages=1),
    efficiency=Efficiency(mfu=0.4, bandwidth_share=0.6, memory_share=0.9),
    drafting=Drafting(),
    max_tokens=32_768,
    link_bytes_per_s=12.5e9,
    changed_share=0.01,
    learning_rate=3e-6,
    seed=0,
)


def values(sheet: Sheet) -> dict[str, float]:
    return {
        each.name: each.value
        for section in sheet.sections
        for each in section.quantities
        if isinstance(each.value, int | float)
    }


def rows(sheet: Sheet, title: str) -> list[dict[str, float | int | str]]:
    (table,) = [section.table for section in sheet.sections if section.title.startswith(title) and section.table]
    return [dict(zip([column.name for column in table.columns], row, strict=True)) for row in table.rows]


def test_the_synchronous_step_is_its_three_phases() -> None:
    found = values(make_sheet(PLAN))
    adapter_s = 2 * 83_886_080 / 12.5e9
    assert found["sync_step_s"] == pytest.approx(found["continuous_s"] + found["update_s"] + adapter_s)
    assert found["inference_share"] == pytest.approx(
        found["rollout_device_s"] / (found["rollout_device_s"] + found["update_device_s"])
    )


def test_makespan_is_that_of_the_durations_and_within_its_bounds() -> None:
    found = values(make_sheet(PLAN))
    assert found["lower_bound_s"] <= found["continuous_s"] <= found["upper_bound_s"]
    assert found["continuous_s"] <= found["static_s"]
    assert found["straggler_cost_s"] == pytest.approx(found["continuous_s"] * (1 - found["slot_utilisation"]))


def test_the_simulated_lag_is_near_the_closed_form() -> None:
    sheet = make_sheet(PLAN)
    last = rows(sheet, "Synchronous")[-1]
    assert last["mean_lag_steps"] == pytest.approx(values(sheet)["expected_lag_steps"], abs=0.05)
    chosen = [row for row in rows(sheet, "Split") if row["choice"]]
    assert last["step_s"] == pytest.approx(chosen[0]["step_s"], rel=0.01)


def test_two_devices_that_mostly_sample_are_better_in_phases() -> None:
    """Split in two, one device does all the sampling that two would do together."""
    long = assumed_workload(tasks=8, group_size=8, action=4_000, observation=10, length_spread=0, tool_wait_s=0.0)
    sheet = make_sheet(msgspec.structs.replace(PLAN, devices=2, workload=long))
    assert sheet.verdict.startswith("train synchronously, all devices in each phase")
    assert "the best split takes" in sheet.verdict


def test_drafts_and_experts_are_assumptions_only_where_they_are() -> None:
    plain = make_sheet(PLAN).assumptions
    assert not [line for line in plain if "drafts" in line or "routing" in line]
    moe = msgspec.structs.replace(
        LLAMA_8B, family="qwen3_moe", moe_layers=32, experts=16, experts_per_token=2, expert_width=1024, dense_width=0
    )
    sheet = make_sheet(msgspec.structs.replace(PLAN, shape=moe, drafting=Drafting(4, 0.8)))
    assert [line for line in sheet.assumptions if "routing is uniform" in line]
    assert [line for line in sheet.assumptions if "accepted independently with probability 0.8" in line]
    assert values(sheet)["tokens_per_pass"] == pytest.approx(3.36, abs=0.005)


def test_of_many_splits_nine_around_the_fastest_are_shown() -> None:
    plan = msgspec.structs.replace(PLAN, devices=32)
    shown = rows(make_sheet(plan), "Split")
    priced = price_splits(
        plan.shape,
        plan.device,
        plan.workload,
        plan.training,
        devices=32,
        efficiency=plan.efficiency,
        drafting=plan.drafting,
        sync_s=2 * 83_886_080 / 12.5e9,
    )
    assert len(priced) == 31
    assert len(shown) == 9
    assert min(row["step_s"] for row in shown) == min(split.step_s for split in priced)


def test_durations_follow_the_workload() -> None:
    """One rollout alone takes its own time, whatever the schedule."""
    one = msgspec.structs.replace(PLAN, workload=assumed_workload(tasks=1, group_size=1))
    found = values(make_sheet(one))
    assert found["static_s"] == found["continuous_s"] == found["rollout_max_s"]
    assert continuous_makespan_s([found["rollout_max_s"]], slots=8) == found["continuous_s"]
    assert found["slots"] == 8
