"""What is read from a registry's snapshot: the best version, the ancestry, and adapters that others have changed."""

from collections.abc import Generator
from pathlib import Path

import pytest

from collector.errors import UserError
from collector.records import Route
from collector.store.registry import Registry
from tests.trainer.adapter_lines import WHY, add_bot, add_version, loads
from trainer.adapter_standing import ancestry, gate_summary, pinned_best, standing
from trainer.adapters import pin, promote, rollback


@pytest.fixture
def registry(tmp_path: Path) -> Generator[Registry]:
    with Registry(tmp_path) as opened:
        add_bot(opened)
        yield opened


def live(registry: Registry, store: Path, version: int, score: float | None) -> None:
    numbers = {} if score is None else {"held_out_score": score}
    add_version(registry, store, version, gate={"verdict": "pass", "reasons": [], "numbers": numbers})
    promote(registry, "bot", version, load=loads, **WHY)


def test_the_best_is_the_pinned_one_else_the_highest_score_that_was_live_else_the_live_one(
    registry: Registry, tmp_path: Path
) -> None:
    def best() -> int:
        return pinned_best(registry.snapshot(), "bot")

    assert best() == 0
    live(registry, tmp_path, 1, None)
    assert best() == 1
    live(registry, tmp_path, 2, 0.75)
    live(registry, tmp_path, 3, 0.5)
    assert best() == 2
    live(registry, tmp_path, 4, 0.75)
    assert best() == 4
    add_version(registry, tmp_path, 5, gate={"verdict": "pass", "numbers": {"held_out_score": 0.9}})
    assert best() == 4
    pin(registry, "bot", 1, **WHY)
    assert best() == 1
    pin(registry, "bot", None, **WHY)
    rollback(registry, "bot", load=loads, **WHY)
    assert best() == 2


def test_a_gate_report_is_read_by_its_documented_keys_only(registry: Registry, tmp_path: Path) -> None:
    whole = {"verdict": "refuse", "reasons": ["a", "b"], "numbers": {"held_out_score": 1, "more": [1]}, "other": {}}
    assert gate_summary(add_version(registry, tmp_path, 1, gate=whole)) == ("refuse", 1.0, ("a", "b"))
    assert gate_summary(add_version(registry, tmp_path, 2, gate={"passed": True})) == (None, None, ())
    assert gate_summary(add_version(registry, tmp_path, 3, gate=None)) == (None, None, ())
    broken = gate_summary(add_version(registry, tmp_path, 4, gate={"verdict": "pass", "reasons": "none"}))
    assert (broken.verdict, broken.score) == (None, None)
    assert "cannot be read" in broken.reasons[0]


def test_the_ancestry_follows_parents_and_not_numbers(registry: Registry, tmp_path: Path) -> None:
    for version, parent in ((1, 0), (2, 1), (3, 1), (4, 3)):
        add_version(registry, tmp_path, version, parent=parent)
    assert [ancestry(registry.snapshot(), "bot", version) for version in (0, 2, 4)] == [(0,), (2, 1, 0), (4, 3, 1, 0)]


def test_what_was_changed_past_these_functions_is_seen_as_it_is(registry: Registry, tmp_path: Path) -> None:
    add_version(registry, tmp_path, 1)
    registry.change_state("bot", 1, expected="candidate", to="live", **WHY)
    now = standing(registry.snapshot(), "bot")
    assert (now.live.version, now.history) == (0, (0,))
    revision = registry.snapshot().route_revisions["acme"]
    route = Route(tenant="acme", adapter="bot", version=1)
    revision = registry.replace_routes("acme", [route], expected_revision=revision, **WHY)
    now = standing(registry.snapshot(), "bot")
    assert (now.live.version, now.history) == (1, (0, 1))
    rollback(registry, "bot", load=loads, **WHY)
    now = standing(registry.snapshot(), "bot")
    assert (now.live.version, now.history, now.rolled_back) == (0, (0,), {1})


def test_an_adapter_without_a_live_version_is_refused(registry: Registry) -> None:
    revision = registry.snapshot().route_revisions["acme"]
    registry.replace_routes("acme", [], expected_revision=revision, **WHY)
    registry.change_state("bot", 0, expected="live", to="retired", **WHY)
    with pytest.raises(UserError, match="bot has no live version at revision 4"):
        standing(registry.snapshot(), "bot")
