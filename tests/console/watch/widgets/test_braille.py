"""Rasters: small ones worked by hand, and what holds for every input."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.watch.widgets.braille import Columns, Scale, columns_of, raster, scale_of

NAN = math.nan
values = st.lists(st.one_of(st.floats(-1e6, 1e6), st.just(NAN), st.none()), min_size=1, max_size=60)


def columns(low: list[float], high: list[float] | None = None) -> Columns:
    """Columns with these least and greatest values."""
    return Columns(np.array(low), np.array(low if high is None else high))


def test_four_levels_of_a_row_are_its_four_dots_from_the_bottom() -> None:
    # Two columns a cell: dots 7 and 8 are the lowest left and right, 1 and 4 the highest.
    assert raster(columns([0, 1, 2, 3]), Scale(0, 3), 1) == ["⡠⠊"]


def test_a_column_is_drawn_from_its_least_to_its_greatest_value() -> None:
    # Left: all four dots (1, 2, 3, 7). Right: the two in the middle (5, 6).
    assert raster(columns([0, 1], [3, 2]), Scale(0, 3), 1) == [chr(0x2800 + 0x47 + 0x30)]


def test_two_rows_have_eight_levels() -> None:
    # Level 7 is the top dot of the upper row, level 0 the bottom dot of the lower one.
    assert raster(columns([7, 0]), Scale(0, 7), 2) == ["⠁", "⢀"]


def test_a_gap_is_blank_and_never_zero() -> None:
    assert raster(columns([NAN, NAN, 0, 0]), Scale(0, 3), 1) == [" ⣀"]


def test_blocks_reach_from_the_bottom_to_the_greatest_value() -> None:
    assert raster(columns([0, 7, NAN]), Scale(0, 7), 1, "blocks") == ["▁█ "]
    assert raster(columns([0, 15]), Scale(0, 15), 2, "blocks") == [" █", "▁█"]


def test_ascii_shows_thirds_of_a_cell_and_only_the_range() -> None:
    assert raster(columns([0, 1, 2, NAN]), Scale(0, 2), 1, "ascii") == [".:| "]
    # Six levels in two rows: 5 is the top third above; what is below its least value stays blank.
    assert raster(columns([5, 0], [5, 5]), Scale(0, 5), 2, "ascii") == ["||", " |"]


def test_infinite_values_stand_at_the_edges() -> None:
    assert raster(columns([math.inf, -math.inf]), Scale(0, 3), 1) == ["⢁"]


def test_a_spike_between_many_quiet_samples_is_kept() -> None:
    quiet = np.zeros(10_000)
    quiet[5_432] = 9.0
    found = columns_of(np.arange(10_000), quiet, Scale(0, 9_999), 100)
    assert found.high[54] == 9.0
    assert (np.delete(found.high, 54) == 0).all()


def test_a_sample_is_held_until_the_next_but_not_over_missing_ones() -> None:
    # Every second step, ten columns for ten steps: 0, 2, 4 are neighbours; 4 to 8 is twice the usual distance, 12 more.
    found = columns_of([0, 2, 4, 9], [1.0, 2.0, 3.0, 4.0], Scale(0, 10), 10)
    assert found.high[:5].tolist() == [1, 1, 2, 2, 3]
    assert np.isnan(found.high[5:9]).all()
    assert found.high[9] == 4


def test_nothing_is_held_from_or_to_a_sample_that_is_not_a_number() -> None:
    found = columns_of([0, 2, 4], [1.0, NAN, 3.0], Scale(0, 5), 6)
    assert np.isnan(found.high[1:4]).all()


def test_one_step_alone_stands_at_the_end_of_its_axis() -> None:
    assert columns_of([7], [2.0], Scale(7, 7), 3).high[2] == 2


@given(values)
def test_every_value_is_within_the_drawn_range_of_its_column(given_values: list[float | None]) -> None:
    steps = list(range(len(given_values)))
    axis, count = Scale(0, max(1, len(steps) - 1)), 16
    found = columns_of(steps, given_values, axis, count)
    for step, value in zip(steps, given_values, strict=True):
        if value is None or math.isnan(value):
            continue
        at = min(count - 1, int((step - axis.low) / (axis.high - axis.low) * count))
        assert found.low[at] <= value <= found.high[at]


@given(values)
def test_columns_without_a_sample_or_a_held_one_are_blank(given_values: list[float | None]) -> None:
    known = [value for value in given_values if value is not None and not math.isnan(value)]
    found = columns_of(range(len(given_values)), given_values, Scale(0, len(given_values)), 2 * len(given_values))
    drawn = raster(found, scale_of(given_values), 3)
    blank = [at for at in range(len(given_values)) if all(row[at] == " " for row in drawn)]
    assert (len(blank) == len(given_values)) == (not known)
    for at in blank:
        assert np.isnan(found.low[2 * at : 2 * at + 2]).all()


@given(values, st.integers(1, 5), st.sampled_from(["braille", "blocks", "ascii"]))
def test_a_raster_has_its_size_whatever_is_in_it(given_values: list[float | None], rows: int, form: str) -> None:
    found = columns_of(range(len(given_values)), given_values, Scale(0, 9), 20)
    drawn = raster(found, scale_of(given_values), rows, form)  # type: ignore[arg-type]
    assert [len(row) for row in drawn] == [10 if form == "braille" else 20] * rows


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30))
def test_each_value_is_drawn_at_the_height_that_is_its_share_of_the_scale(given_values: list[float]) -> None:
    scale = scale_of(given_values)
    drawn = raster(columns(given_values), scale, 2)
    for index, value in enumerate(given_values):
        level = round((value - scale.low) / (scale.high - scale.low) * 7)
        row, dot = divmod(7 - level, 4)
        bit = ((1, 8), (2, 16), (4, 32), (64, 128))[dot][index % 2]
        assert (ord(drawn[row][index // 2]) - 0x2800) & bit


def test_a_scale_joins_the_data_with_the_band_and_is_never_flat() -> None:
    assert scale_of([1.0, 2.0], Scale(0.0, 1.5)) == Scale(0.0, 2.0)
    assert scale_of([1.0, 2.0], Scale(-3.0, 5.0)) == Scale(-3.0, 5.0)
    flat = scale_of([4.0, 4.0])
    assert flat.low < 4.0 < flat.high
    assert scale_of([None, NAN]) == Scale(0.0, 1.0)


@pytest.mark.parametrize("form", ["braille", "blocks", "ascii"])
def test_no_samples_at_all_are_blank_rows(form: str) -> None:
    drawn = raster(columns_of([], [], Scale(0, 1), 4), Scale(0, 1), 2, form)  # type: ignore[arg-type]
    assert "".join(drawn).strip() == ""
