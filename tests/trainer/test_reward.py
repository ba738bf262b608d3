"""Rewards from feedback: what counts, what does not and why, and when the window closes."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from collector.records import Feedback
from trainer.reward import KindMapping, RewardConfig, Rewards, SessionEnd, close_rewards

END = datetime(2026, 1, 1, 12, tzinfo=UTC)
NOW = END + timedelta(hours=2)
TURNS = {"t1": "s", "t2": "s", "u1": "u"}


def judged(name: str, value: float | None = 1.0, *, after_s: float = 60, **changes: Any) -> Feedback:
    fields: dict[str, Any] = {"session_id": "s", "turn_id": None, "kind": "thumb"} | changes
    return Feedback(feedback_id=name, tenant="x", value=value, at=END + timedelta(seconds=after_s), **fields)


def close(*feedback: Feedback, config: RewardConfig | None = None, now: datetime = NOW) -> Rewards:
    sessions = [SessionEnd("s", END), SessionEnd("u", END)]
    return close_rewards(sessions, feedback, TURNS, config or RewardConfig(), now=now)


def values(rewards: Rewards) -> dict[tuple[str, str | None], float | None]:
    return {(each.session_id, each.turn_id): each.value for each in rewards.closed}


def test_a_session_without_feedback_has_no_reward_and_not_zero() -> None:
    assert values(close(judged("f"))) == {("s", None): 1.0, ("u", None): None}


def test_an_open_session_is_not_eligible() -> None:
    rewards = close(judged("f"), now=END + timedelta(minutes=59))
    assert (rewards.closed, rewards.open_sessions) == ((), 2)
    assert close(judged("f"), now=END + timedelta(minutes=60)).open_sessions == 0


def test_feedback_after_the_window_is_late_and_counted() -> None:
    rewards = close(judged("f", after_s=3601))
    assert (values(rewards)["s", None], rewards.ignored["late"]) == (None, 1)


def test_kinds_are_added_and_one_kind_is_averaged() -> None:
    config = RewardConfig(kinds={"thumb": KindMapping(low=-1), "score": KindMapping(weight=2, low=1, high=5)})
    # thumbs -1 and +1 are worth 0 and 1, mean 1/2; a score of 4 of 1..5 is worth 2 * 3/4.
    rewards = close(judged("a", -1), judged("b", 1), judged("c", 4, kind="score"), config=config)
    assert values(rewards)["s", None] == pytest.approx(0.5 + 1.5)
    assert rewards.closed[0].parts == {"thumb": 0.5, "score": 1.5}


def test_the_same_id_counts_once_and_a_superseded_one_not_at_all() -> None:
    rewards = close(judged("a", 0), judged("a", 0), judged("b", 1, supersedes="a"))
    assert values(rewards)["s", None] == 1.0
    assert (rewards.ignored["duplicate"], rewards.ignored["superseded"]) == (1, 1)


def test_a_chain_of_corrections_leaves_the_last() -> None:
    rewards = close(judged("a", 0), judged("b", 0.5, supersedes="a"), judged("c", 0.75, supersedes="b"))
    assert values(rewards)["s", None] == 0.75


def test_feedback_on_a_turn_is_the_turns() -> None:
    rewards = close(judged("a", 1, session_id=None, turn_id="t2"))
    assert values(rewards) == {("s", None): None, ("u", None): None, ("s", "t2"): 1.0}


def test_what_cannot_count_says_why() -> None:
    config = RewardConfig(kinds={"thumb": KindMapping(), "judge": KindMapping(weight=0)})
    rewards = close(
        judged("a", None),
        judged("b", float("nan")),
        judged("c", 1, kind="edit"),
        judged("d", 1, kind="judge"),
        judged("e", 1, session_id="other"),
        judged("f", 1, session_id=None, turn_id="unheard"),
        config=config,
    )
    assert {reason: n for reason, n in rewards.ignored.items() if n} == {
        "no_value": 1,
        "not_finite": 1,
        "kind_left_out": 2,
        "unknown_session": 2,
    }
    assert values(rewards)["s", None] is None


def test_what_is_beyond_float32_does_not_count_and_the_rest_adds_up() -> None:
    rewards = close(judged("a", 1.7e308), judged("b", -1.7e308), judged("c", 3e38), judged("d", 3e38, kind="score"))
    assert (rewards.ignored["not_finite"], values(rewards)["s", None]) == (2, 6e38)
    steep = RewardConfig(kinds={"thumb": KindMapping(low=0, high=5e-324)})
    assert close(judged("a", 1.0), config=steep).ignored["not_finite"] == 1


def test_judgements_that_count_are_counted_by_session() -> None:
    rewards = close(judged("a", 1), judged("b", 0), judged("c", None), judged("d", 1, session_id=None, turn_id="t2"))
    assert rewards.counted == {"s": 3, "u": 0}


def test_the_hash_changes_with_the_mapping_and_with_nothing_else() -> None:
    kinds = {"thumb": KindMapping(), "score": KindMapping(weight=2)}
    backwards = dict(reversed(kinds.items()))
    assert RewardConfig(kinds=kinds).sha256() == RewardConfig(kinds=backwards).sha256()
    assert RewardConfig(kinds=kinds).sha256() != RewardConfig(kinds=kinds | {"score": KindMapping(weight=3)}).sha256()
    assert {each.mapping_sha256 for each in close(judged("a")).closed} == {RewardConfig().sha256()}


def test_a_scale_without_a_width_is_refused() -> None:
    with pytest.raises(ValueError, match=r"kinds.thumb: low 1 and high 1, expected two finite values"):
        RewardConfig(kinds={"thumb": KindMapping(low=1, high=1)})
