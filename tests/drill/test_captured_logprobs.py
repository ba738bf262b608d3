"""Traffic whose log-probabilities are not those of what was sampled makes a candidate that the checks refuse."""

from pathlib import Path

import pytest

from checks.finding import Finding
from tests.drill.captures import at_one
from tests.drill.conftest import OpenLoop
from tests.drill.faulty_engine import Asked
from tests.drill.plant import TOKENS, proofs, routed, states
from tests.drill.whole_loop import Loop


def refused_by_importance_weight(loop: Loop) -> Finding:
    """The candidate is served and scores well: only the check knows."""
    cycle = loop.train()
    assert (cycle.code, cycle.ended["ending"], cycle.ended["version"]) == (1, "refused", 1), cycle.ended["reason"]
    assert proofs(loop.store) == [(1, "proved", "new")]
    assert cycle.not_passed == {"check importance-weight": "refuse"}
    assert routed(loop.store) == [("bot", 0)]
    assert states(loop.store) == ["live", "rejected"]
    assert not loop.served.engine.bank.loaded
    assert loop.next_session() is None
    return loop.found_by("importance-weight")


def kinds(finding: Finding) -> set[str | None]:
    return {each.kind for each in finding.evidence}


@pytest.mark.parametrize("traffic", ["temperature ignored", "unscaled log-probabilities"])
def test_a_wrong_temperature_is_named(over: OpenLoop, captures: dict[str, Path], traffic: str) -> None:
    with over(captures[traffic]) as loop:
        found = refused_by_importance_weight(loop)
        assert found.status == "fail"
        assert kinds(found) == {"unscaled_temperature"}


@pytest.mark.long
def test_an_engine_that_ignores_temperature_still_is_refuted_before_the_gate(
    over: OpenLoop, captures: dict[str, Path]
) -> None:
    with over(captures["temperature ignored"], fault=lambda _: Asked(at_one)) as loop:
        cycle = loop.train()
        assert (cycle.code, cycle.ended["ending"]) == (1, "refuted")
        detail = loop.last_proof()
        assert (detail["scored"]["verdict"], detail["decoded"]["verdict"]) == ("proved", "refuted")
        assert routed(loop.store) == [("bot", 0)]


@pytest.mark.parametrize(("traffic", "turns"), [("zero-padded", 10), ("zero-padded once", 1)])
def test_zero_padded_log_probabilities_are_named(
    over: OpenLoop, captures: dict[str, Path], traffic: str, turns: int
) -> None:
    with over(captures[traffic]) as loop:
        found = refused_by_importance_weight(loop)
        assert found.status == "fail"
        named = [each for each in found.evidence if each.kind == "zero_padded"]
        assert len(named) >= turns
        assert all(each.token_index is not None and each.token_index >= TOKENS // 2 for each in named)
        assert all(each.detail["sampled_logprob"] == 0.0 for each in named)
