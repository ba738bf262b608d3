"""A fall with what else is recorded of it: the gate, and the rewards beside the held-out scores."""

from pathlib import Path

import pytest

from checks.ranking import Move, Ranked
from console.watch.held import Held
from console.watch.source.store_source import StoreSource
from console.watch.views.falls import HELD_OUT, Falls, ToldFall
from tests.checks.test_eval_falls import HIGH, LOW, evals
from tests.console.watch.fake_feed import held
from tests.console.watch.sabotaged_store import honest, sabotaged_store
from tests.console.watch.small_held import frame


def read(store: Path) -> Held:
    """What the store holds."""
    source = StoreSource(store)
    found = source.poll()
    source.close()
    assert found is not None
    return found


@pytest.fixture(scope="module")
def sabotaged(tmp_path_factory: pytest.TempPathFactory) -> Held:
    """Two cycles, the second one of lies."""
    return read(sabotaged_store(tmp_path_factory.mktemp("sabotaged") / "store"))


def only(found: Held) -> ToldFall:
    """The one fall of adapter a."""
    (told,) = Falls().of(found, ())["a"]
    return told


def test_the_version_that_learned_from_lies_fell_and_was_refused(sabotaged: Held) -> None:
    told = only(sabotaged)
    assert (told.fall.version, told.fall.parent, told.fall.first, told.fall.step) == (2, 1, 2, 5)
    assert (told.fall.score.before, told.fall.score.after) == (20 / 24, 5 / 24)
    assert (told.state, told.verdict, told.refused) == ("rejected", "refuse", True)
    assert told.at is not None
    assert told.at.isoformat() == "2026-11-01T20:00:05+00:00"


def test_the_reward_went_against_held_out_between_the_versions_that_earned_it(sabotaged: Held) -> None:
    reward = only(sabotaged).reward
    assert reward is not None
    # 5 of 12 right at first; 9 of 12 right in the second cycle, and the user said the opposite.
    assert (reward.before, reward.after) == pytest.approx((5 / 12, 3 / 12))
    assert (reward.sampler_before, reward.sampler_after) == (0, 1)
    assert reward.held_out is not None
    assert (reward.held_out.before, reward.held_out.after) == (9 / 24, 20 / 24)
    assert reward.against


def test_a_reward_that_rose_as_held_out_did_goes_against_nothing(tmp_path: Path) -> None:
    reward = only(read(sabotaged_store(tmp_path / "store", says=honest))).reward
    assert reward is not None
    assert (reward.before, reward.after) == pytest.approx((5 / 12, 9 / 12))
    assert not reward.against


def test_nothing_fell_where_nothing_did(tmp_path: Path) -> None:
    store = sabotaged_store(tmp_path / "store", says=honest, solved=(9, 20, 23))
    assert Falls().of(read(store), ()) == {}


def test_before_the_evaluation_there_was_no_fall(sabotaged: Held) -> None:
    at = sabotaged.steps["at"].min()
    assert Falls().of(sabotaged.until(at), ()) == {}  # pyright: ignore[reportArgumentType]


def test_where_held_out_has_a_baseline_the_ranking_tells() -> None:
    found = held(evals=frame("evals", evals(HIGH, LOW).to_dicts()))
    assert [*Falls().of(found, (Ranked("a", (), (), (HELD_OUT,)),))] == ["a"]
    assert Falls().of(found, (Ranked("a", (), (HELD_OUT,), ()),)) == {}
    move = Move(HELD_OUT, "reward_eval", 4, 4, 5, 9.0, 0.5)
    assert Falls().of(found, (Ranked("a", (move,), (), ()),)) == {}


def test_of_a_log_without_a_registry_or_rewards_nothing_is_made_up() -> None:
    told = only(held(evals=frame("evals", evals(HIGH, LOW).to_dicts())))
    assert (told.state, told.verdict, told.reward, told.at) == (None, None, None, None)


def test_rewards_of_a_log_are_those_of_the_steps_on_either_side() -> None:
    steps = [{"adapter": "a", "step": step, "reward_mean": step / 8} for step in (1, 2, 3, 4)]
    scores = evals(HIGH, LOW).with_columns(step=evals(HIGH, LOW)["version"] * 2 + 2)
    told = only(held(evals=frame("evals", scores.to_dicts()), steps=frame("steps", steps)))
    assert (told.fall.since, told.fall.step) == (2, 4)
    assert told.reward is not None
    # Steps 1 and 2, then 3 and 4.
    assert (told.reward.before, told.reward.after) == (1.5 / 8, 3.5 / 8)
    assert not told.reward.against
