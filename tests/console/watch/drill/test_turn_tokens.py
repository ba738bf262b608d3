"""Every number of a token is the log's own, and what does not fit together is not shown as if it did."""

import math
import random
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from console.watch.trace.session_turns import SessionTurns, read_session
from console.watch.trace.turn_tokens import Scoring, TurnTokens, turn_tokens
from console.watch.views.token import TOPIC as TOKEN
from console.watch.views.token import TokenAsk, TokenView
from tests.console.watch.drill.held_log import held_of, log_of, turn
from tests.console.watch.fake_feed import NOW


def session(*turns: dict[str, Any]) -> SessionTurns:
    log = log_of([*turns])
    return read_session("s", lambda: log, log.table("turns")["turn"])


def tokens(row: dict[str, Any], **asked: Any) -> TurnTokens:
    return turn_tokens(session(row), 0, **asked)


def sampled(count: int, **more: Any) -> dict[str, Any]:
    row = {"prompt_ids": [1, 2, 3], "completion_ids": list(range(10, 10 + count)), "sampled_logprobs": [-0.5] * count}
    return turn(**{**row, "trainer_logprobs": [-0.25] * count, **more})


def test_w_is_the_exponential_of_the_difference() -> None:
    source = random.Random(1)
    mu = [-source.expovariate(1) for _ in range(200)]
    old = [min(0.0, each + source.gauss(0, 0.5)) for each in mu]
    found = tokens(sampled(200, sampled_logprobs=mu, trainer_logprobs=old)).log_w()
    assert found is not None
    for at in range(200):
        ours, exact = math.exp(found[at]), math.exp(old[at] - mu[at])
        assert abs(ours - exact) <= exact * np.finfo(np.float32).eps


def test_a_list_of_another_length_gives_no_ratio_and_says_so() -> None:
    found = tokens(sampled(4, sampled_logprobs=[-1.0] * 5))
    assert found.mu is None
    assert found.log_w() is None
    assert found.worst() is None
    assert found.outliers().tolist() == []
    assert found.notes == ("sampled_logprobs has 5 entries for 4 tokens: not shown, no ratio",)


def test_tokens_that_the_source_only_counts_are_none() -> None:
    # 16 GB of ids, were every one of them shown.
    spans = [{"version": "3", "start": 0, "end": 2**31 - 1}]
    found = tokens(turn(prompt_ids=[1], completion_ids=None, trainer_logprobs=[-1.0] * 3, weight_versions=spans))
    assert (len(found.completion), len(found.version), found.pi_old) == (0, 0, None)
    assert "the source counts 2,147,483,647 completion tokens, and the log holds none of them" in found.notes


@pytest.mark.parametrize(
    "held", [{"sampled_logprobs": [-1.0] * 3}, {"trainer_logprobs": [-1.0] * 3}, {"loss_mask": [0, 1, 1, 1]}]
)
def test_tokens_without_ids_are_shown_by_what_the_log_says_of_each(held: dict[str, Any]) -> None:
    row = {"prompt_ids": [1], "completion_ids": None, "sampled_logprobs": None, "stated_completion_tokens": 3}
    found = tokens(turn(**row | held))
    assert (found.completion.tolist(), found.notes) == ([-1] * 3, ())


def test_missing_logprobs_are_none() -> None:
    found = tokens(turn(prompt_ids=[1], completion_ids=[2, 3]))
    assert (found.mu, found.pi_old, found.pi_gen, found.entropy, found.counted) == (None, None, None, None, None)
    assert (found.scorings, found.chosen, found.newest, found.notes) == ((), None, None, ())
    assert found.completion.tolist() == [2, 3]


def test_an_empty_completion_has_no_tokens() -> None:
    found = tokens(turn(prompt_ids=[1, 2], completion_ids=[], sampled_logprobs=[], trainer_logprobs=[]))
    assert len(found.completion) == 0
    assert found.worst() is None


def test_nan_is_an_outlier_and_the_worst() -> None:
    found = tokens(sampled(5, sampled_logprobs=[-1.0, math.nan, -1.0, -9.0, -1.0], trainer_logprobs=[-1.0] * 5))
    assert found.worst() == 1
    assert found.outliers().tolist() == [1, 3]
    scored = found.scored()
    assert scored is not None
    assert scored.where is not None
    assert scored.where.tolist() == [0, 2, 3, 4]


def test_a_mask_over_the_completion_or_over_all_leaves_the_same_tokens_out() -> None:
    own = tokens(sampled(4, loss_mask=[1, 0, 1, 0], trainer_logprobs=[-0.5, 5.0, -0.5, 6.0]))
    whole = tokens(sampled(4, loss_mask=[0, 0, 1, 1, 0, 1, 0], trainer_logprobs=[-0.5, 5.0, -0.5, 6.0]))
    for found in (own, whole):
        assert found.counted is not None
        assert found.mask is not None
        assert found.counted.tolist() == [True, False, True, False]
        assert found.mask.tolist() == [1, 0, 1, 0]
        assert found.outliers().tolist() == []
        assert found.worst() == 0
    assert own.prompt_mask is None
    assert whole.prompt_mask is not None
    assert whole.prompt_mask.tolist() == [0, 0, 1]


def test_a_mask_that_fits_neither_is_not_used() -> None:
    found = tokens(sampled(4, loss_mask=[1, 0]))
    assert (found.mask, found.counted) == (None, None)
    assert found.notes == ("loss_mask has 2 entries for 4 tokens",)


def test_spans_say_which_version_sampled_each_token() -> None:
    spans = [{"version": "7", "start": 0, "end": 2}, {"version": "gift", "start": 2, "end": 3}]
    found = tokens(sampled(4, weight_versions=spans))
    unknown = int(np.iinfo(np.int64).min)
    assert found.version.tolist() == [7, 7, unknown, unknown]
    assert [found.labels[int(at)] for at in found.label_of] == ["7", "7", "gift", None]


def test_the_adapters_version_of_dispatch_comes_first() -> None:
    spans = [{"version": "default", "start": 0, "end": 4}]
    found = tokens(sampled(4, adapter="a", adapter_version=3, weight_versions=spans))
    assert found.version.tolist() == [3] * 4


@pytest.fixture
def scored_three_times() -> SessionTurns:
    more = [
        {"adapter": "a", "trainer_step": 14, "trainer_logprobs": [-0.1, -0.1]},
        {"adapter": "b", "trainer_step": 20, "trainer_logprobs": [-0.9, -0.9]},
    ]
    return session(sampled(2, adapter="a", adapter_version=1, trainer_step=12, more_scores=more))


def test_the_first_scoring_is_shown_and_the_newest_of_its_adapter_beside_it(scored_three_times: SessionTurns) -> None:
    found = turn_tokens(scored_three_times, 0)
    assert found.scorings == (Scoring("a", 12, None), Scoring("a", 14, None), Scoring("b", 20, None))
    assert (found.chosen, found.newest) == (0, 1)
    assert found.pi_old is not None
    assert found.pi_now is not None
    assert (found.pi_old.tolist(), found.pi_now.tolist()) == ([-0.25, -0.25], [-0.1, -0.1])


def test_another_scoring_is_shown_with_its_own_numbers(scored_three_times: SessionTurns) -> None:
    found = turn_tokens(scored_three_times, 0, scoring=2)
    assert (found.chosen, found.newest, found.pi_now) == (2, None, None)
    assert found.pi_old is not None
    assert found.pi_old.tolist() == [-0.9, -0.9]


@pytest.mark.parametrize("store", [True, False])
@pytest.mark.parametrize(
    ("after_s", "steps", "entropy"), [(-20, [], None), (-5, [], None), (50, [5], 0.25), (150, [5, 9], 0.5)]
)
def test_a_replay_shows_the_scorings_of_the_steps_of_its_own_adapter_that_had_ended(
    store: bool, after_s: float, steps: list[int], entropy: float | None
) -> None:
    mine: dict[str, Any] = {"prompt_ids": [1], "completion_ids": [2], "sampled_logprobs": [-1.0], "adapter": "a"}
    later = [{"trainer_step": 9, "trainer_version": 8, "trainer_logprobs": [-2.0], "entropies": [0.5]}]
    scored = {"trainer_step": 5, "trainer_version": 4, "trainer_logprobs": [-1.5], "entropies": [0.25]}
    ends = [("b", 50, -10), ("a", 5, 0), ("a", 9, 100)]
    ended = [{"adapter": name, "step": step, "at": NOW + timedelta(seconds=at)} for name, step, at in ends]
    log = log_of([turn(1, **mine, **scored, more_scores=later)], steps=ended)
    then = held_of(log, store=store).until(NOW + timedelta(seconds=after_s))
    view = TOKEN.build(then, TokenAsk(session_id="s", turn=1), lambda: log)
    assert isinstance(view, TokenView)
    assert [each.step for each in view.scorings] == steps
    assert view.rows[-1].entropy == entropy
