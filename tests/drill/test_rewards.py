"""What users say is turned round, says nothing or is too little: nothing worse is routed."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.drill.conftest import OpenLoop
from tests.drill.plant import Cycle, ascii_share, routed, rows, speak, states
from tests.drill.settings import LEARNING, write_settings
from tests.drill.whole_loop import Loop


def liking(loop: Loop, seed: int) -> float:
    """How much of what users get now is to their liking."""
    spoken = speak(loop.collector, 64, seed=seed, judge=None)
    return sum(ascii_share(each.ids) for each in spoken) / len(spoken)


def test_feedback_as_it_is_makes_a_better_version_that_is_routed(
    over: OpenLoop, captures: dict[str, Path], tmp_path: Path
) -> None:
    with over(captures["healthy"], settings=write_settings(tmp_path / "learning", LEARNING)) as loop:
        before = liking(loop, 31)
        cycle = loop.train()
        assert (cycle.code, cycle.ended["ending"]) == (0, "routed"), cycle.ended["reason"]
        [score] = [each for each in cycle.ended["numbers"]["gate"]["criteria"] if each["name"] == "score"]
        assert score["difference"] > 0
        assert liking(loop, 32) > before + 0.1


def test_feedback_turned_round_makes_a_worse_version_that_is_refused(
    over: OpenLoop, captures: dict[str, Path], tmp_path: Path
) -> None:
    with over(captures["inverted"], settings=write_settings(tmp_path / "learning", LEARNING)) as loop:
        cycle = loop.train()
        assert (cycle.code, cycle.ended["ending"]) == (1, "refused")
        assert cycle.not_passed == {"score": "refuse"}
        assert "score against version 0: worse" in cycle.ended["reason"]
        assert (routed(loop.store), states(loop.store)) == ([("bot", 0)], ["live", "rejected"])
        assert loop.next_session() is None


def left_out(cycle: Cycle) -> Mapping[str, Any]:
    """Reason to count, of the turns that were rewarded and are not trained on."""
    stages = cycle.ended["numbers"]["collect"]["funnel"]["funnel"]["stages"]
    return next(each["left_out"] for each in stages if each["stage"] == "trained")


def nothing_is_trained(loop: Loop, cycle: Cycle, reason: str, turns: int) -> None:
    assert (cycle.code, cycle.ended["ending"], cycle.ended["version"]) == (0, "nothing_new", None)
    assert left_out(cycle)[reason]["turns"] == turns
    assert f"{turns} {reason.replace('_', ' ')}" in cycle.ended["reason"]
    assert rows(loop.store, "steps") == []
    assert (routed(loop.store), states(loop.store)) == ([("bot", 0)], ["live"])


def test_a_single_session_waits_for_others(over: OpenLoop, captures: dict[str, Path]) -> None:
    with over(captures["one session"]) as loop:
        nothing_is_trained(loop, loop.train(), "no_baseline", 1)


@pytest.mark.long
def test_a_single_session_has_nothing_to_be_compared_with_where_one_is_allowed(
    over: OpenLoop, captures: dict[str, Path], tmp_path: Path
) -> None:
    with over(captures["one session"], settings=write_settings(tmp_path / "one", batch="min_sessions = 1")) as loop:
        nothing_is_trained(loop, loop.train(), "no_baseline", 1)


def test_a_group_of_equal_rewards_gives_no_step(over: OpenLoop, captures: dict[str, Path]) -> None:
    with over(captures["all alike"]) as loop:
        nothing_is_trained(loop, loop.train(), "zero_variance", 8)
