"""Fields of foreign JSON, taken as the type they must have."""

import math
from datetime import UTC, datetime
from typing import Any

import pytest

from checks.readers.fields import finish, flags, floats, later, mapping, objects, text, token_ids, when, whole


def test_numbers_are_taken_as_they_are_and_null_inside_a_list_is_not_a_number() -> None:
    found = floats([1, -0.5, None], "x")
    assert found is not None
    assert found[:2] == [1.0, -0.5]
    assert math.isnan(found[2])
    assert floats(None, "x") is None
    assert floats([], "x") == []


@pytest.mark.parametrize("value", [[-1], [2**31], [1.5], [True], ["1"], "12", {"a": 1}])
def test_what_is_no_token_id_is_refused_by_name(value: Any) -> None:
    with pytest.raises(ValueError, match=r"^prompt_ids: "):
        token_ids(value, "prompt_ids")


def test_masks_are_zero_and_one_whatever_they_are_written_as() -> None:
    assert flags([True, False, 1, 0, 1.0, 0.0], "m") == [1, 0, 1, 0, 1, 0]
    with pytest.raises(ValueError, match=r"^m: "):
        flags(["x"], "m")


def test_whole_numbers_fit_a_column() -> None:
    assert whole(2**63 - 1, "n") == 2**63 - 1
    with pytest.raises(ValueError, match="more than 64 bits"):
        whole(2**63, "n")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1_760_000_000.25, datetime(2025, 10, 9, 8, 53, 20, 250_000, UTC)),
        ("2026-01-01T00:00:02Z", datetime(2026, 1, 1, 0, 0, 2, tzinfo=UTC)),
        ("2026-01-01T02:00:02+02:00", datetime(2026, 1, 1, 0, 0, 2, tzinfo=UTC)),
        ("2026-01-01T00:00:02", datetime(2026, 1, 1, 0, 0, 2, tzinfo=UTC)),
        ("yesterday", None),
        (True, None),
        (1e300, None),
        (float("nan"), None),
        (0, None),
    ],
)
def test_times_are_seconds_or_iso_text(value: Any, expected: datetime | None) -> None:
    assert when(value) == expected


def test_a_sum_that_is_no_time_is_none() -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    assert later(start, 1.5) == datetime(2026, 1, 1, 0, 0, 1, 500_000, UTC)
    assert later(start, 1e300) is None
    assert later(start, float("nan")) is None
    assert later(None, 1.0) is None


def test_reasons_are_in_our_words_and_unknown_ones_are_none() -> None:
    words = ["stop", "TOOL_CALLS", "end_turn", "length", "max_output_tokens", "aborted", "failed", "maybe", None, 3]
    assert [finish(word) for word in words] == [
        "stop", "stop", "stop", "length", "length", "abort", "error", None, None, None,
    ]  # fmt: skip


def test_objects_and_names() -> None:
    assert mapping([1]) == {}
    assert objects(None, "x") == []
    with pytest.raises(ValueError, match=r"^x: "):
        objects([1], "x")
    assert [text(value) for value in ("a", 3, 1.5, True, None, [])] == ["a", "3", "1.5", None, None, None]
