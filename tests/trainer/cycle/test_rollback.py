"""An alert takes an adapter back: nothing changes before the earlier version is loaded and proved."""

from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from checks.alerting.alert import Alert
from collector.errors import UserError
from collector.records import Event
from tests.trainer.cycle.scripted import Site, cycle_events
from trainer.cycle import publication
from trainer.cycle.cycle import run_cycle, site_of
from trainer.cycle.cycle_log import CycleLog
from trainer.cycle.rollback import Rollbacks, roll_back
from trainer.rollback_config import RollbackConfig
from trainer.rollback_due import RollbackDue


def fire(site: Site, adapter: str = "bot") -> None:
    """An alert about the adapter that began just now."""
    now = datetime.now(UTC)
    alert = Alert(rule="entropy", state="firing", alarming=True, began_at=now, raised_at=now, severity="fail")
    detail = {"alert": msgspec.to_builtins(alert), "check": "entropy"}
    site.write(Event(at=now, kind="alert", adapter=adapter, text="entropy fired", detail=detail))


def two_versions(site: Site) -> Rollbacks:
    """Versions 1 and 2 went live one after the other."""
    site.parts.sessions = {"bot": 1}
    run_cycle(site.setting, "asked for")
    run_cycle(site.setting, "asked for")
    config = msgspec.structs.replace(site.setting.config, rollback=RollbackConfig(on_alerts=("entropy",)))
    return Rollbacks(site.setting._replace(config=config))


def test_a_firing_alert_takes_the_adapter_back_once(tmp_path: Path):
    with Site(tmp_path, {"bot": "acme"}) as site:
        rollbacks = two_versions(site)
        assert rollbacks.look() == []
        fire(site)
        [line] = rollbacks.look()
        assert "bot was rolled back from version 2 to 1, and is held" in line
        assert site.routed("acme") == [("bot", 1)]
        assert site.states("bot") == ["retired", "live", "retired"]
        assert site.parts.engine["loaded"] == ["bot@1"]
        assert site.parts.engine["proved"][-1] == "bot@1"
        assert rollbacks.look() == []
        # A held adapter is trained and judged, but not routed.
        assert [each.ending for each in run_cycle(site.setting, "asked for").adapters] == ["held"]
    assert [row["text"] for row in cycle_events(tmp_path) if row["detail"]["stage"] == "rollback"] != []


def test_nothing_is_rolled_back_to_what_cannot_be_proved(tmp_path: Path):
    with Site(tmp_path, {"bot": "acme"}) as site:
        rollbacks = two_versions(site)
        site.parts.verdicts = {"bot": "refuted"}
        fire(site)
        [line] = rollbacks.look()
        assert "bot should be rolled back to version 1" in line
        assert "version 1 is not proved to be served" in line
        assert site.routed("acme") == [("bot", 2)]
        assert site.states("bot") == ["retired", "retired", "live"]


def test_without_a_setting_no_alert_rolls_anything_back(tmp_path: Path):
    with Site(tmp_path, {"bot": "acme"}) as site:
        two_versions(site)
        fire(site)
        assert Rollbacks(site.setting).look() == []
        assert site.routed("acme") == [("bot", 2)]


def test_an_engine_that_is_down_keeps_a_rollback_waiting_and_the_trainer_alive(tmp_path: Path):
    with Site(tmp_path, {"bot": "acme"}) as site:
        rollbacks = two_versions(site)
        fire(site)
        site.parts.unreachable = True
        [line] = rollbacks.look()
        assert "bot should be rolled back to version 1" in line
        assert "cannot be reached" in line
        assert site.routed("acme") == [("bot", 2)]
        site.parts.unreachable = False
        [line] = rollbacks.look()
        assert "bot was rolled back from version 2 to 1" in line


def test_an_alert_takes_back_no_version_but_the_one_that_it_was_about(tmp_path: Path):
    with Site(tmp_path, {"bot": "acme"}) as site:
        two_versions(site)
        due = RollbackDue("bot", 1, 0, "entropy", "alert entropy fires")
        log = CycleLog(2, site.write, lambda: datetime.now(UTC), actor="trainer")
        with pytest.raises(UserError, match="version 2 is live by now, and the alert was about version 1"):
            roll_back(site_of(site.setting, log), due, [[1, 2, 3]])
        assert site.routed("acme") == [("bot", 2)]


def test_a_rollback_is_done_even_where_nothing_could_be_unloaded_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def broken(*_: object) -> None:
        raise UserError("the registry is locked")

    with Site(tmp_path, {"bot": "acme"}) as site:
        rollbacks = two_versions(site)
        fire(site)
        monkeypatch.setattr(publication, "unload_retired", broken)
        [line] = rollbacks.look()
        assert "bot was rolled back from version 2 to 1, and is held" in line
