"""A dead grader proves nothing: what cannot be judged is not routed, and the task is named."""

from pathlib import Path

import pytest

from tests.drill.conftest import OpenLoop
from tests.drill.plant import routed, stages, states
from tests.drill.settings import write_settings


@pytest.mark.parametrize(
    ("grader", "said"),
    [
        ("all_good", "passes an empty reply"),
        pytest.param("crashes", "the judge's key has expired", marks=pytest.mark.long),
    ],
)
def test_a_grader_that_fails_its_trial_ends_the_cycle_before_anything_is_judged(
    over: OpenLoop, captures: dict[str, Path], tmp_path: Path, grader: str, said: str
) -> None:
    with over(captures["healthy"]) as loop:
        cycle = loop.train(write_settings(tmp_path / "dead", grader=grader))
        assert (cycle.code, cycle.ended["ending"]) == (1, "failed")
        assert "suite held, task 'task-" in cycle.ended["reason"]
        assert said in cycle.ended["reason"]
        assert stages(loop.store)[-4:] == ["evaluate failed", "prune begun", "prune done", "end done"]
        assert (routed(loop.store), states(loop.store)) == ([("bot", 0)], ["live", "candidate"])
        assert loop.next_session() is None
        # With a grader that lives the next cycle takes the candidate up.
        mended = loop.train()
        assert [(each["ending"], each["recovered"]) for each in mended.said["adapters"]] == [
            ("routed", True),
            ("nothing_new", False),
        ]
        assert loop.next_session(seed=8) == "bot@1"


@pytest.mark.parametrize(
    ("grader", "status", "said"),
    [
        (
            "crashes_on_replies",
            "no_data",
            "tasks with samples that were not observed: 12 of version 1, 12 of version 0",
        ),
        pytest.param("all_bad", "inconclusive", "no reply of any version scores above 0", marks=pytest.mark.long),
        ("all_half", "inconclusive", "every reply of every version scores 0.5"),
    ],
)
def test_a_grader_that_says_the_same_of_everything_passes_nothing(
    over: OpenLoop, captures: dict[str, Path], tmp_path: Path, grader: str, status: str, said: str
) -> None:
    with over(captures["healthy"]) as loop:
        cycle = loop.train(write_settings(tmp_path / "dead", grader=grader))
        assert cycle.ended["ending"] == "inconclusive"
        assert cycle.not_passed["evaluation"] == status
        assert said in cycle.ended["reason"]
        assert (routed(loop.store), states(loop.store)) == ([("bot", 0)], ["live", "candidate"])
        assert not loop.served.engine.bank.loaded
        assert loop.next_session() is None
