"""What others do while a candidate is judged: a person's word stands, and only what was compared is replaced."""

from collections.abc import Callable
from pathlib import Path

import pytest

from collector.errors import EngineError, UserError
from tests.trainer.cycle.scripted import Site, cycle_events
from trainer import adapters
from trainer.cycle.cycle import run_cycle
from trainer.cycle.outcome import AdapterOutcome


def meanwhile(tmp_path: Path, at: str, act: Callable[[Site], object]) -> tuple[Site, AdapterOutcome]:
    """Version 1 is live, version 2 is being judged, and `act` happens once after the call of that name."""
    armed: list[str] = []

    def point(what: str) -> None:
        if armed and what == armed[0]:
            armed.clear()
            act(site)

    site = Site(tmp_path, {"bot": "acme"}, point=point)
    site.parts.sessions = {"bot": 3}
    run_cycle(site.setting, "asked for")
    armed.append(at)
    [outcome] = run_cycle(site.setting, "asked for").adapters
    return site, outcome


def served(_: object) -> None:
    """A person has seen to it."""


def other_version(site: Site) -> None:
    """A person promotes version 3, which nobody has compared version 2 with."""
    folder = site.store / "adapters" / "bot" / "by-hand"
    folder.mkdir()
    site.registry.register_version(
        "bot",
        3,
        parent=1,
        optimizer_step=9,
        folder="adapters/bot/by-hand",
        sha256="6" * 64,
        trained_on=[],
        actor="ana",
        reason="by hand",
    )
    adapters.promote(site.registry, "bot", 3, load=served, actor="ana", reason="better", force=True)


@pytest.mark.parametrize("at", ["train", "evaluate", "judge"])
def test_a_candidate_does_not_replace_what_went_live_while_it_was_judged(tmp_path: Path, at: str):
    def act(site: Site) -> None:
        if at == "train":
            adapters.rollback(site.registry, "bot", 0, load=served, actor="ana", reason="bad")
            adapters.release(site.registry, "bot", actor="ana", reason="go on")
        else:
            other_version(site)

    site, outcome = meanwhile(tmp_path, at, act)
    with site:
        assert outcome.ending == "superseded"
        assert "trained from version 1, and version" in outcome.reason
        assert site.routed("acme") == [("bot", 0 if at == "train" else 3)]
        assert site.states("bot")[2] == "rejected"


def test_a_candidate_that_a_person_tries_as_a_canary_meanwhile_stays_loaded_and_one(tmp_path: Path):
    def act(site: Site) -> None:
        adapters.canary(site.registry, "bot", 2, 0.1, load=served, actor="ana", reason="curious", force=True)

    site, outcome = meanwhile(tmp_path, "judge", act)
    with site:
        assert outcome.ending == "held"
        assert site.states("bot")[2] == "canary"
        assert site.parts.engine["loaded"] == ["bot@1", "bot@2"]
        assert site.routed("acme") == [("bot", 1), ("bot", 2)]


@pytest.mark.parametrize("at", ["evaluate", "judge"])
def test_a_candidate_that_a_person_promotes_meanwhile_stays_live(tmp_path: Path, at: str):
    def act(site: Site) -> None:
        adapters.promote(site.registry, "bot", 2, load=served, actor="ana", reason="now", force=True)

    site, outcome = meanwhile(tmp_path, at, act)
    with site:
        assert outcome.ending == "routed"
        assert "promoted while it was judged" in outcome.reason
        assert site.routed("acme") == [("bot", 2)]
        assert "bot@2" in site.parts.engine["loaded"]


def test_a_candidate_is_judged_again_where_another_version_was_pinned_meanwhile(tmp_path: Path):
    site, outcome = meanwhile(
        tmp_path, "judge", lambda site: adapters.pin(site.registry, "bot", 0, actor="ana", reason="the best")
    )
    with site:
        assert outcome.ending == "failed"
        assert "judges it again" in outcome.reason
        assert site.routed("acme") == [("bot", 1)]
        site.parts.sessions = {}
        again = run_cycle(site.setting, "asked for").adapters
        assert [(each.ending, each.recovered) for each in again] == [("routed", True), ("nothing_new", False)]


def test_nothing_is_routed_to_that_an_engine_forgot_after_its_proof(tmp_path: Path):
    site, outcome = meanwhile(tmp_path, "judge", lambda site: (site.store / "engine.json").unlink())
    with site:
        assert outcome.ending == "failed"
        assert "bot@2 is not loaded any more" in outcome.reason
        assert site.routed("acme") == [("bot", 1)]
        site.parts.sessions = {}
        assert run_cycle(site.setting, "asked for").adapters[0].ending == "routed"
        assert site.parts.engine["loaded"] == ["bot@2"]


@pytest.mark.parametrize("error", [EngineError("the engine is gone"), UserError("the registry is locked")])
def test_what_fails_after_the_route_does_not_make_the_version_a_failure(
    tmp_path: Path, error: Exception, monkeypatch: pytest.MonkeyPatch
):
    def broken(*_: object, **__: object) -> None:
        raise error

    with Site(tmp_path, {"bot": "acme"}) as site:
        site.parts.sessions = {"bot": 3}
        monkeypatch.setattr(adapters, "retire", broken)
        [outcome] = run_cycle(site.setting, "asked for").adapters
        assert outcome.ending == "routed"
        assert outcome.reason == "version 1 takes the new sessions (before: version 0, held-out score 0.500)"
        assert site.routed("acme") == [("bot", 1)]
    notes = [row["text"] for row in cycle_events(tmp_path) if row["detail"]["state"] == "note"]
    assert notes == [f"bot: the version before stays loaded until the next cycle: {error}"]
