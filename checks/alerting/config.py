"""Configuration of the alerts: the `[checks.alerts]` section of roundhouse.toml."""

from typing import Literal

import msgspec


class RuleConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[checks.alerts.rules.NAME]`: one rule. A rule with the name of a check changes that check's default rule."""

    check: str | None = None
    """The check whose status it watches; the rule's own name when that is a check's."""
    metric: str | None = None
    """The metric of the report it watches instead, such as `max_w`."""
    status: Literal["warn", "fail"] = "warn"
    """For a check: the status from which it is at fault."""
    above: float | None = None
    """For a metric: at fault when greater."""
    below: float | None = None
    """For a metric: at fault when less."""
    recover_at: float | None = None
    """Second threshold: recovered only from there on; for a check it stands on the good side of the check's own."""
    severity: Literal["warn", "fail"] | None = None
    """How grave it is; the status of the finding when not given, `warn` for a metric."""
    for_evaluations: int | None = None
    """Overrides the general one."""
    for_s: float | None = None
    """Overrides the general one."""
    recover_evaluations: int | None = None
    """Overrides the general one."""
    recover_s: float | None = None
    """Overrides the general one."""
    enabled: bool = True
    """False leaves the rule out."""


class DeliveryConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[checks.alerts.delivery]`: where a notice of each firing, recovered or silent alert is sent."""

    webhook: str | None = None
    """http or https URL that gets the notice as a POST of JSON. Only its host is ever printed."""
    webhook_headers: dict[str, str] = {}
    """Headers to send with it, such as Authorization; never printed."""
    command: list[str] = []
    """A program and its arguments, run without a shell, with the notice as JSON on its standard input."""
    timeout_s: float = 10.0
    """Longest a POST or a command may take."""
    attempts: int = 4
    """How often a POST is tried; a command is run once."""
    backoff_s: float = 1.0
    """Wait before the second try, doubled before each further one."""
    queue_notices: int = 100
    """Notices that wait at most; further ones are dropped and counted."""


class AlertsConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[checks.alerts]`: what is alerted, when, and to whom."""

    interval_s: float = 30.0
    """Between two evaluations of a watched store."""
    window_s: float = 3600.0
    """How far back an evaluation looks; one shorter than the training cycle sees no scores."""
    default_rules: bool = True
    """Whether every check's status has a rule without being named."""
    for_evaluations: int = 2
    """Evaluations in a row at fault before an alert fires."""
    for_s: float = 0.0
    """Seconds at fault before an alert fires."""
    recover_evaluations: int = 2
    """Evaluations in a row beyond the second threshold before an alert has recovered."""
    recover_s: float = 0.0
    """Seconds beyond the second threshold before an alert has recovered."""
    hysteresis: float = 0.1
    """Distance of the second threshold from the first, as a share of it, where a rule names none."""
    gap_s: float = 300.0
    """Pause between two evaluations after which a for-duration starts anew, since nobody looked; three intervals at
    least."""
    incident_window_s: float = 600.0
    """Alerts that began within this time of an incident's first belong to it."""
    rules: dict[str, RuleConfig] = {}
    """`[checks.alerts.rules.NAME]`: a further rule, or with the name of a check a change of its default one. Keys:
    `check` (and `status = "fail"` to leave warnings out) or `metric` (and `above` or `below`); `recover_at`,
    `severity`, `for_evaluations`, `for_s`, `recover_evaluations`, `recover_s`, `enabled`."""
    delivery: DeliveryConfig = DeliveryConfig()
    """`[checks.alerts.delivery]`."""
