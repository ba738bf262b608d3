"""Configuration of the checks: the `[checks]` section of roundhouse.toml."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from checks.alerting.config import AlertsConfig
from collector.errors import UserError

if TYPE_CHECKING:
    from checks.check import Check


class ChecksConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What may be set about the checks."""

    thresholds: dict[str, dict[str, float]] = {}
    """`[checks.thresholds.NAME]`: thresholds of that check; see `roundhouse explain NAME`; `inf` turns one off."""
    alerts: AlertsConfig = AlertsConfig()
    """`[checks.alerts]`."""


def own_thresholds(config: ChecksConfig, checks: Sequence["Check"]) -> Mapping[str, Mapping[str, float]]:
    """Check to threshold to value, as `suite.run` takes it; what no check has is refused by name."""
    defaults = {check.name: check.thresholds for check in checks}
    for name, values in config.thresholds.items():
        if name not in defaults:
            raise UserError(f"[checks.thresholds.{name}]: no check {name!r}, expected some of {', '.join(defaults)}")
        for threshold, value in values.items():
            _refuse_unknown(name, threshold, value, defaults[name])
    return {
        name: {threshold: _typed(value, defaults[name][threshold]) for threshold, value in values.items()}
        for name, values in config.thresholds.items()
    }


def _refuse_unknown(check: str, threshold: str, value: float, defaults: Mapping[str, object]) -> None:
    where = f"[checks.thresholds.{check}] {threshold}"
    if threshold not in defaults:
        raise UserError(f"{where}: no such threshold, expected some of {', '.join(defaults) or 'none'}")
    if math.isnan(value):
        raise UserError(f"{where} is nan, expected a number; inf is one that is never exceeded")
    if isinstance(defaults[threshold], int) and not float(value).is_integer():
        raise UserError(f"{where} is {value}, expected a whole number; remove it for {defaults[threshold]}")


def _typed(value: float, default: object) -> float:
    return int(value) if isinstance(default, int) else value
