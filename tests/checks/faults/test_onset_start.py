"""Where a move can be seen at all: the manual of first-mover says so, and the test of the series is held to it."""

import numpy as np
import pytest

from checks.onset import onset
from checks.suite import CHECKS


@pytest.mark.parametrize(("evaluation", "unseen"), [(False, 43), (True, 10)])
def test_a_jump_is_seen_from_the_step_on_that_the_manual_names(*, evaluation: bool, unseen: int) -> None:
    noise = 0.02 * np.random.default_rng(0).standard_normal(100)

    def seen(at: int) -> bool:
        return onset(1 + noise + 5 * (np.arange(100) >= at), evaluation=evaluation) is not None

    assert [seen(at) for at in (unseen // 2, unseen - 2, unseen, unseen + 1)] == [False, False, True, True]
    named = "evaluations" if evaluation else "steps"
    manual = next(check.manual for check in CHECKS if check.name == "first-mover")
    assert f"the first {unseen} {named}" in " ".join(manual.split())
