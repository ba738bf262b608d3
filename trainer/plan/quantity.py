"""Checks of a plan's inputs. Each takes its quantities by keyword, so that the error can name them."""

import math


def require_positive(**quantities: float) -> None:
    """Refuses what is not a finite number above zero."""
    for name, value in quantities.items():
        if not (math.isfinite(value) and value > 0):
            raise ValueError(f"{name} is {value}, expected a finite number above 0")


def require_not_negative(**quantities: float) -> None:
    """Refuses what is not a finite number of at least zero."""
    for name, value in quantities.items():
        if not (math.isfinite(value) and value >= 0):
            raise ValueError(f"{name} is {value}, expected a finite number of at least 0")


def require_share(**quantities: float) -> None:
    """Refuses what does not lie between 0 and 1, ends included."""
    for name, value in quantities.items():
        if not 0 <= value <= 1:
            raise ValueError(f"{name} is {value}, expected a share from 0 to 1")


def require_count(**quantities: int) -> None:
    """Refuses what is not a whole number of at least one."""
    for name, value in quantities.items():
        if int(value) != value or value < 1:
            raise ValueError(f"{name} is {value}, expected a whole number of at least 1")


def require_whole(**quantities: int) -> None:
    """Refuses what is not a whole number of at least zero."""
    for name, value in quantities.items():
        if int(value) != value or value < 0:
            raise ValueError(f"{name} is {value}, expected a whole number of at least 0")
