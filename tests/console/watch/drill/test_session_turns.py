"""What of a session's scorings a replay shows: those of steps that had ended, as the steps of scores are counted."""

from datetime import timedelta
from typing import Any

import pytest

from console.watch.plain.token import plain_token
from console.watch.views.token import TOPIC as TOKEN
from console.watch.views.token import TokenAsk, TokenView
from console.watch.views.turn import TOPIC as TURN
from console.watch.views.turn import TurnAsk, TurnsView
from tests.console.watch.drill.held_log import SAMPLED_AT, held_of, log_of, turn
from tests.console.watch.fake_feed import NOW


def at(seconds: float) -> Any:
    """So many seconds after the first step ended."""
    return NOW + timedelta(seconds=seconds)


SCORED = turn(
    prompt_ids=[1],
    completion_ids=[2],
    adapter="a",
    sampled_logprobs=[-1.0],
    trainer_step=1,
    trainer_version=1,
    trainer_logprobs=[-3.0],
    advantages=[0.5],
    more_scores=[{"trainer_step": 2, "trainer_version": 1, "trainer_logprobs": [-5.0]}],
)
"""Scored by the weights that step 1 made, which step 2 was trained from; and by those that step 2 made."""
STEPS = [{"adapter": "a", "step": step, "at": at(100 * step - 100)} for step in (1, 2, 3)]


@pytest.mark.parametrize("store", [True, False])
@pytest.mark.parametrize("registered_s", [-1000, 60])
@pytest.mark.parametrize(
    ("after_s", "steps", "worst_w"),
    # exp(-3 + 1) of the first scoring, which is the only one until step 3 has ended.
    [(-50, [], None), (50, [], None), (150, [1], 0.1353), (250, [1, 2], None)],
)
def test_a_scoring_is_as_old_as_the_step_that_trained_on_it(
    store: bool, registered_s: int, after_s: float, steps: list[int], worst_w: float | None
):
    # Registered before all of it or, in a log that has not every version, while it went on.
    versions = [{"adapter": "a", "version": 1, "optimizer_step": 1, "created_at": at(registered_s)}]
    log = log_of([SCORED], steps=STEPS, versions=versions)
    then = held_of(log, store=store).until(at(after_s))
    view = TOKEN.build(then, TokenAsk(session_id="s", turn=1), lambda: log)
    assert isinstance(view, TokenView)
    assert [each.step for each in view.scorings] == steps
    if after_s < 250:
        turns = TURN.build(then, TurnAsk(session_id="s"), lambda: log)
        assert isinstance(turns, TurnsView)
        assert turns.rows[0].worst_w == (None if worst_w is None else pytest.approx(worst_w, abs=1e-4))
        assert view.rows[-1].advantage == (0.5 if steps else None)
        assert view.rows[-1].pi_now is None


def test_where_versions_have_no_steps_a_scoring_is_of_the_step_that_it_names():
    versions = [{"adapter": "a", "version": 1, "created_at": SAMPLED_AT}]
    log = log_of([SCORED], steps=STEPS, versions=versions)
    found: list[list[int | None]] = []
    for after_s in (-50, 50, 150):
        view = TOKEN.build(held_of(log).until(at(after_s)), TokenAsk(session_id="s", turn=1), lambda: log)
        assert isinstance(view, TokenView)
        found.append([each.step for each in view.scorings])
        assert plain_token(view, 120)
    assert found == [[], [1], [1, 2]]
