"""Version lag, engine mismatch and wrong ids are told apart, by the check's own kinds; else it is unknown."""

import math
from typing import Any

import numpy as np
import pytest

from checks.log import MemoryLog
from checks.measure import Tools
from checks.suite import run, select_checks
from collector.rendering.tokenizer import ChatTokenizer
from console.watch.trace.verdict import Verdict
from console.watch.views.token import TokenAsk, TokenView, topic
from console.watch.views.token_words import why_lines
from tests.collector.published import small_backend
from tests.console.watch.drill.held_log import held_of, log_of, turn

RNG = np.random.default_rng(5)
MU = (-RNG.exponential(1, 120) - 0.01).tolist()
SMALL = Tools(ChatTokenizer(small_backend()))


def near(scale: float, mu: list[float] = MU) -> list[float]:
    return np.minimum(np.array(mu) + RNG.normal(0, scale, len(mu)), -1e-4).tolist()


def scored(number: int, old: list[float], *, lag: int | None, mu: list[float] = MU, **more: Any) -> dict[str, Any]:
    spans = [] if lag is None else [{"version": str(9 - lag), "start": 0, "end": len(mu)}]
    row = {"prompt_ids": [1, 2], "completion_ids": [ord("x")] * len(mu), "sampled_logprobs": mu}
    versions = {"trainer_version": None if lag is None else 9, "weight_versions": spans}
    return turn(number, **{**row, "trainer_logprobs": old, **versions, **more})


def seen(log: MemoryLog, number: int, at: int | None = None, tools: Tools | None = None) -> TokenView:
    tools = tools or Tools()
    ask = TokenAsk(session_id="s", turn=number, token_index=at)
    view = topic(lambda: tools).build(held_of(log, tools), ask, lambda: log)
    assert isinstance(view, TokenView)
    return view


def why(log: MemoryLog, number: int, at: int | None = None, tools: Tools | None = None) -> Verdict:
    view = seen(log, number, at, tools)
    found = view.why(view.cursor)
    assert found is not None
    return found


def kinds_of_the_check(log: MemoryLog) -> dict[tuple[int | None, int | None], str | None]:
    finding = run(log, checks=select_checks(["importance-weight"])).findings[0]
    return {(each.turn, each.token_index): each.kind for each in finding.evidence}


def test_an_old_version_and_a_good_engine_is_version_lag() -> None:
    log = log_of([scored(1, near(1e-3), lag=0), scored(2, near(0.4), lag=3)])
    view = seen(log, 2)
    assert why(log, 2).answer == "version_lag"
    assert kinds_of_the_check(log)[2, view.cursor - view.prompt] == why(log, 2).kind == "stale"


def test_a_difference_under_one_version_is_the_engines() -> None:
    log = log_of([scored(1, near(0.4), lag=0)])
    view = seen(log, 1)
    assert why(log, 1).answer == "engine_mismatch"
    assert kinds_of_the_check(log)[1, view.cursor - view.prompt] == why(log, 1).kind == "mismatch_at_equal_version"
    assert any("same step on both sides: not staleness" in line for line in why_lines(view, view.cursor))


def test_a_span_that_comes_back_as_other_ids_is_wrong_ids_there_and_nowhere_else() -> None:
    """Two added tokens written as letters: encode(decode(ids)) makes one token of each."""
    assert SMALL.tokenizer is not None
    spelled = [SMALL.tokenizer.backend.token_to_id(letter) for letter in "<think>"]
    ids = [ord("x")] * 50 + spelled + [ord("x")] * (len(MU) - 50 - len(spelled))
    old = near(1e-3)
    for at in range(50, 57):
        old[at] = MU[at] - 3.0
    log = log_of([scored(1, near(1e-3), lag=0), scored(2, old, lag=0, completion_ids=ids)])
    found = why(log, 2, 52, SMALL)
    assert found.answer == "wrong_ids"
    assert found.text.startswith(f"recorded {spelled} comes back as [")
    assert why(log, 2, 10, SMALL).answer == "engine_mismatch"  # its turn's mean is beyond the check's limit
    assert why(log, 2, 52).answer == "engine_mismatch"  # without a tokenizer nobody can know


def test_a_span_that_the_next_turn_goes_on_without_is_wrong_ids() -> None:
    first = list(range(100, 220))
    kept = [1, 2, *first[:40]]
    old = near(1e-3)
    for at in range(40, 120):
        old[at] = MU[at] + 2.0 if MU[at] < -2.0 else MU[at] - 2.0
    rows = [
        scored(1, old, lag=0, completion_ids=first),
        scored(2, near(1e-3), lag=0, prompt_ids=[*kept, 7, 8, 9, 10, 11, 12]),
    ]
    found = why(log_of(rows), 1, 80)
    assert (found.answer, found.text) == ("wrong_ids", "turn 2 goes on without them: other at token 42 of its prompt")
    assert why(log_of(rows), 1, 3).answer != "wrong_ids"


def test_a_span_where_weights_are_no_worse_than_elsewhere_explains_nothing() -> None:
    first = list(range(100, 220))
    rows = [
        scored(1, near(0.5), lag=3, completion_ids=first),
        scored(2, near(1e-3), lag=0, prompt_ids=[1, 2, *first[:40], 7, 8, 9, 10, 11, 12]),
    ]
    view = seen(log_of(rows), 1)
    far = next(each for each in view.outliers if each - view.prompt >= 40)
    found = view.why(far)
    assert found is not None
    assert found.answer == "version_lag"


def test_what_the_log_does_not_say_is_unknown() -> None:
    log = log_of([scored(1, near(0.4), lag=None)])
    found = why(log, 1)
    assert (found.answer, found.kind) == ("unknown", None)
    assert found.text == "the log does not say which version sampled and which scored"
    view = seen(log, 1)
    assert any(line.startswith("version lag unknown") for line in why_lines(view, view.cursor))


def test_the_versions_own_score_tells_lag_from_engine() -> None:
    """pi_gen is mu but for rounding, and pi_old has drifted: lag, though no good lag 0 is in the log."""
    log = log_of([scored(1, near(0.4), lag=2, sampling_version_logprobs=near(1e-3))])
    view = seen(log, 1)
    assert why(log, 1).answer == "version_lag"
    assert any("engine" in line and "drift" in line for line in why_lines(view, view.cursor))
    turned = log_of([scored(1, near(1e-3), lag=2, sampling_version_logprobs=near(0.4))])
    assert seen(turned, 1).segments[0].kind == "mismatch_at_equal_version"


def test_a_filled_in_zero_is_the_engines() -> None:
    mu = [*MU[:60], 0.0, *MU[61:]]
    old = [*near(1e-3)[:60], -5.0, *near(1e-3)[61:]]
    log = log_of([scored(1, old, lag=0, mu=mu)])
    found = why(log, 1, 60)
    assert (found.answer, found.kind) == ("engine_mismatch", "zero_padded")
    assert kinds_of_the_check(log)[1, 60] == "zero_padded"


def test_raw_probabilities_at_a_temperature_are_the_engines() -> None:
    log = log_of([scored(1, near(0.4), lag=0, temperature=0.7, logprob_mode="raw")])
    found = why(log, 1)
    assert (found.answer, found.kind) == ("engine_mismatch", "unscaled_temperature")


def test_a_weight_near_one_needs_no_explanation() -> None:
    assert why(log_of([scored(1, near(1e-3), lag=0)]), 1).answer == "within_bounds"


@pytest.mark.parametrize("bad", [math.nan, -math.inf])
def test_a_probability_that_is_no_number_is_said_to_be_none(bad: float) -> None:
    log = log_of([scored(1, near(1e-3), lag=0, mu=[*MU[:5], bad, *MU[6:]])])
    view = seen(log, 1)
    assert view.cursor - view.prompt == 5
    assert why(log, 1).answer == "not_finite"
    row = view.row(view.cursor)
    assert row is not None
    assert (row.finite, row.outlier) == (False, True)


def test_a_weight_too_large_for_a_float_is_infinite_here_too() -> None:
    # log w is 1999.9; e^709.8 is the largest that a float holds.
    log = log_of([scored(1, [*MU[:5], -0.1, *MU[6:]], lag=0, mu=[*MU[:5], -2000.0, *MU[6:]])])
    view = seen(log, 1)
    assert view.cursor - view.prompt == 5
    row = view.row(view.cursor)
    assert row is not None
    assert (row.w, row.log_w, row.finite, row.outlier) == (math.inf, 1999.9, False, True)
    assert why_lines(view, view.cursor)[1].startswith("w inf = exp(pi_old - mu): ")
    # Just below that it is a number.
    log = log_of([scored(1, [*MU[:5], -0.1, *MU[6:]], lag=0, mu=[*MU[:5], -709.5, *MU[6:]])])
    row = seen(log, 1).row(seen(log, 1).cursor)
    assert row is not None
    assert (row.w, row.finite) == (pytest.approx(math.exp(709.4)), True)


def test_without_a_scoring_there_is_no_ratio() -> None:
    log = log_of([turn(1, prompt_ids=[1], completion_ids=[2, 3], sampled_logprobs=[-0.1, -0.2])])
    found = why(log, 1)
    assert (found.answer, found.text) == ("no_ratio", "trainer_logprobs were not logged for it")


def test_kinds_are_told_among_the_tokens_of_the_whole_log() -> None:
    """The session alone has no lag 0; the log has a good one, in another session."""
    other = {**scored(1, near(1e-3), lag=0), "session_id": "other", "turn_id": "other-1"}
    stale = [scored(1, near(0.4), lag=3)]
    bad = {**other, "trainer_logprobs": near(0.6)}
    assert why(log_of([other, *stale]), 1).kind == "stale"
    assert why(log_of([bad, *stale]), 1).kind == "mismatch_at_equal_version"
