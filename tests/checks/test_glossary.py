"""The words of a report: whatever a check says of a recorded fault is in the glossary."""

from pathlib import Path

import pytest

from checks.glossary import ALSO, KINDS, METRICS, SIGNALS, meanings, spelled, words
from checks.readers.open_log import open_log
from checks.suite import CHECKS, Check, run

ROOT = Path(__file__).parents[2]
NAMES = {
    "importance-weight",
    "staleness",
    "stall-time",
    "mfu",
    "reward-eval-gap",
    "pass-at-k",
    "entropy",
    "grad-norm",
    "prefix-break",
    "retokenization-drift",
    "template-mismatch",
    "length-mismatch",
    "loss-mask",
    "truncation",
    "zero-variance-group",
    "feedback",
    "duplicate-prefix",
    "served-adapter",
    "first-mover",
}


def test_every_word_is_of_a_check() -> None:
    named = {*KINDS, *ALSO.values(), *(word.check for word in [*METRICS.values(), *SIGNALS.values()])}
    assert named <= NAMES
    assert len(SIGNALS) == 8


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
@pytest.mark.parametrize("sample", ["fires", "healthy"])
def test_what_a_check_says_is_in_the_glossary(check: Check, sample: str) -> None:
    assert check.name in NAMES
    found = run(open_log(ROOT / "samples" / check.name / f"{sample}.jsonl"), checks=[check]).finding(check.name)
    kinds = {each.kind for each in found.evidence if each.kind is not None}
    assert kinds <= {*KINDS.get(check.name, {}), "not_finite"}
    metrics = {
        name if not name.startswith("pass_at_") or name == "pass_at_1" else "pass_at_k" for name in found.metrics
    }
    assert {METRICS[name].check for name in metrics} <= {check.name}


@pytest.mark.parametrize(("written", "compared"), [("Max W", "max-w"), ("pass_at_1", "pass-at-1"), ("kl_k1", "kl-k1")])
def test_names_are_compared_in_one_spelling(written: str, compared: str) -> None:
    assert spelled(written) == compared
    assert compared in words()


def test_a_kind_of_two_checks_names_both() -> None:
    assert {word.check for word in words()["base-model-served"]} == {"importance-weight", "served-adapter"}


@pytest.mark.parametrize("name", ["pass@8", "pass_at_16", "pass@k", "pass_at_k"])
def test_any_k_is_the_same_metric(name: str) -> None:
    assert {word.check for word in meanings(name)} == {"pass-at-k"}
    assert meanings("pass@") == []
