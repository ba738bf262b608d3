"""Lanes as lines: numbers, limits, onsets on the shared axis, and what is left out where there is little room."""

import math

import pytest
from rich.cells import cell_len

from console.watch.compact import compact
from console.watch.views.lane import Lane, Onset, PartValue
from console.watch.widgets.lane_rows import GUTTER, LanesLayout, drawn_lanes
from console.watch.widgets.palette import Palette

PLAIN = Palette("none")
AXIS = (0, 99)


def lane(signal: str = "max_w", **changed: object) -> Lane:
    """A quiet lane of a hundred steps at 1.0."""
    fields = {"label": signal, "state": "ok", "check": "c", "status": "ok", "newest": 1.0, "worst": 1.5,
              "steps": tuple(range(100)), "values": (1.0,) * 100, "band": (0.0, 2.0)}  # fmt: skip
    return Lane(signal=signal, **(fields | changed))  # type: ignore[arg-type]


def onset(first: int, last: int | None = None, rank: int = 1, *, tie: bool = False) -> Onset:
    """An onset; exact without a last step."""
    last = first if last is None else last
    return Onset(first=first, last=last, rank=rank, tie=tie, seen=last + 3, part="max_w", was=1.0)


def texts(lanes: list[Lane], width: int, height: int, *, selected: int = 0, palette: Palette = PLAIN) -> list[str]:
    """The lines as text."""
    form = "ascii" if palette.ascii else "braille"
    return [line.text for line in drawn_lanes(lanes, AXIS, selected, LanesLayout(width, height, form), palette)]


def plot(line: str, width: int) -> str:
    """The part of a line that is the plot."""
    return line[LanesLayout(width, 1).left : width - GUTTER]


def test_a_row_has_shape_name_newest_worst_and_limit() -> None:
    (row,) = texts([lane(state="critical", newest=8.32, worst=15.2, limit=10.0)], 80, 2)[1:]
    assert row.startswith(">◆ max_w      8.32   15.2    >10 ")
    (row,) = texts([lane("mfu", newest=0.381, worst=0.2, limit=0.15, below=True)], 80, 2)[1:]
    assert row.startswith(">● mfu       0.381    0.2  <0.15 ")


def test_what_is_not_observed_is_a_dash_and_its_lane_is_blank() -> None:
    row = texts([lane(newest=None, worst=None, steps=(), values=(), state="no_data", band=None)], 80, 2)[1]
    assert row.startswith(">○ max_w         –      –        ")
    assert plot(row, 80).strip() == ""
    assert row.endswith(" – n/d      ")


def test_an_exact_onset_is_a_bar_in_the_cell_of_its_step() -> None:
    width = 80
    cells = LanesLayout(width, 1).plot
    row = texts([lane(onset=onset(60))], width, 2)[1]
    # The columns of the plot, two a cell, share 0 to 99: step 60 is column int(60 / 99 * columns).
    at = int(60 / 99 * 2 * cells) // 2
    assert [index for index, letter in enumerate(plot(row, width)) if letter == "┃"] == [at]
    assert row.endswith(" #1 @60     ")


def test_an_onset_between_two_samples_is_an_interval_and_a_tie_has_an_equals_sign() -> None:
    width = 80
    cells = LanesLayout(width, 1).plot
    row = texts([lane(onset=onset(40, 60, rank=2, tie=True))], width, 2)[1]
    first, last = int(40 / 99 * 2 * cells) // 2, int(60 / 99 * 2 * cells) // 2
    assert plot(row, width)[first : last + 1] == "╞" + "═" * (last - first - 1) + "╡"
    assert row.endswith(" =2 @40–60  ")


def test_every_lane_shares_the_axis_of_the_header() -> None:
    width = 120
    lines = texts([lane("a", onset=onset(70)), lane("b", onset=onset(70, rank=1, tie=True))], width, 5)
    bars = {line.index("┃") for line in lines[1:]}
    assert len(bars) == 1
    at, fifty = bars.pop(), lines[0].index("│50")
    # 72 cells for 100 steps: 20 steps are some 14 cells.
    assert 13 <= at - fifty <= 15
    assert lines[0].rstrip().endswith("99 now")


def test_an_onset_before_the_axis_is_said_and_not_drawn() -> None:
    row = drawn_lanes([lane(onset=onset(5))], (10, 99), 0, LanesLayout(80, 2), PLAIN)[1].text
    assert "┃" not in row
    assert "#1 @5" in row


def test_the_limit_is_a_line_where_the_axis_holds_it() -> None:
    lines = texts([lane(limit=1.9)], 120, 5)
    assert sum("┄" in line for line in lines) == 1
    assert "┄" not in "".join(texts([lane(limit=5.0)], 120, 5))


def test_noise_within_the_band_is_drawn_small() -> None:
    noisy = lane(values=tuple(1 + 0.001 * (step % 2) for step in range(100)))
    lines = texts([noisy], 120, 9)
    assert sum(plot(line, 120).strip() != "" for line in lines[1:]) == 1
    free = lane(values=noisy.values, band=None)
    assert sum(plot(line, 120).strip() != "" for line in texts([free], 120, 9)[1:]) > 1


def test_the_selected_lane_takes_the_spare_rows_and_lists_its_parts() -> None:
    parts = tuple(PartValue(name=name, newest=0.5, worst=0.1) for name in ("min", "kl", "ess"))
    drawn = drawn_lanes([lane("a"), lane("b", parts=parts), lane("c")], AXIS, 1, LanesLayout(80, 10), PLAIN)
    assert [line.lane for line in drawn] == [None, 0, *[1] * 7, 2]
    said = [line.text for line in drawn]
    for name in ("min", "kl", "ess"):
        assert any(f"   {name:<9}   0.5    0.1" in line for line in said)


def test_at_120x24_lanes_have_two_rows_and_parts_stand_in_the_second() -> None:
    parts = (PartValue(name="train", newest=0.61), PartValue(name="eval", newest=None))
    lines = texts([lane("a"), lane("b", parts=parts)], 120, 8, selected=0)
    assert "ok train 0.61 eval –" in lines[-1]


def test_eight_lanes_fit_into_nine_rows_and_fewer_rows_keep_the_selected_one() -> None:
    eight = [lane(f"s{number}") for number in range(8)]
    assert sum(line.lane is not None for line in drawn_lanes(eight, AXIS, 0, LanesLayout(80, 9), PLAIN)) == 8
    few = drawn_lanes(eight, AXIS, 6, LanesLayout(80, 4), PLAIN)
    assert [line.lane for line in few] == [None, 5, 6, 7]


def test_below_seventy_columns_there_are_numbers_only() -> None:
    (row,) = texts([lane(onset=onset(5), limit=10.0)], 60, 2)[1:]
    assert row == ">● max_w         1    1.5    >10   #1 @5"


@pytest.mark.parametrize("width", [70, 80, 99, 100, 120, 200])
@pytest.mark.parametrize("palette", [PLAIN, Palette("none", ascii=True)])
def test_every_line_is_as_wide_as_the_terminal(width: int, palette: Palette) -> None:
    lanes = [
        lane("a", onset=onset(3, 97, tie=True), state="acked"),
        lane("b", newest=-1.23456e-7, worst=1e12, limit=1e9),
    ]
    for line in texts(lanes, width, 12, palette=palette):
        assert cell_len(line) == width


def test_in_ascii_every_character_is_ascii() -> None:
    lanes = [lane("a", onset=onset(3, 9, tie=True), limit=1.9), lane("b", onset=onset(8), state="warning"),
             lane("c", newest=None, state="no_data", values=(), steps=())]  # fmt: skip
    assert "".join(texts(lanes, 120, 12, palette=Palette("none", ascii=True))).isascii()


def test_the_trainers_own_numbers_have_a_tilde() -> None:
    assert "~1 " in texts([lane(provisional=True)], 80, 2)[1]


@pytest.mark.parametrize(
    ("value", "width", "text"),
    [
        (None, 6, "–"), (0.0, 6, "0"), (8.324, 6, "8.32"), (0.41234, 6, "0.412"), (1842.0, 6, "1842"),
        (123456.7, 6, "123000"), (1.5e9, 6, "1.5e9"), (-0.00012345, 7, "-1.2e-4"), (math.inf, 6, "inf"),
        (math.nan, 6, "NaN"), (1e12, 6, "1e12"), (99.96, 6, "100"),
    ],
)  # fmt: skip
def test_numbers_keep_three_digits_where_they_fit(value: float | None, width: int, text: str) -> None:
    assert compact(value, width) == text
    assert len(compact(value, width)) <= width
