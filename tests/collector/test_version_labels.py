"""A weight-version label is on record as the engine wrote it."""

import pytest

from collector.engine.wire import Span
from collector.turn_record import Sampled


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("0", 0),
        ("7", 7),
        ("9223372036854775807", 2**63 - 1),
        ("9223372036854775808", "9223372036854775808"),
        ("007", "007"),
        ("-7", -7),
        ("-0", "-0"),
        ("+7", "+7"),
        ("7\n", "7\n"),
        ("\u0661\u0662", "\u0661\u0662"),
        ("\u00b2", "\u00b2"),
        ("1_000", "1_000"),
        ("", ""),
        ("9" * 5000, "9" * 5000),
    ],
)
def test_only_a_number_written_as_one_is_a_number(label: str, expected: int | str) -> None:
    sampled = Sampled()
    sampled.spans = [Span(version=label, start=0, end=1)]
    assert [span.version for span in sampled.version_spans()] == [expected]
    assert str(sampled.version_spans()[0].version) == label
