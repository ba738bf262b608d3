"""Tests of trainer.plan.quantity: what is refused, and that the error names it."""

import math
from collections.abc import Callable

import pytest

from trainer.plan.quantity import (
    require_count,
    require_not_negative,
    require_positive,
    require_share,
    require_whole,
)


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (require_positive, (0.1, 1), (0, -1, math.inf, math.nan)),
        (require_not_negative, (0, 1.5), (-0.1, math.inf, math.nan)),
        (require_share, (0, 0.5, 1), (-0.1, 1.1, math.nan)),
        (require_count, (1, 5), (0, -1, 1.5)),
        (require_whole, (0, 5), (-1, 1.5)),
    ],
)
def test_only_good_values_pass(check: Callable[..., None], good: tuple[float, ...], bad: tuple[float, ...]) -> None:
    for value in good:
        check(turns=value)
    for value in bad:
        with pytest.raises(ValueError, match=r"turns is .*, expected a"):
            check(turns=value)
