"""A row that does not fit says so; what stands at its right end stays."""

import pytest
from rich.style import Style

from console.watch.frame.row import Part, row_strip, shortened

DIM = Style(dim=True)


@pytest.mark.parametrize(
    ("text", "width", "said"),
    [
        ("four", 4, "four"),
        ("four", 3, "fo…"),
        ("four", 1, "…"),
        ("four", 0, ""),
        ("four    ", 5, "four "),
        ("─ alerts ────", 9, "─ alerts "),
        ("─ alerts ─ untrainable ──", 12, "─ alerts ─ …"),
        ("退款単", 6, "退款単"),
        ("退款単", 5, "退款…"),
        ("退款単", 4, "退 …"),
    ],
)
def test_a_text_that_goes_on_ends_in_dots_and_blanks_and_rules_do_not_count(text: str, width: int, said: str) -> None:
    assert shortened(text, width) == said


def test_the_dots_stand_where_the_left_parts_end_before_the_right_end() -> None:
    parts = [Part("staleness ", DIM), Part("max_w entropy"), Part(" RO", right=True)]
    assert row_strip(parts, 20).text == "staleness max_w … RO"
    assert row_strip(parts, 14).text == "staleness … RO"
    assert row_strip(parts, 10).text == "stalen… RO"
    assert row_strip(parts, 30).text == "staleness max_w entropy     RO"
    assert [segment.style for segment in row_strip(parts, 10)][:1] == [DIM]
