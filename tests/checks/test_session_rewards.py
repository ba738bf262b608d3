"""One reward per session, from turns and the table of rewards."""

from datetime import UTC, datetime
from typing import Any

import polars as pl

from checks.columns import completed, empty
from checks.session_rewards import session_rewards


def found(turns: dict[str, list[object]], rewards: dict[str, list[object]] | None = None) -> dict[str, Any]:
    table = completed(pl.DataFrame(rewards), "rewards") if rewards else empty("rewards")
    frame = session_rewards(completed(pl.DataFrame(turns), "turns"), table)
    return {row["session_id"]: row for row in frame.iter_rows(named=True)}


def test_a_reward_may_stand_on_any_turn() -> None:
    rows = found({"session_id": ["a", "a", "b"], "reward": [None, 1.0, None]})
    assert (rows["a"]["reward"], rows["b"]["reward"]) == (1.0, None)


def test_rewards_of_one_session_that_disagree_leave_it_without() -> None:
    row = found({"session_id": ["a", "a"], "reward": [1.0, 0.0]})["a"]
    assert (row["reward"], row["disagrees"], row["lowest"], row["highest"]) == (None, True, 0.0, 1.0)


def test_the_same_reward_in_float32_does_not_disagree() -> None:
    row = found({"session_id": ["a"], "reward": [0.3]}, {"session_id": ["a"], "value": [0.30000001192092896]})["a"]
    assert not row["disagrees"]
    assert row["reward"] is not None


def test_the_table_of_rewards_is_read_beside_the_turns() -> None:
    rows = found({"session_id": ["a", "b"], "reward": [None, 1.0]}, {"session_id": ["a", "b"], "value": [0.5, 0.0]})
    assert (rows["a"]["reward"], rows["b"]["disagrees"]) == (0.5, True)


def test_a_reward_of_one_turn_is_not_the_sessions() -> None:
    rows = found({"session_id": ["a"]}, {"session_id": ["a"], "turn_id": ["t"], "value": [1.0]})
    assert rows["a"]["reward"] is None


def test_a_nan_is_not_a_reward() -> None:
    row = found({"session_id": ["a"], "reward": [float("nan")]})["a"]
    assert (row["reward"], row["not_finite"]) == (None, True)


def test_turns_of_evaluation_give_no_training_reward() -> None:
    rows = found({"session_id": ["a", "b"], "purpose": ["eval", "canary"], "reward": [1.0, 1.0]})
    assert list(rows) == ["b"]


def test_of_a_session_that_closed_twice_the_later_reward_counts() -> None:
    closed = [datetime(2026, 1, 2, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)]
    rows = found({"session_id": ["a"]}, {"session_id": ["a", "a"], "value": [0.25, 1.0], "closed_at": closed})
    assert (rows["a"]["reward"], rows["a"]["disagrees"]) == (0.25, False)


def test_rewards_that_closed_together_still_disagree() -> None:
    closed = [datetime(2026, 1, 1, tzinfo=UTC)] * 2
    row = found({"session_id": ["a"]}, {"session_id": ["a", "a"], "value": [0.25, 1.0], "closed_at": closed})["a"]
    assert row["disagrees"]
