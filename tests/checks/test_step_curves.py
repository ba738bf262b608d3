"""Curves of the plots: of each adapter, in the order of steps, from tokens where they tell."""

import math
from typing import Any

import polars as pl
import pytest

from checks.finding import Series
from checks.step_curves import step_curves
from tests.checks.records import check


# Any: fields of records.
def curves(name: str, **tables: list[dict[str, Any]]) -> dict[str, tuple[tuple[float, ...], tuple[float | None, ...]]]:
    series = check(name, **tables).series
    return {each.name: (each.x, each.y) for each in series if each.x_label == "step"}


def turn(adapter: str, step: int, log_w: float, **more: Any) -> dict[str, Any]:
    scored = {"sampled_logprobs": [-3.0, -3.0], "trainer_logprobs": [-3.0, log_w - 3.0], "completion_ids": [1, 2]}
    place = {"session_id": f"{adapter}{step}", "adapter": adapter, "adapter_version": step - 2, "trainer_step": step}
    return {**place, **scored, **more}


TURNS = [turn(adapter, step, step / 10 + (adapter == "b")) for step in (2, 1, 3) for adapter in ("b", "a")]


def test_a_curve_is_in_the_order_of_steps_and_one_point_is_none() -> None:
    points = pl.DataFrame({"adapter": ["b", "b", None], "step": [2, 1, 1], "value": [0.2, 0.1, 0.3]})
    assert step_curves(points, "x", "u") == (
        Series(name="x of b", x_label="step", y_label="u", x=(1.0, 2.0), y=(0.1, 0.2)),
    )


def test_max_w_is_a_curve_of_each_adapter() -> None:
    found = curves("importance-weight", turns=TURNS)
    assert set(found) == {"max w of a", "max w of b"}
    for adapter, more in (("a", 0.0), ("b", 1.0)):
        steps, values = found[f"max w of {adapter}"]
        assert steps == (1.0, 2.0, 3.0)
        assert values == pytest.approx([math.exp(step / 10 + more) for step in (1, 2, 3)])


def test_max_w_is_as_the_trainer_logged_it_where_no_token_tells() -> None:
    steps = [{"step": 2, "max_w": 4.0}, {"step": 1, "max_w": 3.0}]
    assert curves("importance-weight", steps=steps) == {"max w": ((1.0, 2.0), (3.0, 4.0))}


def test_staleness_is_a_curve_of_each_adapter() -> None:
    assert curves("staleness", turns=TURNS) == {
        f"mean staleness of {adapter}": ((1.0, 2.0, 3.0), (2.0, 2.0, 2.0)) for adapter in ("a", "b")
    }
    steps = [{"step": step, "staleness_mean": step / 2} for step in (1, 2)]
    assert curves("staleness", steps=steps) == {"mean staleness": ((1.0, 2.0), (0.5, 1.0))}


def test_entropy_is_a_curve_of_each_adapter_from_whichever_source_it_has() -> None:
    turns = [turn("a", step, 0.0, entropies=[0.25, 0.75]) for step in (1, 2)]
    turns += [turn("c", step, 0.0) for step in (1, 2)]
    steps = [{"adapter": "b", "step": step, "entropy": 0.125} for step in (1, 2)]
    assert curves("entropy", turns=turns, steps=steps) == {
        "entropy of a": ((1.0, 2.0), (0.5, 0.5)),
        "entropy of b": ((1.0, 2.0), (0.125, 0.125)),
        "entropy estimate of c": ((1.0, 2.0), (3.0, 3.0)),
    }


def test_rewards_are_curves_by_step_with_or_without_the_other() -> None:
    steps = [{"adapter": name, "step": step, "reward_mean": step / 4} for name in ("a", "b") for step in (1, 2, 3)]
    train = {f"train reward of {name}": ((1.0, 2.0, 3.0), (0.25, 0.5, 0.75)) for name in ("a", "b")}
    assert curves("reward-eval-gap", steps=steps) == train
    evals = [{"adapter": "a", "step": step, "task_id": "t", "score": 0.5} for step in (1, 3)]
    assert curves("reward-eval-gap", steps=steps, evals=evals) == {
        **train,
        "held-out score of a": ((1.0, 3.0), (0.5, 0.5)),
    }
