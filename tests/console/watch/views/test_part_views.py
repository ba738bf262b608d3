"""What screens say of the newest part of a log: what is so of all of it, and that it is a part."""

from datetime import timedelta

import msgspec

from console.watch.held import Held, Origin
from console.watch.log_part import LogPart
from console.watch.plain.logs import plain_logs
from console.watch.plain.signals import first_mover_text, plain_signals
from console.watch.plain.trajectories import plain_trajectories
from console.watch.topic import Ask
from console.watch.views.head import TOPIC as HEAD
from console.watch.views.head import HeadView
from console.watch.views.logs import TOPIC as LOGS
from console.watch.views.logs import LogsAsk, LogsView
from console.watch.views.part_signals import UNTOLD, topic
from console.watch.views.signals import SignalsAsk, SignalsBuilder, SignalsView
from console.watch.views.trajectories import TOPIC as TRAJECTORIES
from console.watch.views.trajectories import TrajectoriesView
from console.watch.views.trajectory_words import COLUMNS, list_words
from tests.console.watch.drill.held_log import held_of, log_of, turn
from tests.console.watch.fake_feed import NOW, no_log
from tests.console.watch.incident_store import incident

PART = LogPart(turns=3, share=0.25)


def part_of(held: Held) -> Held:
    """The same, as if more stood before it."""
    return held._replace(source=Origin(path="/logs/run", format="native", part=PART))


def some_turns() -> Held:
    """Session `a` from its third turn on, and the whole of `b`."""
    lists = {"prompt_ids": [1, 2], "completion_ids": [3], "trainable": True}
    turns = [turn(number, session_id=name, **lists) for name, number in (("a", 3), ("b", 1), ("a", 4))]
    return held_of(log_of(turns))


def test_a_part_says_its_turns_and_whole_percents_that_never_round_up():
    assert PART.said == "newest 3 turns; reading 25 %"
    assert LogPart(turns=1204, share=0.999).said == "newest 1,204 turns; reading 99 %"
    assert LogPart(turns=1).said == "newest 1 turn; reading"


def test_the_numbers_of_a_session_that_began_before_the_part_are_lower_bounds():
    view = TRAJECTORIES.build(part_of(some_turns()), Ask(), no_log)
    assert isinstance(view, TrajectoriesView)
    assert view.newest_turns == 3
    cells = {row.session_id: {each.key: each.cell(row) for each in COLUMNS} for row in view.rows}
    wanted = ("turns", "tokens", "trainable")
    assert [cells["a"][key] for key in wanted] == ["2+", "2+", "–"]
    assert [cells["b"][key] for key in wanted] == ["1", "1", "1/1"]
    assert list_words(view).startswith("newest part: 2 sessions, 3 turns")
    assert plain_trajectories(view, 120)[0].startswith("newest part: 2 sessions")
    whole = TRAJECTORIES.build(some_turns(), Ask(), no_log)
    assert isinstance(whole, TrajectoriesView)
    assert whole.newest_turns is None
    assert [row.begun_before for row in whole.rows] == [False, False]
    assert list_words(whole).startswith("2 sessions, 3 turns")


def test_the_log_of_a_part_says_so_and_its_json_does():
    events = [{"kind": "retry", "at": NOW - timedelta(seconds=s), "text": f"t{s}"} for s in (2, 1)]
    view = LOGS.build(part_of(held_of(log_of([turn(1)], events=events))), LogsAsk(), no_log)
    assert isinstance(view, LogsView)
    assert [line.text for line in view.rows] == ["t2", "t1"]
    assert plain_logs(view, 120)[0] == "newest part: 2 lines of 2, 0 warn, 0 fail"
    assert msgspec.json.decode(msgspec.json.encode(view))["newest_turns"] == 3


def test_the_head_of_a_part_counts_nothing():
    held = held_of(log_of([turn(1, adapter="bot", base_model="org/qwen")], steps=[{"step": 7, "adapter": "bot"}]))
    some = HEAD.build(part_of(held), Ask(), no_log)
    assert isinstance(some, HeadView)
    assert (some.name, some.base_model, some.adapters, some.step, some.alerts) == ("run", "org/qwen", 0, None, ())
    whole = HEAD.build(held, Ask(), no_log)
    assert isinstance(whole, HeadView)
    assert (whole.adapters, whole.step, whole.newest_turns) == (1, 7, None)


def test_signals_of_a_part_show_single_steps_and_judge_nothing():
    held = incident()
    built = topic()
    whole = SignalsBuilder().build(held, SignalsAsk(), no_log)
    assert whole.first_mover.movers
    view = built.build(part_of(held), SignalsAsk(), no_log)
    assert isinstance(view, SignalsView)
    assert view.newest_turns == 3
    assert (view.first_mover.movers, view.first_mover.steady, view.findings, view.alerts) == ((), (), (), ())
    assert {lane.status for lane in view.lanes} == {lane.state for lane in view.lanes} == {"no_data"}
    assert not any(lane.onset or lane.place or lane.faults or lane.band for lane in view.lanes)
    shown = {lane.signal: lane for lane in view.lanes}
    assert shown["grad_norm"].newest == held.steps.sort("step")["grad_norm"][-1]
    assert first_mover_text(view) == f"newest part: what moved first is {UNTOLD}"
    assert f"alerts: {UNTOLD}" in plain_signals(view, 120)
    # What was made of the part has frozen no ranking.
    assert built.build(held, SignalsAsk(), no_log) == whole


def test_what_a_step_has_of_several_records_is_not_told_of_a_part():
    scored = {"adapter": "bot", "step": 1, "suite": "s", "task_id": "t", "sample": 0, "score": 0.25}
    held = held_of(log_of([turn(1, adapter="bot", trainer_step=1, reward=0.5)], evals=[scored]))
    built = topic()

    def gap(of: Held) -> float | None:
        view = built.build(of, SignalsAsk(), no_log)
        assert isinstance(view, SignalsView)
        return next(lane.newest for lane in view.lanes if lane.signal == "reward_eval_gap")

    assert gap(held) == 0.5 - 0.25
    # Other samples of step 1 may stand before the part.
    assert gap(part_of(held)) is None
