"""An alert that fires takes back the version it began under, once, and nothing else."""

from collections.abc import Generator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from checks.alerting.alert import Act, Alert
from checks.alerting.alert_event import alert_event
from checks.alerting.config import AlertsConfig
from checks.alerting.rule import Observation, rules_of
from checks.alerts import Board, advance
from checks.finding import Evidence
from collector.errors import UserError
from collector.records import Event
from collector.store.registry import Registry
from tests.trainer.adapter_lines import WHY, add_bot, add_version, loads
from trainer.adapters import promote, rollback
from trainer.rollback_config import RollbackConfig
from trainer.rollback_due import RollbackDue, refuse_unknown, rollback_due

RULES = rules_of(AlertsConfig(for_evaluations=1, recover_evaluations=1), ["entropy", "staleness"])
ON_ENTROPY = RollbackConfig(on_alerts=("entropy",))


@pytest.fixture
def registry(tmp_path: Path) -> Generator[Registry]:
    """bot@1 is live, after version 0."""
    with Registry(tmp_path) as opened:
        add_bot(opened)
        add_version(opened, tmp_path, 1)
        promote(opened, "bot", 1, load=loads, **WHY)
        yield opened


def alerts(
    levels: Sequence[str],
    *,
    begin: datetime,
    adapter: str | None = "bot",
    version: int | None = None,
    acts: Sequence[Act] = (),
) -> list[Event]:
    """The events of an entropy alert that is evaluated once a minute from `begin` on."""
    board, events = Board(), list[Event]()
    for minute, level in enumerate(levels):
        evidence = Evidence(adapter=adapter, detail={"version": version}) if level == "fail" else None
        seen = Observation(level, 0.01, check="entropy", summary="entropy fell to 0.01", evidence=evidence)  # type: ignore[arg-type]
        at = begin + timedelta(minutes=minute)
        done = [act for act in acts if act.at <= at]
        board, moved = advance(
            board, RULES, {"entropy": seen, "staleness": Observation("good")}, done, at, incident_window_s=60
        )
        events += [alert_event(each, window="1 h", actor="test") for each in moved]
    return events


def after(minutes: float) -> datetime:
    return datetime.now(UTC) + timedelta(minutes=minutes)


def test_a_firing_alert_that_began_after_the_routing_is_due_with_its_text(registry: Registry) -> None:
    events = alerts(["fail", "fail"], begin=after(1))
    due = rollback_due(events, ON_ENTROPY, registry.snapshot(), now=after(3))
    reason = "alert entropy fires: entropy fired; over 1 h: entropy fell to 0.01"
    assert due == ((RollbackDue("bot", 1, 0, "entropy", reason),), ())


def test_an_alert_that_began_before_the_version_was_routed_says_nothing_of_it(registry: Registry) -> None:
    events = alerts(["fail", "fail"], begin=after(-1))
    assert rollback_due(events, ON_ENTROPY, registry.snapshot(), now=after(3)) == ((), ())


@pytest.mark.parametrize("levels", [["good"], ["fail", "good"], ["fail", "no_data"]])
def test_an_alert_that_does_not_fire_now_is_not_due(registry: Registry, levels: list[str]) -> None:
    events = alerts(levels, begin=after(1))
    assert rollback_due(events, ON_ENTROPY, registry.snapshot(), now=after(3)) == ((), ())


def test_nothing_is_due_for_alerts_that_are_not_configured(registry: Registry) -> None:
    events = alerts(["fail"], begin=after(1))
    for config in (RollbackConfig(), RollbackConfig(on_alerts=("staleness",))):
        assert rollback_due(events, config, registry.snapshot(), now=after(3)) == ((), ())


def test_an_alert_is_due_only_after_it_fired_for_long_enough(registry: Registry) -> None:
    begin = after(1)
    events = alerts(["fail"] * 3, begin=begin)
    config = RollbackConfig(on_alerts=("entropy",), after_s=120)
    for passed_s, due in ((119, 0), (120, 1)):
        found = rollback_due(events, config, registry.snapshot(), now=begin + timedelta(seconds=passed_s))
        assert len(found.rollbacks) == due


@pytest.mark.parametrize("kind", ["acknowledge", "silence"])
def test_an_alert_that_a_person_has_in_hand_is_not_due(registry: Registry, kind: str) -> None:
    begin = after(1)
    act = Act(kind, "entropy", begin + timedelta(seconds=30), "ana", begin + timedelta(hours=1))  # type: ignore[arg-type]
    events = alerts(["fail", "fail"], begin=begin, acts=[act])
    assert rollback_due(events, ON_ENTROPY, registry.snapshot(), now=after(3)) == ((), ())


def test_a_check_may_be_named_for_a_rule_of_another_name(registry: Registry) -> None:
    event, _ = alerts(["fail"], begin=after(1))
    assert event.detail is not None
    told = event.detail["alert"]
    alert = msgspec.structs.replace(msgspec.convert(told, Alert), rule="collapse")
    detail = event.detail | {"alert": msgspec.to_builtins(alert)}
    renamed = msgspec.structs.replace(event, detail=detail)
    (due,) = rollback_due([renamed], ON_ENTROPY, registry.snapshot(), now=after(3)).rollbacks
    assert due.rule == "collapse"


def test_a_version_is_rolled_back_once(registry: Registry, tmp_path: Path) -> None:
    events = alerts(["fail"], begin=after(1))
    rollback(registry, "bot", load=loads, **WHY)
    assert rollback_due(events, ON_ENTROPY, registry.snapshot(), now=after(3)).refused[0].reason == (
        "bot@0 is the first live version of bot; there is nothing to go back to"
    )
    rollback(registry, "bot", 1, load=loads, **WHY)
    due = rollback_due(events, ON_ENTROPY, registry.snapshot(), now=after(3))
    assert due.rollbacks == ()
    assert "was rolled back once and a person returned to it" in due.refused[0].reason


def test_an_alert_about_a_candidate_does_not_take_back_what_is_live(registry: Registry) -> None:
    candidate = alerts(["fail", "fail"], begin=after(1), version=2)
    due = rollback_due(candidate, ON_ENTROPY, registry.snapshot(), now=after(3))
    assert due == ((), (("entropy", "it is about bot@2, and sessions go to bot@1"),))
    live = alerts(["fail", "fail"], begin=after(1), version=1)
    assert len(rollback_due(live, ON_ENTROPY, registry.snapshot(), now=after(3)).rollbacks) == 1


def test_without_a_name_the_only_adapter_is_meant_and_of_several_none(registry: Registry) -> None:
    events = alerts(["fail"], begin=after(1), adapter=None)
    assert rollback_due(events, ON_ENTROPY, registry.snapshot(), now=after(3)).rollbacks[0].adapter == "bot"
    add_bot(registry, "cat", "zoo")
    due = rollback_due(events, ON_ENTROPY, registry.snapshot(), now=after(3))
    assert due.rollbacks == ()
    assert due.refused == (("entropy", "it names no adapter, and there are several; look at it and roll back by hand"),)
    events = alerts(["fail"], begin=after(1), adapter="cow")
    (refused,) = rollback_due(events, ON_ENTROPY, registry.snapshot(), now=after(3)).refused
    assert "it names 'cow', which is not registered" in refused.reason


def test_an_alert_that_no_rule_can_raise_is_refused_by_name() -> None:
    refuse_unknown(ON_ENTROPY, RULES)
    with pytest.raises(UserError, match="no alert rule or check 'entropie', expected some of entropy, staleness"):
        refuse_unknown(RollbackConfig(on_alerts=("entropie",)), RULES)
