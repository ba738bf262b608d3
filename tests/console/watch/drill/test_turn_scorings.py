"""A turn that was scored several times is shown by the scoring that its finding, or its worst weight, is of."""

import math
from typing import Any

import pytest

from checks.measure import Tools
from checks.measures.importance_weights import ImportanceWeights
from checks.suite import CHECKS
from console.watch.trace.session_turns import read_session
from console.watch.trace.turn_scorings import TurnScorings, turn_scorings
from console.watch.views.place import place_of_evidence
from console.watch.views.token import TOPIC as TOKEN
from console.watch.views.token import TokenAsk, TokenView
from console.watch.views.turn import TOPIC as TURN
from console.watch.views.turn import TurnAsk, TurnsView
from tests.console.watch.drill.held_log import held_of, log_of, turn

MU = [-1.0, -1.0, -1.0]


def scored(*scorings: tuple[int, list[float]], **more: Any) -> dict[str, Any]:
    """A turn of three tokens, each with mu -1, under some scorings: step and log pi_old."""
    (step, first), *others = scorings
    row: dict[str, Any] = {
        "prompt_ids": [1, 2],
        "completion_ids": [7, 8, 9],
        "sampled_logprobs": MU,
        "adapter": "bot",
        "trainer_step": step,
        "trainer_logprobs": first,
        "more_scores": [{"adapter": "bot", "trainer_step": at, "trainer_logprobs": old} for at, old in others],
    }
    return turn(**{**row, **more})


def of(row: dict[str, Any]) -> TurnScorings:
    log = log_of([row])
    return turn_scorings(read_session("s", lambda: log, log.table("turns")["turn"]), 0)


def shown(row: dict[str, Any], **asked: Any) -> TokenView:
    log = log_of([row])
    view = TOKEN.build(held_of(log), TokenAsk(session_id="s", turn=1, **asked), lambda: log)
    assert isinstance(view, TokenView)
    return view


TWICE = scored((0, [-1.5, -1.0, -2.5]), (2, [-1.0, -4.0, -1.0]))
"""log w of the first scoring is -0.5, 0 and -1.5; of the second 0, -3 and 0."""


@pytest.mark.parametrize(
    ("asked", "step", "cursor"),
    [
        ({}, 2, 3),
        ({"token_index": 0}, 0, 2),
        ({"token_index": 1}, 2, 3),
        ({"token_index": 2}, 0, 4),
        ({"token_index": 2, "step": 2}, 2, 4),
        ({"token_index": 1, "step": 0}, 0, 3),
        ({"token_index": 1, "step": 77}, 2, 3),
        ({"token_index": 1, "side": "prompt"}, 2, 1),
        ({"token_index": 1, "scoring": 0}, 0, 3),
    ],
)
def test_a_place_leads_to_the_scoring_that_it_is_of(asked: dict[str, Any], step: int, cursor: int) -> None:
    view = shown(TWICE, **asked)
    assert view.chosen is not None
    assert (view.scorings[view.chosen].step, view.cursor) == (step, cursor)


def test_of_a_step_that_two_adapters_scored_it_is_the_one_in_which_the_token_is_farther_off() -> None:
    twice = scored((4, [-1.0, -1.1, -1.0]), (4, [-1.0, -3.0, -1.0]), (4, [-9.0, -1.0, -1.0]))
    assert [of(twice).first(step=4, token=token) for token in (0, 1, None)] == [2, 1, 2]


def test_the_place_of_a_finding_leads_to_the_weight_that_it_tells_of() -> None:
    turns = [scored((0, [-1.0, -1.0, -1.0]), (2, [-1.0, -6.0, -1.0]))]
    log = log_of(turns)
    held = held_of(log)
    check = next(each for each in CHECKS if each.name == "importance-weight")
    finding = check.run((held.tokens.weights, held.versions, held.steps), {})
    place = place_of_evidence(finding.evidence[0])
    assert (place.turn, place.token_index, place.step) == (1, 1, 2)
    view = shown(turns[0], token_index=place.token_index, step=place.step)
    row = view.row(view.cursor)
    assert row is not None
    assert row.w == pytest.approx(place.value)
    assert row.w == pytest.approx(math.exp(-5.0))


def test_the_worst_w_of_a_turn_is_over_all_its_scorings_as_the_check_counts_them() -> None:
    turns = [
        scored((0, [-1.5, -1.0, -2.5]), (2, [-1.0, -4.0, -1.0]), turn=1),
        scored((0, [-1.0, -1.0, -1.2]), (2, [0.0, -1.0, -1.0]), turn=2),
    ]
    log = log_of(turns)
    view = TURN.build(held_of(log), TurnAsk(session_id="s"), lambda: log)
    assert isinstance(view, TurnsView)
    assert [row.worst_w for row in view.rows] == pytest.approx([math.exp(-3.0), math.e])
    # Of turn 1 tokens 2 (log w -1.5, first scoring) and 1 (-3, second); of turn 2 token 0 (+1).
    assert [row.outliers for row in view.rows] == [2, 1]
    measure = ImportanceWeights(Tools())
    for batch in log.batches(("adapter", *measure.turn_columns), measure.score_columns):
        measure.add(batch)
    check = next(each for each in CHECKS if each.name == "importance-weight")
    metrics = check.run((measure.frame(), held_of(log).versions, held_of(log).steps), {}).metrics
    assert metrics["min_w"] == pytest.approx(view.rows[0].worst_w)
    assert metrics["max_w"] == pytest.approx(view.rows[1].worst_w)


@pytest.mark.parametrize(
    "more", [{"loss_mask": [1, 1]}, {"sampled_logprobs": [-1.0, -1.0]}, {"sampled_logprobs": None}]
)
def test_what_the_check_takes_no_ratio_of_has_no_worst_w(more: dict[str, Any]) -> None:
    found = of(scored((0, [-9.0, -1.0, -1.0]), **more))
    assert (found.worst(), found.outliers(), found.first()) == (None, 0, 0)


def test_a_scoring_without_a_ratio_is_passed_over() -> None:
    found = of(scored((0, [-9.0, -1.0]), (2, [-1.0, -1.0, -1.5])))
    assert (found.first(), found.first(token=0), found.first(step=0)) == (1, 1, 0)
    assert found.worst() == pytest.approx(-0.5)


def test_masked_tokens_are_never_the_worst() -> None:
    found = of(scored((0, [-9.0, -1.0, -1.0]), (2, [-1.0, -1.0, -2.0]), loss_mask=[0, 1, 1]))
    assert (found.first(), found.worst(), found.outliers()) == (1, -1.0, 1)


def test_a_weight_that_is_no_number_is_the_worst() -> None:
    found = of(scored((0, [-9.0, -1.0, -1.0]), (2, [-1.0, math.nan, -1.0])))
    assert (found.first(), found.first(token=0)) == (1, 0)
    assert math.isnan(found.worst() or 0.0)


def test_a_turn_that_nobody_scored_has_no_scoring() -> None:
    row = turn(prompt_ids=[1], completion_ids=[7], sampled_logprobs=[-1.0])
    assert (of(row).first(), of(row).worst()) == (None, None)
    assert shown(row).chosen is None
