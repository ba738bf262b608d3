"""Tests of console.plan_text: numbers read as an engineer writes them."""

import pytest

from console.plan_text import render_sheet, render_value
from trainer.plan.sheet import Column, Quantity, Section, Sheet, Table


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (131_072, "bytes", "131,072 bytes"),
        (4 * 2**30, "bytes", "4.295 GB (4.000 GiB)"),
        (2e12, "bytes", "2.000 TB (1.819 TiB)"),
        (16e6, "bytes", "16.00 MB (15.26 MiB)"),
        (-6.5e9, "bytes", "-6.500 GB (-6.054 GiB)"),
        (999_999_999.9, "bytes", "1,000 MB (953.7 MiB)"),
        (8_030_261_248, "count", "8.03 billion"),
        (64, "count", "64"),
        (57_255.4, "tokens", "57,255 tokens"),
        (1.247, "times", "1.25 x"),
        (61.0, "times", "61 x"),
        (0.5112, "share", "51.1 %"),
        (0.0131, "s", "13.1 ms"),
        (4.2e-5, "s", "42 us"),
        (120.0, "s", "120.0 s"),
        (0.0, "s", "0.000 s"),
        (1.61e14, "FLOPs", "1.61e14 FLOPs"),
        (295.2, "FLOPs/byte", "295 FLOPs/byte"),
        (1.349, "steps", "1.35 steps"),
        (None, "s", "n/a"),
        ("append", "", "append"),
    ],
)
def test_values_carry_their_units(value: float | str | None, unit: str, text: str) -> None:
    assert render_value(value, unit) == text


def test_a_sheet_is_aligned_and_wrapped() -> None:
    made = Sheet(
        title="m on 8 x d",
        verdict="take it",
        sections=(
            Section(
                "KV cache",
                (Quantity("a", "KV bytes a token", 131_072, "bytes", "keys and values, each of them in bf16"),),
                Table((Column("f", "form", ""), Column("s", "size", "count")), (("full", 10), ("delta", 200))),
            ),
        ),
        assumptions=("one",),
    )
    assert render_sheet(made, width=80).splitlines() == [
        "m on 8 x d",
        "Verdict: take it.",
        "",
        "KV cache",
        "  KV bytes a token                     131,072 bytes  keys and values, each of",
        "                                                      them in bf16",
        "  form    size",
        "  full      10",
        "  delta    200",
        "",
        "Assumptions",
        "  - one",
    ]
