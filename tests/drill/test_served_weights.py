"""An engine that serves something else than was trained is refuted within the cycle, and nothing is routed to it."""

from pathlib import Path

import pytest

from tests.drill.conftest import OpenLoop
from tests.drill.faulty_engine import Asked, Fault, Json
from tests.drill.plant import proofs, routed, states
from tests.drill.whole_loop import Loop
from tests.trainer.engine.loopback import Served


def renamed(of: str, to: str | None) -> Asked:
    """The engine takes one version for another."""

    def change(order: Json) -> None:
        if order.get("lora_path") == of:
            order["lora_path"] = to

    return Asked(change)


class StalePrefix(Fault):
    """The engine's cache does not know versions apart: what the old one computed is the new one's prefix."""

    def __init__(self, served: Served) -> None:
        self._bank = served.engine.bank

    async def asked(self, path: str, order: Json) -> None:
        """As soon as the new version is there, it has the old one's part of the cache."""
        if path == "/generate" and {"bot@1", "bot@2"} <= self._bank.loaded.keys():
            old = self._bank.loaded["bot@1"].namespace
            self._bank.loaded["bot@2"] = self._bank.loaded["bot@2"]._replace(namespace=old)


def refuted(loop: Loop, version: int, served: str, kind: str | None) -> None:
    """The cycle ends so, the check says the same, and users stay where they were."""
    before = routed(loop.store) or [("bot", 0)]
    cycle = loop.train()
    assert (cycle.code, cycle.ended["ending"], cycle.ended["version"]) == (1, "refuted", version)
    assert proofs(loop.store)[-1] == (version, "refuted", served)
    found = loop.found_by("served-adapter")
    assert found.status == "fail"
    assert [each.kind for each in found.evidence if each.status == "fail"] == [kind]
    assert routed(loop.store) == before
    assert states(loop.store)[version] == "rejected"
    assert f"bot@{version}" not in loop.served.engine.bank.loaded
    assert loop.next_session() == (f"bot@{version - 1}" if version > 1 else None)
    # Nothing else had to notice it: neither was it evaluated, nor judged.
    assert cycle.ended["numbers"] == {}


def test_without_a_fault_the_first_version_is_routed(over: OpenLoop, captures: dict[str, Path]) -> None:
    with over(captures["healthy"]) as loop:
        assert loop.next_session() is None
        cycle = loop.train()
        assert (cycle.code, cycle.ended["ending"], cycle.ended["version"]) == (0, "routed", 1), cycle.ended["reason"]
        assert proofs(loop.store) == [(1, "proved", "new")]
        assert routed(loop.store) == [("bot", 1)]
        assert loop.found_by("served-adapter").status == "ok"
        assert loop.next_session(seed=8) == "bot@1"


def test_without_a_fault_the_second_version_is_routed(over: OpenLoop, second: Path) -> None:
    with over(second) as loop:
        cycle = loop.train()
        assert (cycle.code, cycle.ended["ending"], cycle.ended["version"]) == (0, "routed", 2), cycle.ended["reason"]
        assert proofs(loop.store)[-1] == (2, "proved", "new")
        assert routed(loop.store) == [("bot", 2)]
        assert loop.next_session() == "bot@2"


def test_an_adapter_that_is_not_applied_is_the_base_model(over: OpenLoop, captures: dict[str, Path]) -> None:
    with over(captures["healthy"], fault=lambda _: renamed("bot@1", None)) as loop:
        refuted(loop, 1, "base", "base_model_served")


def test_the_previous_version_under_the_new_name_is_named(over: OpenLoop, second: Path) -> None:
    with over(second, fault=lambda _: renamed("bot@2", "bot@1")) as loop:
        refuted(loop, 2, "previous", "previous_version_served")


@pytest.mark.long
def test_the_base_model_under_the_second_versions_name_is_named(over: OpenLoop, second: Path) -> None:
    with over(second, fault=lambda _: renamed("bot@2", None)) as loop:
        refuted(loop, 2, "base", "base_model_served")


def test_a_stale_prefix_is_seen_by_the_second_probe_alone(over: OpenLoop, second: Path) -> None:
    with over(second, fault=StalePrefix) as loop:
        refuted(loop, 2, "unknown", None)
        detail = loop.last_proof()
        assert detail["scored"]["verdict"] == "proved"
        assert detail["decoded"]["verdict"] == "refuted"
        assert detail["cached_tokens"] > 0


@pytest.mark.long
def test_an_engine_that_hides_its_cache_proves_nothing(over: OpenLoop, captures: dict[str, Path]) -> None:
    class Uncached(Fault):
        async def said(self, order: Json, reply: list[Json], url: str) -> None:
            for event in reply:
                event["meta_info"]["cached_tokens"] = 0

    with over(captures["healthy"], fault=lambda _: Uncached()) as loop:
        cycle = loop.train()
        assert (cycle.code, cycle.ended["ending"]) == (1, "undecided")
        assert "no cached prefix was used" in cycle.ended["reason"]
        assert states(loop.store) == ["live", "candidate"]
        assert loop.next_session() is None
