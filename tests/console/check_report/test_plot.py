"""Series as SVG: where points lie, gaps, spikes that stay, and numbers that cannot be drawn."""

import math
import re
from typing import Literal

from checks.finding import Series
from console.check_report.plot import BOTTOM, HEIGHT, LEFT, MOST_POINTS, RIGHT, TOP, WIDTH, plots


def series(
    y: list[float | None],
    kind: Literal["line", "bars", "points"] = "line",
    *,
    name: str = "n",
    x: list[float] | None = None,
) -> Series:
    """A series over 0, 1, 2 unless told otherwise."""
    at = tuple(x if x is not None else [float(n) for n in range(len(y))])
    return Series(name=name, x_label="step", y_label="nats", x=at, y=tuple(y), kind=kind)


def path(svg: str) -> list[tuple[str, float, float]]:
    """The strokes of the one line."""
    [strokes] = re.findall(r'<path class="line c0" d="([^"]*)"', svg)
    return [(kind, float(x), float(y)) for kind, x, y in re.findall(r"([ML])([\d.]+) ([\d.]+)", strokes)]


def test_a_line_goes_from_the_first_to_the_last_within_the_axes() -> None:
    [svg] = plots([series([0.0, 1.0, 0.5])])
    # 5 % of the span is left free above and below: 0 is at 0.05 / 1.1 of the height.
    height = HEIGHT - BOTTOM - TOP
    low, high = HEIGHT - BOTTOM - height * 0.05 / 1.1, TOP + height * 0.05 / 1.1
    strokes = path(svg)
    assert [(kind, x) for kind, x, _ in strokes] == [
        ("M", LEFT),
        ("L", (LEFT + WIDTH - RIGHT) / 2),
        ("L", WIDTH - RIGHT),
    ]
    assert [y for _, _, y in strokes] == [round(low, 1), round(high, 1), round((low + high) / 2, 1)]


def test_what_is_missing_or_not_finite_is_a_gap() -> None:
    [svg] = plots([series([0.0, 1.0, None, 2.0, math.nan, 1.0, math.inf])])
    assert [kind for kind, _, _ in path(svg)] == ["M", "L", "M", "M"]


def test_a_spike_among_many_points_is_still_there() -> None:
    y: list[float | None] = [0.0] * 100_000
    y[54_321] = 9.0
    [svg] = plots([series(y)])
    strokes = path(svg)
    assert len(strokes) <= MOST_POINTS
    assert min(y for _, _, y in strokes) < TOP + 20


def test_bars_stand_on_zero_and_next_to_each_other() -> None:
    [svg] = plots([series([2.0, 0.0, -1.0], "bars")])
    bars = re.findall(r'<rect class="bar c0" x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)"', svg)
    (x0, y0, width0, height0), (_, _, _, height1), (_, y2, _, height2) = [tuple(map(float, bar)) for bar in bars]
    third = (WIDTH - RIGHT - LEFT) / 3
    assert abs(width0 - third) < 1.5
    assert abs(x0 - LEFT) < 1
    zero = TOP + (HEIGHT - BOTTOM - TOP) * 2 / 3
    assert abs(y0 + height0 - zero) < 0.2
    assert height1 == 0
    assert abs(y2 - zero) < 0.2
    assert abs(height0 - 2 * height2) < 0.3


def test_curves_with_the_same_axes_share_a_plot_and_a_legend() -> None:
    pair = [series([0, 1], name="train"), series([1, 2], name="held-out")]
    [svg] = plots(pair)
    assert svg.count("<path") == 2
    assert "train ●" in svg
    assert "held-out ●" in svg
    assert len(plots([*pair, series([1, 2], "bars"), series([1, 2], "bars"), *pair * 2])) == 4


def test_a_legend_tells_curves_apart_by_what_differs_in_their_names() -> None:
    names = [f"log w by position, {which}" for which in ("mean", "min", "max")]
    [svg] = plots([series([0, 1], name=name) for name in names])
    assert '<text class="title" x="64" y="16">log w by position</text>' in svg
    assert [part.rpartition(">")[2] for part in svg.split(" ●</text>")[:-1]] == ["max", "min", "mean"]


def test_one_point_and_equal_values_are_drawn_and_nothing_is_not() -> None:
    for one in (series([3.0], "points"), series([2.0, 2.0, 2.0]), series([0.0], "bars"), series([1e-300, 2e-300])):
        [svg] = plots([one])
        assert "nan" not in svg
        assert "inf" not in svg
    assert plots([series([]), series([None, math.nan])]) == []
