"""Numbers in few characters, for lanes and cells."""

import math


def compact(value: float | None, width: int = 6, *, missing: str = "–") -> str:
    """A number in at most `width` characters, to three digits where they fit; what is not observed is a dash."""
    if value is None:
        return missing
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    if value == int(value) and len(f"{int(value)}") <= width:
        return f"{int(value)}"
    for digits in (3, 2, 1):
        text = _short(f"{value:.{digits}g}", value, digits)
        if len(text) > width and abs(value) < 1e-3:
            text = _short(f"{value:.{digits - 1}e}", value, digits)
        if len(text) <= width:
            return text
    return text[:width]  # pyright: ignore[reportPossiblyUnboundVariable]


def _short(text: str, value: float, digits: int) -> str:
    """Without what an exponent does not need; thousands are written out."""
    mantissa, mark, exponent = text.partition("e")
    if not mark:
        return text
    if 3 <= int(exponent) <= 5:
        return f"{round(value, digits - 1 - int(exponent)):.0f}"
    return f"{mantissa}e{int(exponent)}"
