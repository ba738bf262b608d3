"""Routes follow the registry, and whoever waits for that is told."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import aiohttp
import pytest

from collector.errors import StoreError, UserError
from collector.fakes import MemoryPast, ScriptedEngine, deltas
from collector.records import Route
from collector.registry_watch import watching
from collector.routes import RegistryRoutes
from collector.store.registry import Registry
from tests.collector.loopback import Served, post, serve, until
from tests.collector.published import small_renderer


def publish(registry: Registry, store: Path, version: int) -> int:
    (store / f"bot-{version}").mkdir()
    registry.register_version(
        "bot", version, parent=0, optimizer_step=version, folder=f"bot-{version}", sha256="0" * 64, trained_on=[],
        actor="test", reason="test",
    )  # fmt: skip
    registry.change_state("bot", version, expected="candidate", to="live", actor="test", reason="test")
    before = registry.snapshot().route_revisions.get("dev", 0)
    route = Route(tenant="dev", adapter="bot", version=version)
    return registry.replace_routes("dev", [route], expected_revision=before, actor="test", reason="test")


async def test_a_published_version_serves_new_sessions_and_the_revision_is_acknowledged(tmp_path: Path) -> None:
    small = small_renderer()
    ids = small.tokenizer.encode("Hello.<|im_end|>")
    request = {"model": "model", "messages": [{"role": "user", "content": "Hi"}]}
    with Registry(tmp_path) as registry:
        registry.register_adapter("bot", tenant="dev", base_model="model", actor="test", reason="test")
        routes = RegistryRoutes(["model"], registry.snapshot())
        engine = ScriptedEngine(lambda _: deltas(ids))
        async with watching(registry, routes, "collector"), serve(small, engine, routes=routes) as served:
            await post(served, "/v1/chat/completions", request)
            revision = await asyncio.to_thread(publish, registry, tmp_path, 1)
            await until(lambda: routes.snapshot.revision == revision)
            await until(lambda: not registry.behind(revision))
            await post(served, "/v1/chat/completions", request)
        assert [asked.lora_path for asked in engine.requests] == [None, "bot@1"]
        assert [(turn.adapter, turn.adapter_version) for turn in served.journal.turns] == [(None, None), ("bot", 1)]
        assert registry.behind(revision + 1) == []


def write_gate(store: Path, gate: str) -> None:
    """Puts a gate report of version 1 into the file, past the registry's own checks, and retires the version."""
    with closing(sqlite3.connect(store / "registry.sqlite", isolation_level=None)) as other:
        other.execute("UPDATE versions SET gate = ?, state = 'retired' WHERE version = 1", (gate,))
        other.execute("DELETE FROM routes")
        other.execute(
            "INSERT INTO audit (at, actor, reason, action, adapter, version) "
            "VALUES (0, 'test', 'test', 'change_state', 'bot', 1)"
        )


async def ready(served: Served) -> tuple[int, list[str]]:
    async with aiohttp.ClientSession() as session, session.get(f"{served.url}/ready") as answer:
        return answer.status, (await answer.json())["missing"]


async def test_a_registry_that_cannot_be_read_is_not_ready_and_tried_until_it_can(tmp_path: Path) -> None:
    small = small_renderer()
    ids = small.tokenizer.encode("Hello.<|im_end|>")
    request = {"model": "model", "messages": [{"role": "user", "content": "Hi"}]}
    with Registry(tmp_path) as registry:
        registry.register_adapter("bot", tenant="dev", base_model="model", actor="test", reason="test")
        publish(registry, tmp_path, 1)
        routes = RegistryRoutes(["model"], registry.snapshot(), stale_after_s=0.5)
        engine = ScriptedEngine(lambda _: deltas(ids))
        async with watching(registry, routes, "collector"), serve(small, engine, routes=routes) as served:
            await post(served, "/v1/chat/completions", request)
            await asyncio.sleep(0.6)
            assert await ready(served) == (200, [])
            await asyncio.to_thread(write_gate, tmp_path, '{"passed":')
            await until(routes.stale)
            status, (reason,) = await ready(served)
            assert status == 503
            assert "routes stand as they were" in reason
            assert "versions with adapter 'bot', version 1" in reason
            failed_before = routes.failed_total
            async with aiohttp.ClientSession() as session, session.get(f"{served.url}/metrics") as answer:
                lines = (await answer.text()).splitlines()
            assert "roundhouse_routes_stale 1.0" in lines
            # The watch goes on failing while the metrics are fetched.
            possible = range(failed_before, routes.failed_total + 1)
            assert any(f"roundhouse_registry_failures_total {float(count)}" in lines for count in possible)
            assert routes.failed_total >= 2
            await asyncio.to_thread(write_gate, tmp_path, '{"passed": false}')
            await until(lambda: routes.stale() is None)
            assert await ready(served) == (200, [])
            await until(lambda: not registry.behind(registry.revision()))
            await post(served, "/v1/chat/completions", request)
            assert [asked.lora_path for asked in engine.requests] == ["bot@1", None]


class Stumbling(Registry):
    """A registry whose calls fail as told."""

    fault: Exception | None = None
    deaf: Exception | None = None

    def revision(self) -> int:
        if self.fault is not None:
            raise self.fault
        return super().revision()

    def acknowledge(self, reader: str, revision: int) -> None:
        if self.deaf is not None:
            raise self.deaf
        super().acknowledge(reader, revision)


async def test_no_fault_ends_the_watch(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Stumbling(tmp_path) as registry:
        registry.register_adapter("bot", tenant="dev", base_model="model", actor="test", reason="test")
        routes = RegistryRoutes(["model"], registry.snapshot(), stale_after_s=0.3)
        async with watching(registry, routes, "collector"):
            for fault in (UserError("an older copy"), RuntimeError("a fault of ours")):
                registry.fault = fault
                await until(routes.stale)
                assert str(fault) in (routes.stale() or "")
                registry.fault = None
                await until(lambda: routes.stale() is None)
            registry.deaf = StoreError("locked")
            revision = await asyncio.to_thread(publish, registry, tmp_path, 1)
            await until(routes.stale)
            assert routes.snapshot.revision == revision
            assert registry.behind(revision) != []
            registry.deaf = None
            await until(lambda: not registry.behind(revision))
    said = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert [line.rpartition(": ")[2] for line in said] == ["an older copy", "RuntimeError('a fault of ours')", "locked"]


async def test_a_watcher_says_again_and_again_that_it_lives(tmp_path: Path) -> None:
    with Registry(tmp_path) as registry:
        routes = RegistryRoutes(["model"], registry.snapshot())
        async with watching(registry, routes, "collector", renew_every_s=0.05):
            [first] = registry.behind(1)
            await until(lambda: registry.behind(1)[0].at > first.at)
        assert registry.behind(1) == []


class Unreadable(MemoryPast):
    """A store that cannot be read until it can."""

    fault: Exception | None = StoreError("journal.sqlite: torn page")

    def session_ids(self) -> list[str]:
        if self.fault is not None:
            raise self.fault
        return super().session_ids()


@pytest.mark.parametrize("fault", [StoreError("journal.sqlite: torn page"), RuntimeError("a fault of ours")])
async def test_stored_sessions_that_cannot_be_read_at_start_are_seen_and_tried_again(fault: Exception) -> None:
    small = small_renderer()
    past = Unreadable()
    past.fault = fault
    engine = ScriptedEngine(lambda _: deltas(small.tokenizer.encode("Hello.<|im_end|>")))
    async with serve(small, engine, past=past) as served:
        await until(lambda: served.collector.past_failure)
        found = await ready(served)
        assert found[0] == 503
        assert "stored sessions cannot be read" in found[1][0]
        assert str(fault) in found[1][0]
        request = {"model": "model", "messages": [{"role": "user", "content": "Hi"}]}
        if isinstance(fault, StoreError):
            status, _, answer = await post(served, "/v1/chat/completions", request)
            assert (status, answer["error"]["code"]) == (503, "store_unavailable")
        past.fault = None
        await until(lambda: served.collector.past_failure is None)
        assert await ready(served) == (200, [])
        assert (await post(served, "/v1/chat/completions", request))[0] == 200
        async with aiohttp.ClientSession() as session, session.get(f"{served.url}/metrics") as answer:
            assert "roundhouse_past_failures_total 0.0" not in (await answer.text()).splitlines()
