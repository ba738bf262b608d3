"""Row 1: what is watched, its versions, its alerts; and when a step ended."""

from datetime import datetime

from collector.records import Adapter, Version
from collector.store.registry_rows import RegistrySnapshot
from console.watch.topic import Ask
from console.watch.views.head import HeadView, build_head
from console.watch.views.step_time import StepTimeAsk, build_step_time
from tests.console.watch.fake_feed import NOW, held, no_log
from tests.console.watch.incident_store import incident
from tests.console.watch.small_held import ago, frame, small_held


def registry(*versions: Version, adapters: tuple[str, ...] = ("refund",)) -> RegistrySnapshot:
    made = tuple(Adapter(adapter=name, tenant="acme", base_model="qwen3-8b", created_at=NOW) for name in adapters)
    return RegistrySnapshot(revision=1, adapters=made, versions=versions, routes=(), route_revisions={})


def version(number: int, state: str, adapter: str = "refund") -> Version:
    return Version(adapter=adapter, version=number, created_at=NOW, changed_at=NOW, state=state)


def head(base: object, **asked: object) -> HeadView:
    return build_head(base, Ask(**asked), no_log)


def test_of_one_adapter_the_live_version_the_candidate_and_the_step_are_said() -> None:
    found = head(
        small_held()._replace(registry=registry(version(2, "retired"), version(3, "live"), version(4, "canary")))
    )
    assert (found.name, found.adapter, found.adapters) == ("support-agent", "refund", 1)
    assert (found.live, found.candidate, found.step) == (3, 4, 7)


def test_of_several_no_version_is_said_until_one_is_asked_for() -> None:
    base = small_held()._replace(
        registry=registry(version(3, "live"), version(9, "live", "triage"), adapters=("refund", "triage"))
    )
    found = head(base)
    assert (found.adapters, found.adapter, found.live) == (2, None, None)
    found = head(base, adapter="triage")
    assert (found.adapters, found.adapter, found.live, found.candidate, found.step) == (1, "triage", 9, None, None)


def test_of_a_log_the_adapters_are_those_that_its_records_name() -> None:
    found = head(small_held())
    assert (found.adapters, found.adapter, found.live, found.base_model) == (1, "refund", None, None)
    named = small_held()
    turns = named.turns.with_columns(base_model=named.turns["session_id"].replace_strict({"s-c": "new"}, default="old"))
    assert head(named._replace(turns=turns)).base_model == "new"


def test_of_nothing_nothing_is_made_up() -> None:
    found = head(held())
    assert (found.adapters, found.adapter, found.step, found.alerts, found.base_model) == (0, None, None, (), None)


def test_alerts_are_counted_by_state_the_gravest_first() -> None:
    counted = {tally.state: tally.count for tally in head(incident()).alerts}
    assert counted["critical"] >= 1
    assert "ok" not in counted
    assert [*counted] == sorted(
        counted, key=["critical", "acked", "warning", "pending", "recovering", "error", "silenced"].index
    )


def test_a_step_is_found_by_its_number_and_adapter() -> None:
    def at(step: int, adapter: str | None = None) -> datetime | None:
        rows = [
            {"adapter": "a", "step": 7, "at": ago(30)},
            {"adapter": "b", "step": 7, "at": ago(40)},
            {"adapter": "b", "step": 8},
        ]
        return build_step_time(held(steps=frame("steps", rows)), StepTimeAsk(step=step, adapter=adapter), no_log).at

    assert (at(7), at(7, "a"), at(7, "b"), at(8), at(9)) == (ago(40), ago(30), ago(40), None, None)
