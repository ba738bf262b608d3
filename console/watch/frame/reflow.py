"""Which layout a terminal's size gets."""

from typing import Literal

Form = Literal["full", "normal", "small", "line"]
"""120x36 and above, 80x24 and above, 60x15 and above, and anything below: one line."""


def form_of(width: int, height: int) -> Form:
    """The layout for a terminal of this size."""
    if width >= 120 and height >= 36:
        return "full"
    if width >= 80 and height >= 24:
        return "normal"
    return "small" if width >= 60 and height >= 15 else "line"
