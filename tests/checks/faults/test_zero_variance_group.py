"""Groups that give no gradient, and rewards that are missing or disagree."""

import math
from typing import Any

import numpy as np

from tests.checks.records import check


def group(name: str | None, *rewards: float | None, **fields: Any) -> list[dict[str, Any]]:
    return [
        {"session_id": f"{name}-{fields.get('trainer_step')}-{at}", "group_id": name, "reward": reward} | fields
        for at, reward in enumerate(rewards)
    ]


def test_equal_rewards_are_the_fault_and_the_share_is_of_groups() -> None:
    found = check("zero-variance-group", turns=[*group("a", 1, 1), *group("b", 0, 0), *group("c", 1, 0)])
    assert found.value == 2 / 3
    assert found.status == "warn"
    assert [(each.group_id, each.value) for each in found.evidence] == [("a", 1), ("b", 0)]


def test_the_residue_of_float32_is_no_variance() -> None:
    summed = float(np.float32(0.1) + np.float32(0.2))
    assert check("zero-variance-group", turns=group("a", summed, 0.3, 0.1 + 0.2)).value == 1.0


def test_a_group_of_one_is_counted_apart() -> None:
    found = check("zero-variance-group", turns=[*group("a", 1), *group("b", 1, 0)])
    assert (found.status, found.value) == ("ok", 0.0)
    assert "1 groups have one session" in found.summary


def test_a_session_without_reward_in_a_rewarded_group_warns() -> None:
    found = check("zero-variance-group", turns=group("a", 1, None, 0))
    assert found.status == "warn"
    (missing,) = found.evidence
    assert (missing.group_id, missing.session_id, missing.value) == ("a", "a-None-1", 1)


def test_rewards_of_one_session_that_disagree_fail() -> None:
    turns = [*group("a", 1, 0), {"session_id": "a-None-0", "turn": 2, "reward": 0.0}]
    found = check("zero-variance-group", turns=turns)
    assert found.status == "fail"
    assert found.evidence[0].session_id == "a-None-0"
    assert found.evidence[0].detail == {"lowest": 0.0, "highest": 1.0}


def test_a_reward_that_is_no_finite_number_fails_and_says_so() -> None:
    found = check("zero-variance-group", turns=[*group("a", float("inf"), 1, 0)])
    assert (found.status, found.value) == ("fail", 0.0)
    assert [(each.kind, each.session_id, each.status) for each in found.evidence] == [
        ("not_finite", "a-None-0", "fail"),
        (None, "a-None-0", "warn"),
    ]


def scored(name: str, advantages: list[float], **more: Any) -> dict[str, Any]:
    lists = {"completion_ids": list(range(len(advantages))), "advantages": advantages}
    return {"session_id": name, "group_id": "g", "prompt_ids": [1], **lists} | more


def test_advantages_that_are_no_finite_numbers_fail_at_their_first_token() -> None:
    turns = [scored("a", [0.5, 0.5]), scored("b", [-1.0, math.nan, -math.inf]), scored("c", [])]
    found = check("zero-variance-group", turns=turns)
    assert (found.status, found.value) == ("fail", None), "no reward is needed for that"
    (fault,) = found.evidence
    assert (fault.session_id, fault.turn, fault.token_index, fault.kind, fault.value) == ("b", 1, 1, "not_finite", 2)


def test_advantages_without_loss_or_of_another_length_are_not_judged() -> None:
    masked = scored("a", [0.5, math.nan], loss_mask=[1, 0], reward=1.0)
    short = scored("b", [math.nan, 1.0], reward=0.0) | {"completion_ids": [1, 2, 3]}
    assert check("zero-variance-group", turns=[masked, short]).status == "ok"


def test_a_reward_may_stand_on_any_turn_of_the_session() -> None:
    turns = [
        {"session_id": "a", "group_id": "g"},
        {"session_id": "a", "reward": 1.0},
        {"session_id": "b", "group_id": "g", "reward": 0.0},
    ]
    assert check("zero-variance-group", turns=turns).value == 0.0


def test_the_table_of_rewards_serves_as_well() -> None:
    turns = group("a", None, None)
    rewards = [{"session_id": "a-None-0", "value": 1.0}, {"session_id": "a-None-1", "value": 1.0}]
    assert check("zero-variance-group", turns=turns, rewards=rewards).value == 1.0


def test_a_task_without_groups_is_one_group_per_step() -> None:
    turns = [
        {"session_id": f"{step}{at}", "task_id": "t", "trainer_step": step, "reward": reward}
        for step, rewards in ((1, (0, 0)), (2, (1, 1)))
        for at, reward in enumerate(rewards)
    ]
    found = check("zero-variance-group", turns=turns)
    assert [(each.group_id, each.step) for each in found.evidence] == [("t", 1), ("t", 2)]


def test_evaluation_is_not_training() -> None:
    turns = [*group("a", 1, 1, purpose="eval"), *group("b", 1, 0)]
    assert check("zero-variance-group", turns=turns).value == 0.0


def test_rewards_without_groups_are_no_data() -> None:
    found = check("zero-variance-group", turns=group(None, 1, 0))
    assert (found.status, found.missing) == ("no_data", ("turns.group_id", "turns.task_id"))


def test_rewards_of_single_turns_are_told_from_none() -> None:
    turns = [{"session_id": "s", "turn_id": "t", "group_id": "a"}, {"session_id": "r", "turn_id": "u", "group_id": "a"}]
    rewards = [{"session_id": "s", "turn_id": "t", "value": 1.0}, {"session_id": "r", "turn_id": None, "value": None}]
    found = check("zero-variance-group", turns=turns, rewards=rewards[:1])
    assert (found.status, found.summary) == ("no_data", "every reward is of a single turn, and none of a session")
    assert "single turn" in check("zero-variance-group", turns=turns, rewards=rewards).summary
