"""Tests of trainer.plan.devices: every row is complete and dated."""

import re

import pytest

from trainer.plan.devices import CHECKED, DEVICES, Device


def test_the_table_holds_the_devices_a_plan_is_asked_for() -> None:
    assert {"a100", "h100", "h200", "b200", "mi300x", "l40s"} <= set(DEVICES)


@pytest.mark.parametrize("device", DEVICES.values(), ids=DEVICES)
def test_a_row_has_plausible_figures_and_a_dated_source(device: Device) -> None:
    assert 1e14 < device.peak_flops_per_s < 1e16
    assert 1e10 < device.memory_bytes < 1e12
    assert 5e11 < device.bandwidth_bytes_per_s < 2e13
    assert len(device.source) > 20
    assert re.fullmatch(r"20\d\d-\d\d", device.as_of)
    assert device.as_of < CHECKED


def test_sparse_rates_are_halved() -> None:
    assert DEVICES["h100"].peak_flops_per_s == pytest.approx(1979e12 / 2, rel=1e-3)
    assert DEVICES["b200"].peak_flops_per_s == 4.5e15 / 2
