"""A rule of an alert: what it watches, when that is at fault, and when it is back."""

import math
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from checks.alerting.config import AlertsConfig, RuleConfig
from checks.finding import Evidence, Finding, Number, Status
from checks.glossary import METRICS
from checks.report import Report
from collector.errors import UserError

Level = Literal["no_data", "good", "between", "warn", "fail"]
"""What one evaluation says of a rule; `between` is no longer at fault and not yet back beyond the second threshold."""
Severity = Literal["warn", "fail"]
RANKING = "first-mover"
"""The check that ranks what the others alert on; it has no rule of its own."""


class Rule(NamedTuple):
    """A rule with nothing left open."""

    name: str
    check: str | None
    metric: str | None
    fault_status: Severity
    above: float | None
    below: float | None
    recover_at: float | None
    severity: Severity | None
    hysteresis: float
    for_evaluations: int
    for_s: float
    recover_evaluations: int
    recover_s: float
    gap_s: float


class Observation(NamedTuple):
    """What one evaluation says of one rule."""

    level: Level
    value: Number | None = None
    unit: str = ""
    threshold: float | None = None
    """The threshold that was crossed, or is nearest to be crossed."""
    check: str | None = None
    """The check whose finding it comes from."""
    summary: str = ""
    check_next: tuple[str, ...] = ()
    evidence: Evidence | None = None
    """The first fault."""


def rules_of(config: AlertsConfig, checks: Sequence[str]) -> tuple[Rule, ...]:
    """The default rule of each check and those of the configuration; what cannot be is refused by name."""
    own = dict(config.rules)
    if config.default_rules:
        own = {name: own.pop(name, RuleConfig()) for name in checks if name != RANKING} | own
    _refuse_general(config)
    return tuple(_rule(name, rule, config, checks) for name, rule in own.items() if rule.enabled)


def observe(rule: Rule, report: Report) -> Observation:
    """What a report says of a rule; a check or a metric that is not in it is no data."""
    if rule.metric is not None:
        return _of_metric(rule, report)
    finding = next((each for each in report.findings if each.check == rule.check), None)
    return Observation("no_data", check=rule.check) if finding is None else _of_finding(rule, finding)


def _of_finding(rule: Rule, finding: Finding) -> Observation:
    said = _said(finding)._replace(threshold=_first_threshold(rule, finding))
    if finding.status == "no_data":
        return said._replace(level="no_data", value=None)
    if finding.status == "fail" or (finding.status == "warn" and rule.fault_status == "warn"):
        return said._replace(level=rule.severity or _severity(finding.status))
    if _is_back(finding.value, said.threshold, rule.recover_at, rule.hysteresis):
        return said._replace(level="good")
    return said._replace(level="between")


def _of_metric(rule: Rule, report: Report) -> Observation:
    assert rule.metric is not None
    source = next((each for each in report.findings if rule.metric in each.metrics), None)
    word = METRICS.get(rule.metric) or METRICS["pass_at_k"]
    if source is None:
        return Observation("no_data", check=word.check, summary=f"{rule.metric} was not observed")
    value = source.metrics[rule.metric]
    limit = rule.above if rule.above is not None else rule.below
    assert limit is not None
    sign = 1 if rule.above is not None else -1
    said = _said(source)._replace(value=value, unit="", threshold=limit)
    if math.isnan(value) or sign * value > sign * limit:
        return said._replace(level=rule.severity or "warn")
    back = rule.recover_at if rule.recover_at is not None else limit - sign * rule.hysteresis * abs(limit)
    return said._replace(level="good" if sign * value <= sign * back else "between")


def _said(finding: Finding) -> Observation:
    first = finding.evidence[0] if finding.evidence else None
    return Observation(
        "no_data", finding.value, finding.unit, None, finding.check, finding.summary, finding.check_next, first
    )


def _severity(status: Status) -> Severity:
    return "fail" if status == "fail" else "warn"


def _first_threshold(rule: Rule, finding: Finding) -> float | None:
    """The threshold from which the rule is at fault."""
    if finding.threshold is None:
        return None
    warn, fail = finding.threshold.warn, finding.threshold.fail
    if rule.fault_status == "fail":
        return fail
    if finding.status == "fail" and fail is not None:
        return fail
    return warn if warn is not None else fail


def _is_back(value: float | None, limit: float | None, recover_at: float | None, hysteresis: float) -> bool:
    """Whether a value that crosses no threshold is beyond the second one too.

    Its side of the threshold is the good one, so the distance alone decides.
    """
    if value is None or limit is None or not math.isfinite(limit) or not math.isfinite(value):
        return True
    if recover_at is not None:
        return value <= recover_at if recover_at <= limit else value >= recover_at
    margin = hysteresis * abs(limit)
    return value <= limit - margin or value >= limit + margin


def _rule(name: str, given: RuleConfig, config: AlertsConfig, checks: Sequence[str]) -> Rule:
    where = f"[checks.alerts.rules.{name}]"
    check = given.check or (name if given.metric is None else None)
    if given.metric is not None:
        _refuse_metric(where, given)
    elif check not in checks:
        named = f"check {check!r}" if given.check else f"{name!r} is no check and has no metric"
        raise UserError(f"{where}: {named}; expected check = one of {', '.join(checks)}, or metric = a metric")
    elif given.above is not None or given.below is not None:
        raise UserError(f"{where}: above and below are for a metric; a check has [checks.thresholds.{check}]")
    rule = Rule(
        name=name,
        check=check,
        metric=given.metric,
        fault_status=given.status,
        above=given.above,
        below=given.below,
        recover_at=given.recover_at,
        severity=given.severity,
        hysteresis=config.hysteresis,
        for_evaluations=config.for_evaluations if given.for_evaluations is None else given.for_evaluations,
        for_s=config.for_s if given.for_s is None else given.for_s,
        recover_evaluations=config.recover_evaluations
        if given.recover_evaluations is None
        else given.recover_evaluations,
        recover_s=config.recover_s if given.recover_s is None else given.recover_s,
        gap_s=max(config.gap_s, 3 * config.interval_s),
    )
    durations = {each: getattr(rule, each) for each in ("for_evaluations", "for_s", "recover_evaluations", "recover_s")}
    _refuse_negative(where, durations)
    return rule


def _refuse_metric(where: str, given: RuleConfig) -> None:
    metric = given.metric or ""
    if given.check is not None:
        raise UserError(f"{where}: check and metric are both given, expected one")
    numbered = metric.removeprefix("pass_at_").isdecimal()
    if metric not in METRICS and not numbered:
        raise UserError(f"{where}: no metric {metric!r}, expected one of {', '.join(METRICS)}")
    if (given.above is None) == (given.below is None):
        raise UserError(f"{where}: expected one of above and below with metric = {metric!r}")
    limit, back = given.above if given.above is not None else given.below, given.recover_at
    if limit is None or math.isnan(limit) or (back is not None and math.isnan(back)):
        raise UserError(f"{where}: a threshold is nan, expected a number")
    if back is not None and (back > limit if given.above is not None else back < limit):
        side = f"at most {limit}" if given.above is not None else f"at least {limit}"
        raise UserError(f"{where} recover_at is {back}, expected {side}: the good side of the threshold")


def _refuse_general(config: AlertsConfig) -> None:
    whole = ("hysteresis", "gap_s", "incident_window_s", "for_evaluations", "for_s", "recover_evaluations", "recover_s")
    _refuse_negative("[checks.alerts]", {name: getattr(config, name) for name in whole})
    for name in ("interval_s", "window_s"):
        if not 0 < getattr(config, name) < math.inf:
            raise UserError(f"[checks.alerts] {name} is {getattr(config, name)}, expected a number of seconds above 0")


def _refuse_negative(where: str, numbers: Mapping[str, float]) -> None:
    for name, number in numbers.items():
        if not 0 <= number < math.inf:
            raise UserError(f"{where} {name} is {number}, expected a number from 0; remove it for the default")
