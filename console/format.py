"""Numbers as text, with their units."""

import math


def number_text(value: float | None, unit: str = "") -> str:
    """A number to four digits with its unit; whole numbers exactly; a share in percent."""
    if value is None:
        return "n/a"
    if not math.isfinite(value):
        return _digits(value)
    share = unit.partition(" ")[0] == "share"
    plain = f"{_digits(100 * value)} %" if share else _digits(value)
    rest = unit.removeprefix("share").strip() if share else unit
    return f"{plain} {_counted(value, rest)}".rstrip()


def _digits(value: float) -> str:
    if math.isnan(value):
        return "not a number"
    if math.isinf(value):
        return "infinite" if value > 0 else "-infinite"
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    if abs(value) >= 1e15 or abs(value) < 1e-3:
        return f"{value:.3g}"
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"


def _counted(value: float, unit: str) -> str:
    """One turn, two turns."""
    return unit[:-1] if value == 1 and unit.isalpha() and len(unit) > 2 and unit.endswith("s") else unit
