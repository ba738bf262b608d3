"""The adapters that meet a filter, in an order; what was not observed is last and meets no comparison."""

from datetime import UTC, datetime
from typing import Any

import pytest

from console.watch.frame.filter import FilterError
from console.watch.views.adapter_list import SORTS, listed
from console.watch.views.adapter_versions import Gate
from console.watch.views.adapters import AdapterLine
from trainer.gate.report import Criterion


def line(name: str, **more: Any) -> AdapterLine:
    row: dict[str, Any] = {"tenant": "acme", "base_model": "qwen", "state": "live", "live": 1}
    return AdapterLine(adapter=name, **(row | more))


def gate(change: float | None) -> Gate:
    criterion = Criterion(name="score", against=0, status="pass", text="", difference=change)
    return Gate(version=2, verdict="pass", reasons=(), criteria=(criterion,))


LINES = (
    line("refund", traffic=0.124, live_since=datetime(2026, 11, 29, 9, tzinfo=UTC), gate=gate(-0.2)),
    line("kyc", traffic=0.0, state="parked", live_since=datetime(2026, 11, 28, tzinfo=UTC)),
    line("tone", tenant="zeta", state="held", reason="max_w alert", gate=gate(0.1)),
)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", ["refund", "kyc", "tone"]),
        ("state:held", ["tone"]),
        ("!tenant:zeta", ["refund", "kyc"]),
        ("traffic>12", ["refund"]),
        ("traffic:n/d", ["tone"]),
        ("gate:pass traffic<100", ["refund"]),
        ("alert", ["tone"]),
    ],
)
def test_a_filter_keeps_what_meets_it(text: str, names: list[str]) -> None:
    assert [each.adapter for each in listed(LINES, filter=text)] == names


@pytest.mark.parametrize(
    ("sort", "descending", "names"),
    [
        ("", False, ["refund", "kyc", "tone"]),
        ("", True, ["tone", "kyc", "refund"]),
        ("traffic", True, ["refund", "kyc", "tone"]),
        ("traffic", False, ["kyc", "refund", "tone"]),
        ("age", True, ["kyc", "refund", "tone"]),
        ("score", True, ["tone", "refund", "kyc"]),
    ],
)
def test_it_is_sorted_and_turned_round(sort: str, descending: bool, names: list[str]) -> None:
    assert sort in SORTS
    assert [each.adapter for each in listed(LINES, sort=sort, descending=descending)] == names


def test_a_field_that_there_is_not_is_refused_at_its_column() -> None:
    with pytest.raises(FilterError, match="no field 'turns', expected one of adapter, base, cand, gate") as caught:
        listed(LINES, filter="state:held turns>3")
    assert caught.value.column == 11
