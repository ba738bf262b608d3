"""Numbers as text."""

import math

import pytest

from console.format import number_text


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (None, "turns", "n/a"),
        (0, "turns", "0 turns"),
        (1, "turns", "1 turn"),
        (1.0, "s", "1 s"),
        (1, "nats per token", "1 nats per token"),
        (1234567, "tokens", "1,234,567 tokens"),
        (0.25, "share of turns", "25 % of turns"),
        (1 / 3, "share", "33.33 %"),
        (1 / 3, "nats", "0.3333 nats"),
        (12345.678, "", "12,346"),
        (2e-6, "", "2e-06"),
        (-5.25, "", "-5.25"),
        (1e300, "", "1e+300"),
        (math.nan, "share of turns", "not a number"),
        (-math.inf, "", "-infinite"),
    ],
)
def test_a_number_has_four_digits_and_its_unit(value: float | None, unit: str, text: str) -> None:
    assert number_text(value, unit) == text
