"""The traffic in numbers, each worked by hand."""

import polars as pl
import pytest

from collector.trainable import REASONS
from console.watch.held import Origin
from console.watch.plain.traffic import plain_traffic
from console.watch.topic import Ask
from console.watch.views.traffic import Failure, Numbers, traffic_view
from console.watch.views.traffic_numbers import (
    NO_REWARD,
    NOT_MEANT,
    NOT_USED,
    UNKNOWN,
    Delay,
    Judged,
    Reason,
    Stage,
    Tenant,
)
from tests.console.watch.fake_feed import held, no_log
from tests.console.watch.small_held import frame, small_held, turn


def numbers(**asked: object) -> Numbers:
    return traffic_view(small_held(), Ask(**asked), no_log).numbers


def test_each_stage_counts_the_turns_that_got_so_far() -> None:
    assert numbers().stages == (
        Stage(name="recorded", turns=5, sessions=3),
        Stage(name="complete", turns=4, sessions=3),
        Stage(name="trainable", turns=2, sessions=1),
        Stage(name="rewarded", turns=1, sessions=1),
        Stage(name="scored", turns=1, sessions=1),
    )
    assert numbers().failures == (Failure(how="error", turns=1),)


def test_every_turn_that_left_has_a_reason_and_they_add_up() -> None:
    found = numbers()
    assert {*found.reasons} == {
        Reason(reason="top_p", meaning=REASONS["top_p"], turns=1),
        Reason(reason="error", meaning=REASONS["error"], turns=1),
        Reason(reason="no_reward", meaning=NO_REWARD, turns=1),
        Reason(reason="eval", meaning=NOT_MEANT, turns=1),
    }
    first, last = found.stages[0].turns, found.stages[-1].turns
    assert (first, last) == (found.turns, 1)
    assert sum(reason.turns for reason in found.reasons) == 5 - 1


def test_a_rewarded_turn_that_the_trainer_did_not_score_is_waiting() -> None:
    base = small_held()
    whole = frame("rewards", [{"session_id": "s-a", "turn_id": None, "value": 1.0}])
    found = traffic_view(base._replace(rewards=whole), Ask(), no_log).numbers
    assert found.stages[3] == Stage(name="rewarded", turns=2, sessions=1)
    assert Reason(reason="not_used", meaning=NOT_USED, turns=1) in found.reasons


def test_feedback_counts_once_and_what_was_replaced_does_not_stand() -> None:
    found = numbers()
    # f2 came 20 s after its turn ended, f3 58 s after its session's last end: p50 39 s, p95 20 + 0.95 * 38.
    assert found.feedback == Judged(
        judgements=2, replaced=1, good=0, bad=2, sessions=2, delay=Delay(p50_s=39.0, p95_s=56.1, count=2)
    )
    assert found.answered == 2


def test_the_pace_counts_the_turns_begun_in_each_minute() -> None:
    pace = numbers().pace
    assert len(pace) == 30
    # 90 s and 60 s ago are the last but one minute, (120, 60] s ago; 30 s and 20 s ago the last.
    assert pace[-3:] == (0, 2, 2)
    assert sum(pace) == 4


def test_a_session_whose_time_is_ahead_of_the_newest_is_not_active() -> None:
    base = small_held()
    ahead = base._replace(turns=pl.concat([base.turns, frame("turns", [turn("s-ahead", 1, -3600)])]))
    found = [traffic_view(each, Ask(), no_log).numbers for each in (base, ahead)]
    assert [(each.sessions, each.active) for each in found] == [(3, 3), (4, 3)]


@pytest.mark.parametrize("second", [59, 61, 119, 239, 299])
def test_no_turn_of_the_last_five_minutes_is_left_out(second: int) -> None:
    # All began within one minute, and the newest record is of so many seconds after the first.
    turns = [turn("s", number, second - number % 59) for number in range(1, 129)]
    found = traffic_view(held(turns=frame("turns", turns)), Ask(), no_log)
    assert "turns 128, 128 in the 5 min to 11:46:47Z" in plain_traffic(found, 120)[0]


def test_the_first_token_is_measured_where_there_was_one() -> None:
    assert numbers().first_token == Delay(p50_s=0.5, p95_s=0.5, count=4)


def test_tenants_have_their_own_counts() -> None:
    assert numbers().tenants == (
        Tenant(tenant="acme", sessions=2, turns=3, tokens=30, answered=1, trainable=2),
        Tenant(tenant="zeta", sessions=1, turns=2, tokens=10, answered=1, trainable=0),
    )


def test_narrowed_to_an_adapter_only_its_turns_count() -> None:
    base = small_held()
    more = base.turns.vstack(frame("turns", [turn("s-d", 1, 5, adapter="triage", tenant="orbit")]))
    found = traffic_view(base._replace(turns=more), Ask(adapter="triage"), no_log)
    assert found.numbers.feedback is not None
    assert (found.numbers.sessions, found.numbers.turns, found.numbers.feedback.judgements) == (1, 1, 0)
    assert [row.session_id for row in found.rows] == ["s-d"]
    assert traffic_view(base._replace(turns=more), Ask(), no_log).numbers.turns == 6


def test_of_nothing_nothing_is_made_up() -> None:
    found = traffic_view(held(newest_at=None), Ask(), no_log)
    assert found.numbers.feedback is not None
    assert (found.numbers.pace, found.numbers.feedback.delay, found.total) == (
        (),
        Delay(p50_s=None, p95_s=None, count=0),
        0,
    )
    lines = plain_traffic(found, 120)
    assert lines[0] == "sessions 0, n/d active  turns 0, pace n/d  feedback on n/d"
    assert "first token: n/d" in lines
    assert "  recorded         0 turns      0 sessions  n/d" in lines


def test_as_lines_the_way_to_the_trainer_and_every_reason_are_said() -> None:
    lines = plain_traffic(traffic_view(small_held(), Ask(), no_log), 120)
    # Begun 90, 60, 30 and 20 s before the newest record; the fifth two hours before.
    assert lines[0] == "sessions 3, 3 active  turns 5, 4 in the 5 min to 11:46:47Z  feedback on 66.7 %"
    assert lines[1] == "feedback 2 judgements (0 above 0, 2 not, 1 replaced)   delay p50 39s, p95 56s"
    assert "  trainable        2 turns      1 sessions  40.0 %" in lines
    assert f"  1 turns not used: top_p ({REASONS['top_p']})" in lines
    assert f"  1 turns not used: eval ({NOT_MEANT})" in lines
    assert "unfinished turns: error 1   ended by the length limit: 0" in lines
    assert "tenant acme: 2 sessions, 3 turns, 30 tokens sampled, 1 answered, 2 trainable" in lines
    assert lines[-3].startswith("  s-c  refund@3  1 turns")
    assert isinstance(small_held().turns, pl.DataFrame)


LOG = Origin(path="run.jsonl", format="nemo-gym")


def of_log(*turns: dict[str, object], **more: object) -> Numbers:
    """The numbers of a log."""
    content = held(turns=frame("turns", list(turns)), source=LOG, **more)
    return traffic_view(content, Ask(), no_log).numbers


def bare(session: str, **more: object) -> dict[str, object]:
    """A turn of which a log says little."""
    return {"session_id": session, "turn": 1, **more}


def turns_of(found: Numbers) -> dict[str, int | None]:
    return {stage.name: stage.turns for stage in found.stages}


def test_what_a_log_does_not_record_is_not_counted_as_none() -> None:
    found = of_log(bare("a"), bare("b"))
    assert turns_of(found) == {
        "recorded": 2, "complete": None, "trainable": None, "rewarded": None, "scored": None,
    }  # fmt: skip
    assert found.reasons == ()
    assert (found.active, found.feedback, found.answered, found.failures, found.at_limit) == (None,) * 5
    assert found.tenants == (Tenant(tenant="n/d", sessions=2, turns=2, tokens=None, answered=None, trainable=None),)


def test_rewards_of_a_log_count_though_it_does_not_say_which_turns_may_be_trained_on() -> None:
    found = of_log(bare("a", reward=0.0), bare("b", reward=0.0), bare("c"))
    assert turns_of(found) == {
        "recorded": 3, "complete": None, "trainable": None, "rewarded": 2, "scored": None,
    }  # fmt: skip
    assert found.reasons == (Reason(reason="no_reward", meaning=NO_REWARD, turns=1),)


def test_a_log_that_only_says_which_turns_may_not_be_trained_on_does_not_say_how_many_may() -> None:
    found = of_log(bare("a", trainable=False, untrainable_reason="masked", reward=1.0), bare("b", reward=1.0))
    assert turns_of(found)["trainable"] is None
    assert turns_of(found)["rewarded"] == 1
    assert found.reasons == (Reason(reason="masked", meaning=UNKNOWN, turns=1),)


def test_turns_of_an_evaluation_are_recorded_and_not_meant_to_be_trained_on() -> None:
    found = of_log(*[bare(name, purpose="eval", reward=1.0) for name in "abc"])
    assert turns_of(found) == {
        "recorded": 3, "complete": None, "trainable": 0, "rewarded": 0, "scored": 0,
    }  # fmt: skip
    assert found.reasons == (Reason(reason="eval", meaning=NOT_MEANT, turns=3),)


def test_of_a_store_nothing_is_none_and_not_unknown() -> None:
    found = traffic_view(held(turns=frame("turns", [turn("s", 1, 30)])), Ask(), no_log).numbers
    assert turns_of(found) == {"recorded": 1, "complete": 1, "trainable": 1, "rewarded": 0, "scored": 0}
    assert found.answered == 0


def test_what_the_length_limit_ended_is_apart_from_what_did_not_reach_its_end() -> None:
    turns = [
        turn("a", 1, 30, finish_reason="length"),
        turn("b", 1, 30),
        turn("c", 1, 30, complete=False, finish_reason="client_gone"),
    ]
    found = traffic_view(held(turns=frame("turns", turns)), Ask(), no_log)
    assert "unfinished turns: client_gone 1   ended by the length limit: 1" in plain_traffic(found, 120)
