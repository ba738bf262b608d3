"""A judgement that another one supersedes counts nowhere, be the other one of another turn; nor does one sent twice."""

from datetime import timedelta
from typing import Any

import polars as pl

from checks.measure import Tools
from checks.standing_feedback import standing_feedback, superseded
from console.watch.topic import Ask
from console.watch.views.last_turn import last_turn
from console.watch.views.most_credit import Learner, MostCredit
from console.watch.views.token import TOPIC as TOKEN
from console.watch.views.token import TokenAsk, TokenView
from console.watch.views.traffic import TOPIC as TRAFFIC
from console.watch.views.traffic import TrafficView
from console.watch.views.turn import TOPIC as TURN
from console.watch.views.turn import TurnAsk, TurnsView
from tests.console.watch.drill.held_log import SAMPLED_AT, held_of, log_of, turn


def given(name: str, turn_id: str, value: float, minute: int, supersedes: str | None = None) -> dict[str, Any]:
    at = SAMPLED_AT + timedelta(minutes=minute)
    named = {"feedback_id": name, "session_id": "s", "turn_id": turn_id, "kind": "thumb"}
    return named | {"value": value, "at": at, "supersedes": supersedes}


GIVEN = (
    given("a", "s-1", 1.0, 1),
    given("b", "s-1", 0.0, 9),
    # Taken back while another turn was judged.
    given("c", "s-2", 1.0, 10, supersedes="b"),
    given("a", "s-1", 0.5, 12),
)


def test_each_screen_has_the_judgement_that_counts() -> None:
    trained = {"adapter": "bot", "trainer_step": 3, "advantages": [-0.5]}
    turns = [
        turn(1, prompt_ids=[1], completion_ids=[2], **trained),
        turn(2, prompt_ids=[1, 2, 3], completion_ids=[4], adapter="bot"),
    ]
    log = log_of(turns, feedback=list(GIVEN))
    held = held_of(log)
    shown = TURN.build(held, TurnAsk(session_id="s"), lambda: log)
    assert isinstance(shown, TurnsView)
    assert [row.feedback for row in shown.rows] == ["thumb 1", "thumb 1"]
    token = TOKEN.build(held, TokenAsk(session_id="s", turn=1), lambda: log)
    assert isinstance(token, TokenView)
    assert token.credit is not None
    assert [each.value for each in token.credit.judged] == [1.0]
    last = last_turn(held, "s", lambda: log, Tools)
    assert last is not None
    assert last.feedback == ("thumb 1", "thumb 1")
    (fault,) = MostCredit().of(held, Learner("bot", None, 3, 3), lambda: log).faults
    assert fault.text == "thumb 1"
    traffic = TRAFFIC.build(held, Ask(), lambda: log)
    assert isinstance(traffic, TrafficView)
    counted = traffic.numbers.feedback
    assert counted is not None
    assert (counted.judgements, counted.replaced, counted.good, counted.bad) == (2, 1, 2, 0)
    assert traffic.rows[0].feedback == "up"


def test_what_has_no_name_counts_each_time_and_nothing_replaces_itself() -> None:
    names, replaced = [None, None, "a", "b"], [None, "x", "a", None]
    frame = pl.DataFrame({"feedback_id": names, "supersedes": replaced}, schema_overrides={"feedback_id": pl.String})
    assert standing_feedback(frame)["feedback_id"].to_list() == names
    assert superseded(frame).is_empty()
