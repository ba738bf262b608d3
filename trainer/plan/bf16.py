"""bf16 rounding: the grid, round-to-nearest-even, and how many steps until a master's bf16 copy changes."""

import math
import struct

import numpy as np
from numpy.typing import NDArray

from trainer.plan.quantity import require_positive

_FRACTION_BITS = 7
_MIN_EXPONENT = -126


def bf16_round(value: float) -> float:
    """The nearest bf16 value, ties to the one with an even last bit. Lecture 12, section 4.

    Rounded once, from the double: going through float32 first differs only near a tie.
    """
    if math.isnan(value) or math.isinf(value) or value == 0:
        return value
    spacing = bf16_spacing(value)
    rounded = math.copysign(round(abs(value) / spacing) * spacing, value)
    return math.copysign(math.inf, value) if abs(rounded) >= 2.0**128 else rounded


def bf16_round_float32(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    """The bits of float32 values rounded to bf16, nearest-even, as a cast on a device does it; NaN stays NaN."""
    bits = values.view(np.uint32)
    even = (bits >> np.uint32(16)) & np.uint32(1)
    with np.errstate(over="ignore"):
        rounded = ((bits + np.uint32(0x7FFF) + even) >> np.uint32(16)).astype(np.uint16)
    quiet = ((bits >> np.uint32(16)) | np.uint32(0x0040)).astype(np.uint16)
    return np.where(np.isnan(values), quiet, rounded).astype(np.uint16)


def bf16_bits(value: float) -> int:
    """The 16 bits of the nearest bf16 value."""
    return struct.unpack(">I", struct.pack(">f", bf16_round(value)))[0] >> 16


def bf16_spacing(value: float) -> float:
    """Distance between neighbouring bf16 values around `value`: 128 to a power of two. Lecture 12, section 4."""
    if value == 0 or not math.isfinite(value):
        raise ValueError(f"value is {value}, expected a finite number other than 0")
    exponent = max(math.frexp(value)[1] - 1, _MIN_EXPONENT)
    return 2.0 ** (exponent - _FRACTION_BITS)


def steps_until_copy_changes(master: float, *, step: float) -> int:
    """Same-sign steps of an exact master until its bf16 copy differs. Lecture 12, section 4 and exercise 4.

    The copy changes at the rounding boundary in the step's direction, half way to the next bf16 value; on the
    boundary itself the even neighbour wins.
    """
    if step == 0 or not math.isfinite(step):
        raise ValueError(f"step is {step}, expected a finite number other than 0")
    copy = bf16_round(master)
    low, high = 0, 1
    while bf16_round(master + high * step) == copy:
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        if bf16_round(master + middle * step) == copy:
            low = middle
        else:
            high = middle
    return high


def steps_stored_in_bf16(value: float, *, step: float) -> int | None:
    """The same with no master: None when a step rounds back, so that the value never moves."""
    copy = bf16_round(value)
    return None if bf16_round(copy + step) == copy else 1


def changing_share(value: float, *, step: float) -> float:
    """Share of steps that change the copy when masters lie uniformly in their cells: step over spacing, at most 1."""
    require_positive(step_size=abs(step))
    return min(1.0, abs(step) / bf16_spacing(value))
