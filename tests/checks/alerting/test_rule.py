"""Rules: defaults of the checks, metrics with two thresholds, and what a configuration may not say."""

import math
from typing import Any

import pytest

from checks.alerting.config import AlertsConfig, RuleConfig
from checks.alerting.rule import Rule, observe, rules_of
from checks.finding import Evidence, Finding, Status, Threshold
from checks.log import Source
from checks.report import Counts, Report
from collector.errors import UserError


def report(*findings: Finding) -> Report:
    """A report of these findings."""
    counts = Counts(turns=1, sessions=1, tokens=1)
    return Report(source=Source(path="store", format="native"), counts=counts, findings=findings)


def found(status: Status, value: float | None = None, warn: float | None = None, fail: float | None = None) -> Report:
    """A report of one finding of the check c."""
    threshold = Threshold(warn=warn, fail=fail)
    metrics = {} if value is None else {"max_w": value}
    first = Evidence(session_id="s", turn=3)
    return report(
        Finding(
            check="c",
            status=status,
            value=value,
            threshold=threshold,
            summary="said",
            evidence=(first,),
            metrics=metrics,
        )
    )


def only(checks: tuple[str, ...] = (), **rules: RuleConfig) -> Rule:
    """The one rule of a configuration."""
    (rule,) = rules_of(AlertsConfig(rules=rules, default_rules=bool(checks)), checks)
    return rule


@pytest.mark.parametrize(
    ("status", "value", "level"),
    [
        ("fail", 9.0, "fail"),
        ("warn", 5.0, "warn"),
        # The second threshold is a tenth of the first away from it: 4 - 0.4.
        ("ok", 4.0, "between"),
        ("ok", 3.7, "between"),
        ("ok", 3.6, "good"),
        ("info", 3.0, "good"),
        ("no_data", None, "no_data"),
        ("ok", None, "good"),
    ],
)
def test_a_check_is_at_fault_as_its_status_says_and_back_beyond_the_second_threshold(
    status: Status, value: float | None, level: str
) -> None:
    assert observe(only(("c",)), found(status, value, warn=4.0, fail=8.0)).level == level


@pytest.mark.parametrize(("value", "level"), [(0.5, "between"), (0.54, "between"), (0.56, "good")])
def test_the_good_side_of_a_threshold_may_be_above_it(value: float, level: str) -> None:
    # ESS and mfu warn below: 0.5 warns at less, and the second threshold is 0.55.
    assert observe(only(("c",)), found("ok", value, warn=0.5, fail=0.3)).level == level


def test_a_threshold_of_zero_or_none_has_no_second_one() -> None:
    assert observe(only(("c",)), found("ok", 0, warn=0, fail=0)).level == "good"
    assert observe(only(("c",)), found("ok", 7.0)).level == "good"
    assert observe(only(("c",)), found("ok", 7.0, warn=math.inf, fail=math.inf)).level == "good"


def test_a_check_may_have_a_second_threshold_of_its_own() -> None:
    lower = only(("c",), c=RuleConfig(recover_at=2.0))
    assert [observe(lower, found("ok", value, warn=4.0)).level for value in (2.1, 2.0)] == ["between", "good"]
    upper = only(("c",), c=RuleConfig(recover_at=0.9))
    assert [observe(upper, found("ok", value, warn=0.5)).level for value in (0.8, 0.9)] == ["between", "good"]


def test_a_rule_may_leave_warnings_out() -> None:
    grave = only(("c",), c=RuleConfig(status="fail"))
    assert observe(grave, found("fail", 9.0, 4.0, 8.0)).level == "fail"
    assert observe(grave, found("warn", 7.5, 4.0, 8.0)).level == "between", "8 - 0.8 is the second threshold"
    assert observe(grave, found("warn", 7.0, 4.0, 8.0)).level == "good"
    mild = only(("c",), c=RuleConfig(severity="warn"))
    assert observe(mild, found("fail", 9.0, 4.0, 8.0)).level == "warn"


def test_an_observation_names_the_number_its_threshold_and_the_first_place() -> None:
    failed = observe(only(("c",)), found("fail", 9.0, 4.0, 8.0))
    assert (failed.value, failed.threshold, failed.summary) == (9.0, 8.0, "said")
    assert failed.evidence == Evidence(session_id="s", turn=3)
    assert observe(only(("c",)), found("warn", 5.0, 4.0, 8.0)).threshold == 4.0


@pytest.mark.parametrize(
    ("limits", "value", "level"),
    [
        ({"above": 5.0, "recover_at": 3.0}, 5.1, "warn"),
        ({"above": 5.0, "recover_at": 3.0}, 5.0, "between"),
        ({"above": 5.0, "recover_at": 3.0}, 3.0, "good"),
        ({"above": 5.0}, 4.6, "between"),
        ({"above": 5.0}, 4.5, "good"),
        ({"below": 5.0}, 4.9, "warn"),
        ({"below": 5.0}, 5.4, "between"),
        ({"below": 5.0}, 5.5, "good"),
        ({"below": -5.0}, -4.6, "between"),
        ({"below": -5.0}, -4.5, "good"),
        ({"above": 5.0, "severity": "fail"}, math.inf, "fail"),
        ({"above": 5.0}, math.nan, "warn"),
        ({"below": 5.0}, math.nan, "warn"),
        ({"above": 5.0}, None, "no_data"),
    ],
)
def test_a_metric_has_two_thresholds(limits: dict[str, Any], value: float | None, level: str) -> None:
    seen = observe(only(m=RuleConfig(metric="max_w", **limits)), found("ok", value))
    assert seen.level == level
    if value is not None:
        assert seen.evidence == Evidence(session_id="s", turn=3)


def test_a_check_that_was_not_run_is_no_data() -> None:
    assert observe(only(("c",)), report()).level == "no_data"


def test_every_check_has_a_rule_unless_it_is_turned_off_or_ranks_the_others() -> None:
    names = ("a", "first-mover", "b")
    assert [rule.name for rule in rules_of(AlertsConfig(), names)] == ["a", "b"]
    own = {"b": RuleConfig(enabled=False), "a": RuleConfig(for_evaluations=7), "w": RuleConfig(metric="ess", below=0.1)}
    changed = rules_of(AlertsConfig(rules=own), names)
    assert [(rule.name, rule.for_evaluations) for rule in changed] == [("a", 7), ("w", 2)]
    assert rules_of(AlertsConfig(default_rules=False), names) == ()


def test_a_slow_interval_is_no_gap() -> None:
    assert rules_of(AlertsConfig(interval_s=200.0), ("a",))[0].gap_s == 600.0
    assert rules_of(AlertsConfig(), ("a",))[0].gap_s == 300.0


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        (RuleConfig(), "'r' is no check and has no metric; expected check = one of c, or metric = a metric"),
        (RuleConfig(check="nope"), "check 'nope'; expected check = one of c"),
        (RuleConfig(metric="max_ww", above=1), "no metric 'max_ww', expected one of max_w"),
        (RuleConfig(metric="pass_at_x", above=1), "no metric 'pass_at_x'"),
        (RuleConfig(metric="max_w"), "expected one of above and below"),
        (RuleConfig(metric="max_w", above=1, below=0), "expected one of above and below"),
        (RuleConfig(metric="max_w", check="c", above=1), "check and metric are both given"),
        (RuleConfig(metric="max_w", above=math.nan), "a threshold is nan"),
        (RuleConfig(metric="max_w", above=1, recover_at=2), "recover_at is 2, expected at most 1"),
        (RuleConfig(metric="ess", below=1, recover_at=0), "recover_at is 0, expected at least 1"),
        (RuleConfig(check="c", above=1), r"above and below are for a metric; a check has \[checks.thresholds.c\]"),
        (RuleConfig(check="c", for_s=-1), "for_s is -1, expected a number from 0"),
        (RuleConfig(check="c", for_s=math.nan), "for_s is nan"),
    ],
)
def test_what_cannot_be_a_rule_is_refused_by_name(rule: RuleConfig, said: str) -> None:
    with pytest.raises(UserError, match=rf"\[checks.alerts.rules.r\].*{said}"):
        rules_of(AlertsConfig(rules={"r": rule}), ["c"])


@pytest.mark.parametrize(
    "change", [{"interval_s": 0.0}, {"window_s": math.inf}, {"hysteresis": -1.0}, {"gap_s": math.nan}]
)
def test_a_general_setting_out_of_range_is_refused(change: dict[str, float]) -> None:
    (name,) = change
    with pytest.raises(UserError, match=rf"\[checks.alerts\] {name} is "):
        rules_of(AlertsConfig(**change), [])


def test_pass_at_any_k_is_a_metric() -> None:
    assert only(p=RuleConfig(metric="pass_at_16", below=0.5)).metric == "pass_at_16"
