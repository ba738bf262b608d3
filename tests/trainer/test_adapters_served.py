"""What the collector makes of a promotion and a rollback: flow of trainer.adapters through registry and routes."""

import asyncio
from pathlib import Path

from collector.fakes import ScriptedEngine, deltas
from collector.registry_watch import watching
from collector.routes import RegistryRoutes
from collector.store.registry import Registry
from tests.collector.loopback import Served, post, serve
from tests.collector.published import small_renderer
from tests.trainer.adapter_lines import WHY, add_bot, add_version, loads
from trainer.adapters import canary, promote, retire, rollback, wait_for_readers


async def test_sessions_follow_a_promotion_and_a_rollback(tmp_path: Path) -> None:
    small = small_renderer()
    ids = small.tokenizer.encode("Hello.<|im_end|>")
    served_by: dict[str, list[str | None]] = {}
    engine = ScriptedEngine(lambda _: deltas(ids))

    async def say(served: Served, *sessions: str) -> None:
        request = {"model": "model", "messages": [{"role": "user", "content": "Hi"}]}
        for session in sessions:
            status, _, _ = await post(served, "/v1/chat/completions", request, **{"x-session-id": session})
            assert status == 200
            served_by.setdefault(session, []).append(engine.requests[-1].lora_path)

    async def acted_on(revision: int) -> None:
        assert await asyncio.to_thread(wait_for_readers, registry, revision, 10) == []

    with Registry(tmp_path) as registry:
        add_bot(registry, tenant="dev")
        for version in (1, 2):
            add_version(registry, tmp_path, version)
        routes = RegistryRoutes(["model"], registry.snapshot())
        async with watching(registry, routes, "collector"), serve(small, engine, routes=routes) as served:
            await say(served, "old")
            await acted_on(promote(registry, "bot", 1, load=loads, **WHY).revision)
            await say(served, "old", "new")
            await acted_on(retire(registry, "bot", 0, **WHY).revision)
            await say(served, "old", "new")
            await acted_on(canary(registry, "bot", 2, 0.999999, load=loads, **WHY).revision)
            await say(served, "new", "tried")
            await acted_on(rollback(registry, "bot", load=loads, **WHY).revision)
            await say(served, "old", "new", "tried", "newest")
            status, _, answer = await post(
                served, "/v1/chat/completions", {"model": "bot@1", "messages": [{"role": "user", "content": "Hi"}]}
            )
    assert served_by == {
        "old": [None, None, "bot@1", None],
        "new": ["bot@1", "bot@1", "bot@1", None],
        "tried": ["bot@2", None],
        "newest": [None],
    }
    assert (status, answer["error"]["code"]) == (404, "model_not_found")
    assert [(turn.adapter, turn.adapter_version) for turn in served.journal.turns][-1] == ("bot", 0)
