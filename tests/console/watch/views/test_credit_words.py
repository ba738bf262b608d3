"""How a version fared, in words: a rise and a likely fall are not told as a score that stood."""

import pytest

from checks.eval_falls import Change
from checks.paired_tasks import paired
from console.watch.views.credit import LearnedBy
from console.watch.views.credit_words import fared_text


@pytest.mark.parametrize(
    ("differences", "said"),
    [
        ([0.25] * 8, "v2 rose on held-out"),
        ([-0.25] * 8, "v2 fell on held-out"),
        ([0.0] * 8, "v2 stood on held-out"),
        ([0.25, -0.25] * 4, "v2 stood on held-out"),
        # Mean -0.125 with a standard error of 0.047: 2.6 of them, beyond the 2.36 of 95 % and short of four.
        ([-0.25, 0.0] * 4, "v2 may have fallen on held-out"),
    ],
)
def test_a_version_is_said_to_have_done_what_its_scores_show(differences: list[float], said: str) -> None:
    before = dict.fromkeys(range(8), 0.5)
    score = paired(before, {task: 0.5 + by for task, by in enumerate(differences)})
    assert score is not None
    change = Change(since=1, step=2, version=2, parent=1, score=score)
    assert fared_text(LearnedBy(adapter="a", version=2, first=2, last=2, change=change)).startswith(said)


@pytest.mark.parametrize(("suites", "said"), [(1, "over 8 tasks"), (2, "over 8 tasks of suite gate")])
def test_of_several_suites_it_is_said_of_which_the_tasks_are(suites: int, said: str) -> None:
    score = paired(dict.fromkeys(range(8), 0.25), dict.fromkeys(range(8), 0.75))
    assert score is not None
    change = Change(since=1, step=2, version=2, parent=1, score=score, suite="gate", suites=suites)
    told = fared_text(LearnedBy(adapter="a", version=2, first=2, last=2, change=change))
    assert told == f"v2 rose on held-out 0.25 → 0.75 {said}"
