"""Series as SVG: lines, points or bars with axes, drawn without a script."""

import math
from collections.abc import Sequence
from html import escape
from itertools import pairwise, takewhile
from typing import NamedTuple

from checks.finding import Series
from collector.terminal_text import terminal_safe

WIDTH, HEIGHT = 640, 260
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 28, 44
MOST_POINTS = 1500
"""Points of one series that are drawn; of more, each stretch keeps its lowest and its highest."""
MOST_CURVES = 4
TITLE_CHARS, WIDE_TITLE_CHARS = 24, 60
"""Room for the title beside a legend, and alone."""
LETTER = 6.5
"""Pixels of a letter, about."""
HOVER_POINTS = 400
"""Points up to which each says its numbers when it is pointed at."""

Point = tuple[float, float | None]


class _Scale(NamedTuple):
    """Numbers to pixels, along one axis."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)


def plots(series: Sequence[Series]) -> list[str]:
    """One SVG for each histogram, and one for up to `MOST_CURVES` curves that share their axes."""
    together: dict[tuple[str, ...], list[Series]] = {}
    for index, each in enumerate(series):
        alone = (str(index),) if each.kind == "bars" else ()
        together.setdefault((each.kind, each.x_label, each.y_label, *alone), []).append(each)
    groups = [
        group[start : start + MOST_CURVES] for group in together.values() for start in range(0, len(group), MOST_CURVES)
    ]
    return [svg for group in groups if (svg := _plot(group))]


def _plot(group: Sequence[Series]) -> str:
    """Empty when nothing of it can be drawn."""
    curves = [(each, _thinned(_points(each))) for each in group]
    seen = [(x, y) for _, points in curves for x, y in points if y is not None]
    if not seen:
        return ""
    bars = group[0].kind == "bars"
    half = _bar_width(curves[0][1]) / 2 if bars else 0.0
    x = _scale([x - half for x, _ in seen] + [x + half for x, _ in seen], LEFT, WIDTH - RIGHT)
    y = _scale([y for _, y in seen] + ([0.0] if bars else []), HEIGHT - BOTTOM, TOP, room=0.0 if bars else 0.05)
    drawn = [_draw(each, points, x, y, half, index) for index, (each, points) in enumerate(curves)]
    about = f"{group[0].y_label} over {group[0].x_label}"
    names, title = _told_apart(group)
    label = escape(terminal_safe(f"{', '.join(each.name for each in group)}: {about}"))
    return (
        f'<svg class="plot" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">'
        f'<text class="title" x="{LEFT}" y="16">{_cut(title, TITLE_CHARS if names else WIDE_TITLE_CHARS)}</text>'
        f"{_axes(group[0], x, y)}{''.join(drawn)}{_legend(names)}</svg>"
    )


def _cut(text: str, chars: int) -> str:
    """Escaped, and no longer than there is room for."""
    safe = terminal_safe(text)
    return escape(safe if len(safe) <= chars else f"{safe[: chars - 1]}…")


def _points(series: Series) -> list[Point]:
    """What can be drawn; a gap stays a gap."""
    return [
        (x, y if y is not None and math.isfinite(y) else None)
        for x, y in zip(series.x, series.y, strict=True)
        if math.isfinite(x)
    ]


def _thinned(points: list[Point]) -> list[Point]:
    """As many points as can be seen: the lowest and the highest of each stretch, so that no spike is lost."""
    if len(points) <= MOST_POINTS:
        return points
    stretch = math.ceil(2 * len(points) / MOST_POINTS)
    kept: list[Point] = []
    for start in range(0, len(points), stretch):
        piece = points[start : start + stretch]
        known = [index for index, (_, y) in enumerate(piece) if y is not None]
        if not known:
            kept.append(piece[0])
            continue
        ends = {min(known, key=lambda at: piece[at][1] or 0.0), max(known, key=lambda at: piece[at][1] or 0.0)}
        kept += [piece[index] for index in sorted(ends)]
    return kept


def _bar_width(points: list[Point]) -> float:
    """The least distance between two bars; 1 for a single one."""
    xs = sorted({x for x, _ in points})
    return min((after - before for before, after in pairwise(xs)), default=1.0)


def _scale(values: Sequence[float], start: float, end: float, *, room: float = 0.0) -> _Scale:
    """From the least to the greatest value, with some room on both sides."""
    low, high = min(values), max(values)
    pad = (high - low) * room if high > low else abs(low) * 0.1 or 1.0
    low, high = low - pad, high + pad
    return _Scale(low, high, start, end)


def _draw(series: Series, points: list[Point], x: _Scale, y: _Scale, half: float, index: int) -> str:
    colour = f"c{index}"
    known = [(at, value) for at, value in points if value is not None]
    if series.kind == "bars":
        return "".join(_bar(at, value, x, y, half, colour) for at, value in known)
    dots = "".join(_dot(at, value, x, y, colour) for at, value in known) if len(known) <= HOVER_POINTS else ""
    if series.kind == "points":
        return dots or "".join(_dot(at, value, x, y, colour, hover=False) for at, value in known)
    return f'<path class="line {colour}" d="{_path(points, x, y)}"/>{dots}'


def _path(points: list[Point], x: _Scale, y: _Scale) -> str:
    parts: list[str] = []
    pen_down = False
    for at, value in points:
        if value is not None:
            parts.append(f"{'L' if pen_down else 'M'}{x.at(at):.1f} {y.at(value):.1f}")
        pen_down = value is not None
    return "".join(parts)


def _bar(at: float, value: float, x: _Scale, y: _Scale, half: float, colour: str) -> str:
    left, right = x.at(at - half), x.at(at + half)
    top, base = sorted((y.at(value), y.at(0.0)))
    gap = min(1.0, (right - left) / 4)
    return (
        f'<rect class="bar {colour}" x="{left + gap / 2:.1f}" y="{top:.1f}" width="{right - left - gap:.1f}" '
        f'height="{base - top:.1f}"><title>{_number(at)}: {_number(value)}</title></rect>'
    )


def _dot(at: float, value: float, x: _Scale, y: _Scale, colour: str, *, hover: bool = True) -> str:
    title = f"<title>{_number(at)}: {_number(value)}</title>" if hover else ""
    return f'<circle class="dot {colour}" cx="{x.at(at):.1f}" cy="{y.at(value):.1f}" r="2.5">{title}</circle>'


def _axes(series: Series, x: _Scale, y: _Scale) -> str:
    floor, parts = HEIGHT - BOTTOM, list[str]()
    for value in _ticks(x):
        at = x.at(value)
        parts.append(f'<line class="tick" x1="{at:.1f}" y1="{floor}" x2="{at:.1f}" y2="{floor + 4}"/>')
        parts.append(f'<text class="num" x="{at:.1f}" y="{floor + 16}" text-anchor="middle">{_number(value)}</text>')
    for value in _ticks(y):
        at = y.at(value)
        parts.append(f'<line class="grid" x1="{LEFT}" y1="{at:.1f}" x2="{WIDTH - RIGHT}" y2="{at:.1f}"/>')
        parts.append(f'<text class="num" x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{_number(value)}</text>')
    parts.append(f'<line class="axis" x1="{LEFT}" y1="{floor}" x2="{WIDTH - RIGHT}" y2="{floor}"/>')
    x_label, y_label = _cut(series.x_label, 80), _cut(series.y_label, 30)
    middle = (TOP + floor) / 2
    parts.append(
        f'<text class="label" x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}" text-anchor="middle">{x_label}</text>'
        f'<text class="label" transform="translate(14 {middle}) rotate(-90)" text-anchor="middle">{y_label}</text>'
    )
    return "".join(parts)


def _ticks(scale: _Scale) -> list[float]:
    """Four to eight round numbers within the scale."""
    span = scale.high - scale.low
    unit = 10 ** math.floor(math.log10(span / 4))
    step = next(unit * factor for factor in (1, 2, 5, 10) if span / (unit * factor) <= 8)
    first = math.ceil(scale.low / step)
    return [step * count for count in range(first, math.floor(scale.high / step) + 1)]


def _told_apart(group: Sequence[Series]) -> tuple[list[str], str]:
    """What names the curves in a legend, empty for a single one, and the title: what their names begin with."""
    names = [each.name for each in group]
    if len(names) < 2:
        return [], names[0]
    alike = takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False))
    shared = "".join(letters[0] for letters in alike)
    shared = shared[: max(shared.rfind(end) for end in " ,:") + 1]
    return [name.removeprefix(shared) for name in names], shared.rstrip(" ,:") or group[0].y_label


def _legend(names: Sequence[str]) -> str:
    """Names beside their colours."""
    room = (WIDTH - RIGHT - LEFT) / LETTER - TITLE_CHARS
    parts: list[str] = []
    at = float(WIDTH - RIGHT)
    for index, each in reversed(list(enumerate(names))):
        name = terminal_safe(each)[: int(room / len(names)) - 3]
        parts.append(f'<text class="key k{index}" x="{at:.0f}" y="16" text-anchor="end">{escape(name)} ●</text>')
        at -= LETTER * (len(name) + 3)
    return "".join(parts)


def _number(value: float) -> str:
    return f"{value:.4g}"
