"""A reward that a later window replaced counts no more, on whatever screen a reward stands."""

import math
from datetime import timedelta
from typing import Any

import polars as pl
import pytest

from checks.columns import completed
from checks.log import MemoryLog
from checks.measure import Tools
from checks.session_rewards import session_rewards
from console.watch.held import Held
from console.watch.topic import Ask
from console.watch.views.last_turn import Credit, last_turn
from console.watch.views.most_credit import Learner, MostCredit
from console.watch.views.token import TOPIC as TOKEN
from console.watch.views.token import TokenAsk, TokenView
from console.watch.views.traffic import TOPIC as TRAFFIC
from console.watch.views.traffic import TrafficView
from console.watch.views.trajectories import TOPIC as TRAJECTORIES
from console.watch.views.trajectories import TrajectoriesView
from console.watch.views.turn import TOPIC as TURN
from console.watch.views.turn import TurnAsk, TurnsView
from tests.console.watch.drill.held_log import SAMPLED_AT, held_of, log_of, turn


def given(turn_id: str | None, value: float | None, closed_min: float | None, session: str = "s") -> dict[str, Any]:
    """A reward whose window closed so many minutes after the first turn."""
    closed = None if closed_min is None else SAMPLED_AT + timedelta(minutes=closed_min)
    return {"session_id": session, "turn_id": turn_id, "value": value, "closed_at": closed}


def log_with(*rewards: dict[str, Any]) -> MemoryLog:
    """Two turns of a session, the first of them trained on, and rewards in the order of their lines."""
    trained = {"adapter": "bot", "trainer_step": 3, "advantages": [-0.5]}
    turns = [
        turn(1, prompt_ids=[1], completion_ids=[2], trainable=True, **trained),
        turn(2, prompt_ids=[1, 2, 3], completion_ids=[4], trainable=True, adapter="bot"),
    ]
    return log_of(turns, rewards=list(rewards))


REVISED = (given("s-1", -1.0, 9), given("s-1", 1.0, 5))
"""The turn's own, judged +1 and later -1, as a log may have them whose lines are in no order."""


def of_session(log: MemoryLog) -> dict[str, float | None]:
    """The session's reward, by screen."""
    held = held_of(log)
    trajectories = TRAJECTORIES.build(held, Ask(), lambda: log)
    traffic = TRAFFIC.build(held, Ask(), lambda: log)
    turns = TURN.build(held, TurnAsk(session_id="s"), lambda: log)
    assert isinstance(trajectories, TrajectoriesView)
    assert isinstance(traffic, TrafficView)
    assert isinstance(turns, TurnsView)
    return {
        "trajectories": trajectories.rows[0].reward,
        "traffic": traffic.rows[0].reward,
        "turn": turns.reward,
    }


def token(held: Held, log: MemoryLog) -> TokenView:
    view = TOKEN.build(held, TokenAsk(session_id="s", turn=1), lambda: log)
    assert isinstance(view, TokenView)
    return view


@pytest.mark.parametrize("rewards", [REVISED, REVISED[::-1]], ids=["later-first", "later-last"])
def test_of_a_turn_the_later_reward_counts_on_every_screen(rewards: tuple[dict[str, Any], ...]):
    log = log_with(*rewards)
    held = held_of(log)
    assert set(of_session(log).values()) == {-1.0}
    turns = TURN.build(held, TurnAsk(session_id="s"), lambda: log)
    assert isinstance(turns, TurnsView)
    assert [row.reward for row in turns.rows] == [-1.0, None]
    credit = token(held, log).credit
    assert credit is not None
    assert [(each.of, each.value) for each in credit.given] == [("turn", -1.0)]
    last = last_turn(held, "s", lambda: log, Tools)
    assert last is not None
    assert last.credits == (Credit(turn=1, reward=-1.0),)
    (fault,) = MostCredit().of(held, Learner("bot", None, 3, 3), lambda: log).faults
    assert fault.text == "reward -1"


def test_the_mean_is_of_turns_and_not_of_rewards():
    # -1 of the first turn as it stands, 0.5 of the second.
    assert set(of_session(log_with(*REVISED, given("s-2", 0.5, 5))).values()) == {-0.25}


def test_a_session_that_was_judged_anew_has_its_later_reward():
    assert set(of_session(log_with(given(None, 0.75, 9), given(None, 0.25, 5))).values()) == {0.75}


@pytest.mark.parametrize("at", ["s-1", None], ids=["turn", "session"])
@pytest.mark.parametrize(
    ("values", "closed", "reward"),
    [
        ((1.0, 1.0), (5, 5), 1.0),
        ((1.0, None), (5, 5), 1.0),
        ((1.0, 0.0), (5, 5), None),
        ((1.0, 0.0), (5, None), None),
        ((1.0, math.nan), (5, 9), None),
    ],
    ids=["alike", "one of no value", "closed together", "one without a time", "not finite"],
)
def test_where_it_cannot_be_told_which_one_counts_there_is_none_as_for_the_checks(
    at: str | None, values: tuple[float, float | None], closed: tuple[float, float | None], reward: float | None
):
    log = log_with(*(given(at, *each) for each in zip(values, closed, strict=True)))
    assert set(of_session(log).values()) == {reward}
    if at is None:
        turns = pl.DataFrame({"session_id": ["s"]})
        (checked,) = session_rewards(completed(turns, "turns"), log.table("rewards"))["reward"]
        assert checked == reward


def test_a_later_window_in_which_nothing_counts_leaves_no_reward():
    log = log_with(given("s-1", 1.0, 5), given("s-1", None, 9))
    assert set(of_session(log).values()) == {None}
    traffic = TRAFFIC.build(held_of(log, store=True), Ask(), lambda: log)
    assert isinstance(traffic, TrafficView)
    stages = {each.name: each.turns for each in traffic.numbers.stages}
    assert (stages["trainable"], stages["rewarded"]) == (2, 0)
