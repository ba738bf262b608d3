"""Routes: which weights serve whom, and which names are refused."""

from collections import Counter
from pathlib import Path

import pytest

from collector.ports import Target
from collector.records import Route
from collector.refusal import Refusal
from collector.routes import RegistryRoutes
from collector.store.registry import Registry


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    registry = Registry(tmp_path)
    registry.register_adapter("bot", tenant="acme", base_model="model", actor="test", reason="test")
    return registry


def publish(registry: Registry, tmp_path: Path, state: str) -> None:
    version = len([v for v in registry.snapshot().versions if v.adapter == "bot"])
    (tmp_path / f"bot-{version}").mkdir()
    registry.register_version(
        "bot", version, parent=0, optimizer_step=1, folder=f"bot-{version}", sha256="0" * 64, trained_on=[],
        actor="test", reason="test",
    )  # fmt: skip
    if state != "candidate":
        registry.change_state("bot", version, expected="candidate", to=state, actor="test", reason="test")


def routed(registry: Registry, *weights: tuple[int, float]) -> None:
    routes = [Route(tenant="acme", adapter="bot", version=version, weight=weight) for version, weight in weights]
    before = registry.snapshot().route_revisions.get("acme", 0)
    registry.replace_routes("acme", routes, expected_revision=before, actor="test", reason="test")


def target(registry: Registry, model: str | None, *, tenant: str = "acme", session: str = "s", pinned=None) -> Target:
    routes = RegistryRoutes(["model"], registry.snapshot())
    return routes.target(tenant, model, session_id=session, pinned=pinned)


def test_without_a_route_the_base_model_serves(registry: Registry) -> None:
    assert target(registry, "model") == Target(None, None, None)
    assert target(registry, None, tenant="other") == Target(None, None, None)


def test_a_route_leads_to_its_version_under_the_name_the_engine_knows(registry: Registry, tmp_path: Path) -> None:
    publish(registry, tmp_path, "live")
    routed(registry, (1, 1.0))
    assert target(registry, "model") == Target("bot", 1, "bot@1")
    assert target(registry, "bot") == Target("bot", 1, "bot@1")
    assert target(registry, "model", tenant="other") == Target(None, None, None)


def test_version_0_of_an_adapter_is_the_base_model(registry: Registry) -> None:
    assert target(registry, "bot") == Target("bot", 0, None)


def test_weights_share_out_sessions_and_a_session_always_gets_the_same(registry: Registry, tmp_path: Path) -> None:
    publish(registry, tmp_path, "live")
    publish(registry, tmp_path, "canary")
    routed(registry, (1, 3.0), (2, 1.0))
    drawn = Counter(target(registry, "model", session=str(n)).version for n in range(2_000))
    # Binomial, p = 1/4: four standard deviations are 0.039.
    assert abs(drawn[2] / 2_000 - 0.25) < 0.04
    assert len({target(registry, "model", session="x") for _ in range(20)}) == 1


def test_a_session_keeps_its_version_until_that_is_retired(registry: Registry, tmp_path: Path) -> None:
    publish(registry, tmp_path, "live")
    routed(registry, (1, 1.0))
    pinned = target(registry, "model")
    publish(registry, tmp_path, "live")
    routed(registry, (2, 1.0))
    assert target(registry, "model", pinned=pinned) == pinned
    registry.change_state("bot", 1, expected="live", to="retired", actor="test", reason="test")
    assert target(registry, "model", pinned=pinned) == Target("bot", 2, "bot@2")


def test_every_spelling_of_the_route_asks_for_the_same_and_an_adapter_for_itself(registry: Registry) -> None:
    routes = RegistryRoutes(["model", "alias"], registry.snapshot())
    assert [routes.asked(name) for name in (None, "model", "alias", "bot", "bot@1")] == [
        None, None, None, "bot", "bot@1",
    ]  # fmt: skip


@pytest.mark.parametrize("model", ["other", "bot@9", "bot@x", "@", "stranger@1", "bot@1"])
def test_what_is_unknown_retired_or_another_tenants_is_not_found(
    registry: Registry, tmp_path: Path, model: str
) -> None:
    publish(registry, tmp_path, "live")
    registry.change_state("bot", 1, expected="live", to="retired", actor="test", reason="test")
    registry.register_adapter("stranger", tenant="else", base_model="model", actor="test", reason="test")
    with pytest.raises(Refusal) as raised:
        target(registry, model)
    assert (raised.value.status, raised.value.code) == (404, "model_not_found")


def test_a_candidate_can_be_named_but_is_not_routed_to(registry: Registry, tmp_path: Path) -> None:
    publish(registry, tmp_path, "candidate")
    assert target(registry, "bot@1") == Target("bot", 1, "bot@1")
    assert target(registry, "bot") == Target("bot", 0, None)


def test_a_tenant_sees_the_names_it_may_use(registry: Registry) -> None:
    routes = RegistryRoutes(["model", "alias"], registry.snapshot())
    assert routes.models("acme") == ["model", "alias", "bot"]
    assert routes.models("other") == ["model", "alias"]
