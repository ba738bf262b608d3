"""Response rates and the weights that undo them, worked by hand."""

import pytest

from trainer.batch.batch_config import BatchConfig
from trainer.batch.response_rate import Answer, length_bucket, propensity_weights, response_rates


def answers(version: str, turns: str, sessions: int, answered: int) -> list[Answer]:
    return [
        Answer(f"{version}.{turns}.{place}", "acme", version, "stop", turns, place < answered)
        for place in range(sessions)
    ]


def test_lengths_are_counted_in_powers_of_two() -> None:
    assert [length_bucket(n) for n in (1, 2, 3, 4, 7, 8, 300)] == ["1", "2-3", "2-3", "4-7", "4-7", "8-15", "256-511"]


def test_a_rate_stands_beside_its_counts() -> None:
    rates = response_rates([*answers("9", "1", 4, 1), *answers("10", "2-3", 2, 2)])
    assert list(rates.version) == ["9", "10"]
    assert {name: (each.sessions, each.answered, each.rate) for name, each in rates.version.items()} == {
        "9": (4, 1, 0.25),
        "10": (2, 2, 1.0),
    }
    assert (rates.tenant["acme"].answered, rates.tenant["acme"].sessions) == (3, 6)
    assert response_rates([]).version == {}


def test_the_weighted_answers_of_each_kind_stand_for_all_its_sessions() -> None:
    given = [*answers("1", "1", 40, 10), *answers("2", "1", 60, 40)]
    weights = propensity_weights(given, BatchConfig(propensity_clip=10))
    # 50 of 100 answer; of version 1 a quarter, of version 2 two thirds.
    assert weights["1.1.0"] == pytest.approx(2.0)
    assert weights["2.1.0"] == pytest.approx(0.75)
    assert sum(weights.values()) == pytest.approx(50), "as many as answered, weighed as the sessions are"
    by_version = {version: sum(w for name, w in weights.items() if name.startswith(version)) for version in "12"}
    assert by_version == pytest.approx({"1": 20, "2": 30})


def test_a_rare_kind_keeps_weight_one_and_no_weight_leaves_the_clip() -> None:
    given = [*answers("1", "1", 200, 2), *answers("2", "1", 200, 200), *answers("3", "1", 29, 1)]
    weights = propensity_weights(given, BatchConfig(propensity_min_sessions=30, propensity_clip=1.5))
    assert (weights["1.1.0"], weights["2.1.0"], weights["3.1.0"]) == (1.5, 1 / 1.5, 1.0)
    assert "1.1.5" not in weights, "who did not answer has no weight"
    assert propensity_weights([], BatchConfig()) == {}
