"""One cycle with scripted parts: its stages, every way it can end, and that adapters do not disturb each other."""

from pathlib import Path

import pytest

from collector.errors import EngineError, UserError
from collector.records import Route
from tests.trainer.cycle.scripted import BASE, Site, cycle_events, rows, stages
from trainer import adapters
from trainer.cycle.cycle import run_cycle
from trainer.cycle.outcome import CycleOutcome


def cycle(site: Site) -> CycleOutcome:
    return run_cycle(site.setting, "asked for")


def endings(outcome: CycleOutcome) -> dict[str, str]:
    return {each.adapter: each.ending for each in outcome.adapters}


def test_new_feedback_becomes_the_version_that_takes_new_sessions(tmp_path: Path):
    with Site(tmp_path, {"bot": "acme"}) as site:
        site.parts.sessions = {"bot": 3}
        outcome = cycle(site)
        assert endings(outcome) == {"bot": "routed"}
        assert (outcome.cycle, outcome.exit_code) == (1, 0)
        assert site.routed("acme") == [("bot", 1)]
        # Version 0 has no engine name, and nothing of it is left to unload.
        assert site.states("bot") == ["retired", "live"]
        assert site.parts.engine == {"loaded": ["bot@1"], "proved": ["bot@1"]}
    version = site.setting.config.writer
    assert version == "trainer"
    assert stages(tmp_path, "bot") == [
        "collect done",
        "train done",
        "register begun",
        "register done",
        "load begun",
        "load done",
        "prove begun",
        "prove done",
        "evaluate begun",
        "evaluate done",
        "gate begun",
        "gate done",
        "route begun",
        "route done",
        "drain begun",
        "drain done",
        "unload ended",
    ]
    assert [row["kind"] for row in rows(tmp_path, "events") if row["kind"] != "cycle"] == ["proof"]
    assert [(row["adapter"], row["version"]) for row in rows(tmp_path, "evals")] == [("bot", 1), ("bot", 0)]


def test_the_second_cycle_goes_on_from_the_first_and_unloads_it(tmp_path: Path):
    with Site(tmp_path, {"bot": "acme"}) as site:
        site.parts.sessions = {"bot": 3}
        cycle(site)
        outcome = cycle(site)
        assert outcome.cycle == 2
        assert outcome.adapters[0].parent == 1
        versions = site.registry.snapshot().versions
        assert [(each.parent, each.optimizer_step) for each in versions] == [(None, 0), (0, 1), (1, 2)]
        assert site.states("bot") == ["retired", "retired", "live"]
        assert site.parts.engine["loaded"] == ["bot@2"]
        assert site.routed("acme") == [("bot", 2)]


def test_nothing_new_trains_nothing_and_says_so(tmp_path: Path):
    with Site(tmp_path, {"bot": "acme"}) as site:
        outcome = cycle(site)
        assert endings(outcome) == {"bot": "nothing_new"}
        assert outcome.adapters[0].reason == "no session is new"
        assert outcome.exit_code == 0
        assert [call for call, _ in site.parts.calls] == ["collect"]
        assert site.states("bot") == ["live"]
        assert site.routed("acme") == [("bot", 0)]
    [ended] = [row for row in cycle_events(tmp_path) if row["detail"]["state"] == "ended"]
    assert (ended["detail"]["stage"], ended["detail"]["ending"]) == ("collect", "nothing_new")


@pytest.mark.parametrize(
    ("verdict", "ending", "state", "exit_code"),
    [
        ("refuse", "refused", "rejected", 1),
        ("inconclusive", "inconclusive", "candidate", 0),
        ("refuted", "refuted", "rejected", 1),
        ("undecided", "undecided", "candidate", 1),
    ],
)
def test_what_does_not_pass_is_never_routed_and_leaves_the_engine(
    tmp_path: Path, verdict: str, ending: str, state: str, exit_code: int
):
    with Site(tmp_path, {"bot": "acme"}) as site:
        site.parts.sessions = {"bot": 3}
        cycle(site)
        site.parts.verdicts = {"bot": verdict}
        outcome = cycle(site)
        assert endings(outcome) == {"bot": ending}
        assert outcome.exit_code == exit_code
        assert site.states("bot") == ["retired", "live", state]
        assert site.routed("acme") == [("bot", 1)]
        assert site.parts.engine["loaded"] == ["bot@1"]
        # It came to its end: the next cycle leaves it as it is, and a version that goes live ends it for good.
        site.parts.sessions = {}
        assert endings(cycle(site)) == {"bot": "nothing_new"}
        assert site.states("bot") == ["retired", "live", state]
        site.parts.sessions, site.parts.verdicts = {"bot": 3}, {}
        assert endings(cycle(site)) == {"bot": "routed"}
        assert site.states("bot") == ["retired", "retired", "rejected", "live"]
        assert site.registry.snapshot().versions[3].parent == 1


def test_a_held_adapter_is_trained_and_judged_but_not_routed(tmp_path: Path):
    with Site(tmp_path, {"bot": "acme"}) as site:
        site.parts.sessions = {"bot": 3}
        cycle(site)
        adapters.hold(site.registry, "bot", actor="ana", reason="demo today")
        outcome = cycle(site)
        assert endings(outcome) == {"bot": "held"}
        assert "ana holds the adapter: demo today" in outcome.adapters[0].reason
        assert outcome.exit_code == 0
        assert site.states("bot") == ["retired", "live", "candidate"]
        gate = site.registry.snapshot().versions[2].gate
        assert gate is not None
        assert gate["verdict"] == "pass"
        assert site.parts.engine["loaded"] == ["bot@1"]
    assert "route failed" not in stages(tmp_path, "bot")


def test_a_failing_adapter_stops_no_other_one(tmp_path: Path):
    with Site(tmp_path, {"bad": "acme", "good": "beta", "untrained": "gamma"}) as site:
        site.parts.sessions = {"bad": 1, "good": 1, "untrained": 1}
        site.parts.breaks = {("load", "bad"): "out of adapter slots", ("train", "untrained"): "not a number"}
        outcome = cycle(site)
        assert endings(outcome) == {"untrained": "failed", "bad": "failed", "good": "routed"}
        assert outcome.exit_code == 1
        assert {each.adapter: each.reason for each in outcome.adapters}["untrained"] == "not a number"
        assert site.routed("beta") == [("good", 1)]
        assert site.routed("acme") == [("bad", 0)]
        # What failed on the way is taken up again, and finished when the fault is gone.
        site.parts.sessions, site.parts.breaks = {}, {}
        again = cycle(site)
        assert [(each.adapter, each.ending, each.recovered) for each in again.adapters] == [
            ("bad", "routed", True),
            ("bad", "nothing_new", False),
            ("good", "nothing_new", False),
            ("untrained", "nothing_new", False),
        ]
        assert site.routed("acme") == [("bad", 1)]
        assert site.parts.engine["loaded"] == ["bad@1", "good@1"]
    [failed] = [row for row in cycle_events(tmp_path) if row["detail"]["state"] == "failed"]
    assert (failed["adapter"], failed["detail"]["stage"], failed["severity"]) == ("bad", "load", "fail")
    assert failed["detail"]["error"] == "out of adapter slots"


def test_what_cannot_be_collected_for_one_adapter_is_collected_for_the_others(tmp_path: Path):
    with Site(tmp_path, {"bad": "acme", "good": "beta"}) as site:
        site.parts.sessions = {"bad": 1, "good": 1}
        site.parts.breaks = {("collect", "bad"): "adapter_model.safetensors changed after it was written"}
        outcome = cycle(site)
        assert endings(outcome) == {"bad": "failed", "good": "routed"}
        assert outcome.adapters[0].reason == "adapter_model.safetensors changed after it was written"


def test_a_hung_unload_is_left_behind_and_tried_again(tmp_path: Path):
    with Site(tmp_path, {"bot": "acme"}) as site:
        site.parts.sessions = {"bot": 3}
        cycle(site)
        site.parts.hangs = {"bot@1"}
        assert endings(cycle(site)) == {"bot": "routed"}
        assert site.parts.engine["loaded"] == ["bot@1", "bot@2"]
        site.parts.hangs, site.parts.sessions = set(), {}
        cycle(site)
        assert site.parts.engine["loaded"] == ["bot@2"]


def test_nothing_is_unloaded_before_every_collector_follows_the_routes(tmp_path: Path):
    with Site(tmp_path, {"bot": "acme"}) as site:
        site.parts.sessions = {"bot": 3}
        cycle(site)
        site.registry.acknowledge("collector", site.registry.revision())
        assert endings(cycle(site)) == {"bot": "routed"}
        assert site.parts.engine["loaded"] == ["bot@1", "bot@2"]
        drained = [row for row in cycle_events(tmp_path) if row["detail"]["stage"] == "drain"][-1]
        assert drained["detail"]["behind"] == ["collector"]
        assert "collector did not follow" in drained["text"]
        site.registry.acknowledge("collector", site.registry.revision())
        site.parts.sessions = {}
        cycle(site)
        assert site.parts.engine["loaded"] == ["bot@2"]


def test_a_failure_is_not_hidden_by_what_came_after_it_in_the_same_cycle(tmp_path: Path):
    with Site(tmp_path, {"bot": "acme"}) as site:
        site.parts.sessions, site.parts.breaks = {"bot": 1}, {("load", "bot"): "out of adapter slots"}
        cycle(site)
        site.parts.sessions = {}
        # The one left behind fails again, and nothing is new.
        assert [each.ending for each in cycle(site).adapters] == ["failed", "nothing_new"]
    last = cycle_events(tmp_path)[-1]
    assert (last["severity"], last["text"]) == ("warn", "cycle 2 ended: bot failed, bot nothing new")
    assert last["detail"]["endings"] == {"bot": "nothing_new"}


def test_no_cycle_begins_while_the_engine_cannot_be_reached(tmp_path: Path):
    with Site(tmp_path, {"bot": "acme"}) as site:
        site.parts.unreachable = True
        with pytest.raises(EngineError, match="cannot be reached"):
            cycle(site)
        assert site.registry.revision() == 0
    assert cycle_events(tmp_path) == []


def test_an_adapter_of_another_tenant_or_base_model_is_refused_before_anything_is_done(tmp_path: Path):
    with Site(tmp_path, {"bot": "acme"}) as site:
        adapters.add_adapter(site.registry, "bot", tenant="other", base_model=BASE, actor="ana", reason="test")
        with pytest.raises(UserError, match="tenant is 'acme', but it is registered as 'other'"):
            cycle(site)
    with Site(tmp_path, {"second": "acme"}) as site:
        adapters.add_adapter(site.registry, "second", tenant="acme", base_model="big", actor="ana", reason="test")
        with pytest.raises(UserError, match="registered on the base model 'big', but the engine serves 'tiny'"):
            cycle(site)
    assert cycle_events(tmp_path) == []


def test_routes_that_a_tenant_has_are_left_as_they_are_at_registration(tmp_path: Path):
    with Site(tmp_path, {"bot": "acme"}) as site:
        site.registry.replace_routes(
            "acme", [Route(tenant="acme")], expected_revision=0, actor="ana", reason="base model only"
        )
        cycle(site)
        assert site.routed("acme") == [(None, 0)]


def test_waiting_for_the_engine_is_a_wait_span_and_training_is_not(tmp_path: Path):
    with Site(tmp_path, {"bot": "acme"}) as site:
        site.parts.sessions = {"bot": 3}
        cycle(site)
    spans = rows(tmp_path, "spans")
    # load, prove, evaluate, route and drain; version 0 is not in the engine.
    assert [(span["role"], span["kind"], span["adapter"]) for span in spans] == [("trainer", "wait", "bot")] * 5
    assert all(span["from"] <= span["to"] for span in spans)


def test_an_engine_that_was_started_anew_gets_what_is_served_loaded_and_proved_again(tmp_path: Path):
    with Site(tmp_path, {"bot": "acme"}) as site:
        site.parts.sessions = {"bot": 3}
        cycle(site)
        (tmp_path / "engine.json").unlink()
        site.parts.sessions = {}
        assert endings(cycle(site)) == {"bot": "nothing_new"}
        assert site.parts.engine == {"loaded": ["bot@1"], "proved": ["bot@1"]}
        assert site.states("bot") == ["retired", "live"]


def test_every_candidate_is_judged_on_the_next_slice_however_many_cycles_had_none(tmp_path: Path):
    with Site(tmp_path, {"bot": "acme", "other": "beta"}) as site:
        # In turn, as two tenants' feedback may come in: by cycle number each would see one half of its suite only.
        for name in ("bot", "other", "bot", "other"):
            site.parts.sessions = {name: 1}
            cycle(site)
        assert site.parts.slices == [("bot", 0), ("other", 0), ("bot", 1), ("other", 1)]
        # The same candidate again gets no other slice to be lucky on.
        site.parts.sessions, site.parts.breaks = {"bot": 1}, {("judge", "bot"): "the disk is full"}
        cycle(site)
        site.parts.sessions, site.parts.breaks = {}, {}
        assert cycle(site).adapters[0].recovered
        assert site.parts.slices[4:] == [("bot", 2), ("bot", 2)]
