"""A version is unloaded after the collectors have left it; a dead collector is named, and holds nothing up for ever."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from collector.records import Route
from collector.store.registry import Registry
from tests.trainer.engine.loopback import Served
from tests.trainer.publish.probe_setting import CONFIG, Setting
from trainer.publish.drain import wait_for_collectors, withdraw
from trainer.publish.publisher import Publisher


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    """Version 1 retired, version 2 routed."""
    with Registry(tmp_path) as registry:
        who = {"actor": "test", "reason": "test"}
        registry.register_adapter("ada", tenant="acme", base_model="model", **who)
        for version in (1, 2):
            (tmp_path / f"ada-{version}").mkdir()
            registry.register_version(
                "ada", version, parent=version - 1, optimizer_step=version, folder=f"ada-{version}", sha256="0" * 64,
                trained_on=[], **who,
            )  # fmt: skip
            registry.change_state("ada", version, expected="candidate", to="live", **who)
        registry.replace_routes("acme", [Route(tenant="acme", adapter="ada", version=2)], expected_revision=0, **who)
        registry.change_state("ada", 1, expected="live", to="retired", **who)
        yield registry


def test_nothing_is_unloaded_before_the_collectors_act_on_the_routes(
    setting: Setting, served: Served, registry: Registry
) -> None:
    publisher = Publisher([served.url], CONFIG)
    publisher.load("ada@1", setting.versions[0])
    revision = registry.revision()
    registry.acknowledge("one", revision)
    registry.acknowledge("two", revision)
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        assert "ada@1" in served.engine.bank.loaded
        slept.append(seconds)

    config = msgspec.structs.replace(CONFIG, settle_s=0.25)
    gone = withdraw(registry, publisher, "ada@1", revision=revision, config=config, sleep=sleep)
    assert slept == [0.25]
    assert gone.dead == ()
    assert gone.unloaded.workers == (served.url,)
    assert "ada@1" not in served.engine.bank.loaded
    assert gone.text == "ada@1: unloaded from 1 workers"


def test_a_dead_collector_is_named_and_not_waited_for_again(
    setting: Setting, served: Served, registry: Registry
) -> None:
    publisher = Publisher([served.url], CONFIG)
    publisher.load("ada@1", setting.versions[0])
    registry.acknowledge("dead", 1)
    registry.acknowledge("alive", registry.revision())
    config = msgspec.structs.replace(CONFIG, acknowledge_limit_s=0.2)
    gone = withdraw(registry, publisher, "ada@1", revision=registry.revision(), config=config)
    assert [(each.reader, each.revision) for each in gone.dead] == [("dead", 1)]
    assert "dead acts on revision 1" in gone.text
    assert registry.behind(registry.revision()) == []
    assert gone.unloaded.workers == (served.url,)


def test_a_collector_that_follows_is_waited_for(registry: Registry) -> None:
    revision = registry.revision()
    registry.acknowledge("slow", revision - 1)
    assert [each.reader for each in wait_for_collectors(registry, revision, 0.1)] == ["slow"]
    registry.acknowledge("slow", revision)
    assert wait_for_collectors(registry, revision, 0.1) == ()
