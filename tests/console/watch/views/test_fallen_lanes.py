"""From a lane of held-out evaluation that fell to what training pushed hardest before: no check names a token there."""

from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pytest

from collector.errors import StoreError
from console.watch.held import Held
from console.watch.source.store_source import StoreSource
from console.watch.topic import OpenLog
from console.watch.views.fallen_lanes import FallenLanes
from console.watch.views.first_mover import FirstMover, Mover
from console.watch.views.lane import Lane, Onset
from console.watch.views.most_credit import SHOWN, Learner, MostCredit
from console.watch.views.place import Place
from console.watch.views.signals import SignalsAsk, SignalsBuilder, SignalsView
from tests.console.watch.drill.held_log import held_of, log_of, turn
from tests.console.watch.fake_feed import no_log
from tests.console.watch.sabotaged_store import honest, sabotaged_store

Read = tuple[Held, OpenLog]


def read(store: Path) -> Read:
    """What the store holds, and its log."""
    source = StoreSource(store)
    held = source.poll()
    assert held is not None
    return held, source.log


@pytest.fixture(scope="module")
def sabotaged(tmp_path_factory: pytest.TempPathFactory) -> Read:
    """Two cycles, the second one of lies."""
    return read(sabotaged_store(tmp_path_factory.mktemp("sabotaged") / "store"))


def view_of(held: Held, log: OpenLog) -> SignalsView:
    return SignalsBuilder().build(held, SignalsAsk(), log)


def lane(view: SignalsView, signal: str = "reward_eval_gap") -> Lane:
    return next(each for each in view.lanes if each.signal == signal)


def places(found: tuple[Any, ...]) -> list[tuple[str | None, int | None, int | None]]:
    return [(each.place.session_id, each.place.turn, each.place.token_index) for each in found]


def test_the_lane_that_fell_has_its_onset_and_leads_to_most_credit(sabotaged: Read) -> None:
    fell = lane(view_of(*sabotaged))
    assert fell.onset == Onset(
        first=2,
        last=5,
        rank=1,
        tie=False,
        seen=5,
        part="reward_eval",
        was=20 / 24,
        at="2026-11-01 20:00:05Z",
    )
    # As reward-eval-gap says.
    assert (fell.state, fell.word) == ("warning", None)
    assert fell.lead == "most credit (advantage) of the 12 turns that v2 learned from"
    # The three wrong replies that were praised, 9/11 each; then the nine right ones, -3/11.
    assert places(fell.faults)[:4] == [("c2-09", 1, 0), ("c2-10", 1, 0), ("c2-11", 1, 0), ("c2-00", 1, 0)]
    assert [each.place.value for each in fell.faults] == pytest.approx([9 / 11] * 3 + [-3 / 11] * 9)
    assert [each.text for each in fell.faults[2:4]] == ["reward 1, accept 1", "reward 0, accept 0"]
    assert fell.place == fell.faults[0].place
    assert fell.why.startswith("rew-eval @2–5: held-out 0.83 → 0.21 by v2, refused ┊ reward 0.42 → 0.25 where")


def test_pass_at_k_leads_there_too_and_no_other_lane_is_another(sabotaged: Read) -> None:
    view = view_of(*sabotaged)
    assert lane(view, "pass_at_k").place == lane(view).place
    assert lane(view, "pass_at_k").onset is None
    assert [each.signal for each in view.lanes if each.lead is not None] == ["reward_eval_gap", "pass_at_k"]
    assert [each.signal for each in view.lanes if each.onset is not None] == ["reward_eval_gap"]


def test_of_several_adapters_the_one_that_fell_is_shown_first(sabotaged: Read) -> None:
    held, log = sabotaged
    # Another one with more steps, of which nothing is evaluated.
    more = held.steps.with_columns(pl.lit("zeta").alias("adapter"), pl.col("step") + 100)
    view = view_of(held._replace(steps=pl.concat([held.steps, more])), log)
    assert view.adapter == "a"
    assert {each.adapter: each.moved for each in view.adapters} == {"a": "reward_eval_gap", "zeta": None}


def test_where_nothing_fell_no_log_is_read_and_the_lanes_are_the_same(tmp_path: Path) -> None:
    held, _ = read(sabotaged_store(tmp_path / "store", says=honest, solved=(9, 20, 23)))
    view = view_of(held, no_log)
    assert view.first_mover.falls == ()
    assert [each.lead for each in view.lanes] == [None] * 8
    lanes = tuple(view.lanes)
    assert FallenLanes().of(held, "a", lanes, view.first_mover, no_log) is lanes


def test_tokens_are_read_once_and_what_is_judged_later_is_told(sabotaged: Read) -> None:
    held, log = sabotaged
    calls: list[int] = []

    def counted() -> Any:
        calls.append(1)
        return log()

    builder = SignalsBuilder()
    first = builder.build(held, SignalsAsk(), counted)
    judged = held.feedback.with_columns(value=pl.lit(0.25))
    second = builder.build(held._replace(feedback=judged), SignalsAsk(), counted)
    assert len(calls) == 1
    assert [lane(view).faults[0].text for view in (first, second)] == ["reward 1, accept 1", "reward 1, accept 0.25"]


def test_what_no_check_warns_of_is_said_to_have_fallen_all_the_same(sabotaged: Read) -> None:
    # Without train reward there is no gap to check.
    held, log = sabotaged
    nothing = held.turns.with_columns(reward=pl.lit(None, held.turns.schema["reward"]))
    steps = held.steps.with_columns(reward_mean=pl.lit(None, pl.Float64))
    fell = lane(view_of(held._replace(turns=nothing, steps=steps, rewards=held.rewards.clear()), log))
    assert (fell.status, fell.state, fell.word) == ("no_data", "pending", "FELL")


def test_a_log_that_cannot_be_read_is_said_and_the_screen_stands(sabotaged: Read) -> None:
    def broken() -> Any:
        raise StoreError("the disk is gone")

    fell = lane(view_of(sabotaged[0], broken))
    assert (fell.lead, fell.faults) == ("what v2 learned from cannot be read: the disk is gone", ())
    assert fell.place is not None
    assert (fell.place.session_id, fell.place.step) == (None, 5)


def signal_lane(signal: str, **more: Any) -> Lane:
    return Lane(**{"signal": signal, "label": signal, "state": "warning", "check": signal, "status": "warn",
                   "newest": 1.0, "newest_step": 9, "worst": 1.0} | more)  # fmt: skip


def mover(signal: str, first: int, last: int) -> Mover:
    return Mover(signal=signal, part=signal, first=first, last=last, after=0, rank=1, tie=False, ties_before=False,
                 seen=last, was=1.0, score=9.0)  # fmt: skip


def onset(first: int, last: int, rank: int = 1) -> Onset:
    return Onset(first=first, last=last, rank=rank, tie=False, seen=last, part="reward_eval", was=1.0)


def test_a_lane_that_moved_by_its_baseline_leads_to_what_those_steps_learned(sabotaged: Read) -> None:
    held, log = sabotaged
    lanes = (signal_lane("reward_eval_gap", onset=onset(3, 4), place=Place(step=4)), signal_lane("mfu"))
    moved = FirstMover(movers=(mover("reward_eval_gap", 3, 4),))
    led, other = FallenLanes().of(held, "a", lanes, moved, log)
    # Steps 3 and 4 are two of those that made version 2.
    assert led.lead == "most credit (advantage) of the 12 turns that steps 2–5 learned from"
    assert places(led.faults)[0] == ("c2-09", 1, 0)
    assert (led.onset, other) == (onset(3, 4), lanes[1])


def test_a_lane_whose_check_names_a_token_keeps_it(sabotaged: Read) -> None:
    held, log = sabotaged
    place = Place(session_id="c1-00", turn=1, token_index=2)
    lanes = (signal_lane("pass_at_k", onset=onset(3, 4), place=place),)
    assert FallenLanes().of(held, "a", lanes, FirstMover(movers=(mover("pass_at_k", 3, 4),)), log) == lanes


@pytest.mark.parametrize(("first", "rank", "tie", "others"), [(9, 1, False, 2), (1, 2, False, 1), (4, 1, True, 1)])
def test_a_fall_is_ranked_among_what_moved(sabotaged: Read, first: int, rank: int, tie: bool, others: int) -> None:
    held, log = sabotaged
    falls = view_of(held, log).first_mover.falls
    lanes = (signal_lane("reward_eval_gap"), signal_lane("entropy", onset=onset(first, first)))
    moved = FirstMover(movers=(mover("entropy", first, first),), falls=falls)
    fell, other = FallenLanes().of(held, "a", lanes, moved, log)
    assert fell.onset is not None
    assert other.onset is not None
    assert (fell.onset.rank, fell.onset.tie, other.onset.rank) == (rank, tie, others)
    # What is at fault by its own check stays so.
    assert fell.state == "warning"


IDS = {"prompt_ids": [1], "completion_ids": [5, 6, 7], "sampled_logprobs": [-0.5] * 3, "trainer_logprobs": [-0.5] * 3}


def logged(*turns: dict[str, Any]) -> Read:
    log = log_of([turn(1, adapter="a", **{**IDS, **each}) for each in turns])
    return held_of(log), lambda: log


def of_steps(read: Read, first: int, last: int) -> Any:
    return MostCredit().of(read[0], Learner("a", None, first, last), read[1])


def test_in_a_log_the_steps_say_who_learned_and_the_greatest_advantage_either_way_comes_first() -> None:
    found = of_steps(
        logged(
            {"session_id": "small", "trainer_step": 4, "advantages": [0.5, 0.25, 0.5]},
            {"session_id": "down", "trainer_step": 5, "advantages": [0.5, -2.0, 1.0]},
            {"session_id": "masked", "trainer_step": 5, "advantages": [9.0, 1.0, 1.5], "loss_mask": [0, 1, 1]},
            {"session_id": "broken", "trainer_step": 5, "advantages": [float("nan"), 0.25, float("inf")]},
            {"session_id": "none", "trainer_step": 5, "advantages": [0.0, 0.0, 0.0]},
            {"session_id": "later", "trainer_step": 6, "advantages": [5.0, 5.0, 5.0]},
        ),
        4,
        5,
    )
    assert found.lead == "most credit (advantage) of the 5 turns that steps 4–5 learned from"
    assert places(found.faults) == [("down", 1, 1), ("masked", 1, 2), ("small", 1, 0), ("broken", 1, 1)]
    assert [each.place.value for each in found.faults] == [-2.0, 1.5, 0.5, 0.25]


def test_of_equals_the_longer_turn_comes_first_then_the_name_decides() -> None:
    longer = {"completion_ids": [5] * 4, "sampled_logprobs": [-0.5] * 4, "trainer_logprobs": [-0.5] * 4}
    found = of_steps(
        logged(
            {"session_id": "b", "trainer_step": 4, "advantages": [1.0] * 3},
            {"session_id": "a", "trainer_step": 4, "advantages": [1.0] * 3},
            {"session_id": "c", "trainer_step": 4, "advantages": [1.0] * 4, **longer},
        ),
        4,
        4,
    )
    assert [each.place.session_id for each in found.faults] == ["c", "a", "b"]
    assert found.lead == "most credit (advantage) of the 3 turns that step 4 learned from"


def test_where_no_advantage_is_recorded_that_is_said_and_nothing_is_chosen() -> None:
    found = of_steps(logged({"session_id": "p", "trainer_step": 4}), 4, 5)
    assert (found.lead, found.faults) == ("what steps 4–5 learned from is n/d: no advantage is recorded of them", ())
    found = of_steps(logged({"session_id": "p", "trainer_step": 9, "advantages": [1.0] * 3}), 4, 5)
    assert (found.lead, found.faults) == ("what steps 4–5 learned from is n/d: no turn is recorded as such", ())


def test_so_many_are_listed_and_no_more() -> None:
    rows = [{"session_id": f"s{n:02}", "trainer_step": 4, "advantages": [float(n)] * 3} for n in range(1, 31)]
    found = of_steps(logged(*rows), 4, 4)
    assert len(found.faults) == SHOWN
    assert [each.place.session_id for each in found.faults[:2]] == ["s30", "s29"]
    assert found.lead.startswith("most credit (advantage) of the 30 turns")


def test_a_scoring_of_other_steps_is_not_what_they_learned_by() -> None:
    more = [{"trainer_step": 9, "trainer_version": None, "trainer_logprobs": [-0.5] * 3, "advantages": [7.0] * 3}]
    found = of_steps(logged({"session_id": "p", "trainer_step": 4, "advantages": [1.0] * 3, "more_scores": more}), 4, 5)
    assert [each.place.value for each in found.faults] == [1.0]


def test_a_view_of_it_is_json_and_comes_back(sabotaged: Read) -> None:
    view = view_of(*sabotaged)
    assert msgspec.json.decode(msgspec.json.encode(view), type=SignalsView) == view
