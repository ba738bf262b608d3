"""Routes follow the registry within 200 ms, and whoever waits for that is told."""

import asyncio
from pathlib import Path
from time import monotonic

from collector.fakes import ScriptedEngine, deltas
from collector.records import Route
from collector.registry_watch import watching
from collector.routes import RegistryRoutes
from collector.store.registry import Registry
from tests.collector.loopback import post, serve, until
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
            changed = monotonic()
            await until(lambda: routes.snapshot.revision == revision)
            seen_after_s = monotonic() - changed
            await until(lambda: not registry.behind(revision))
            await post(served, "/v1/chat/completions", request)
        assert seen_after_s < 1.0
        assert [asked.lora_path for asked in engine.requests] == [None, "bot@1"]
        assert [(turn.adapter, turn.adapter_version) for turn in served.journal.turns] == [(None, None), ("bot", 1)]
        assert registry.behind(revision + 1) == []
