"""A turn that a canary served is told from the live version's: on the reply and on record."""

from pathlib import Path

import pytest

from collector.config import CollectorConfig
from collector.fakes import ScriptedEngine, deltas
from collector.keys import sha256_of
from collector.rendering.renderer import Renderer
from collector.routes import RegistryRoutes
from collector.store.registry import Registry
from tests.collector.loopback import post, serve, until
from tests.trainer.adapter_lines import WHY, add_bot, add_version, loads
from trainer.adapters import canary, promote


@pytest.mark.parametrize(
    ("said", "purpose"), [(None, "canary"), ("traffic", "canary"), ("eval", "eval"), ("probe", "probe")]
)
async def test_ordinary_traffic_of_a_canary_is_the_canarys(
    small: Renderer, tmp_path: Path, said: str | None, purpose: str
) -> None:
    with Registry(tmp_path) as registry:
        add_bot(registry)
        add_version(registry, tmp_path, 1)
        # Nearly all sessions draw the canary.
        canary(registry, "bot", 1, 0.999999, load=loads, **WHY)
        trial = registry.snapshot()
        promote(registry, "bot", 1, load=loads, **WHY)
        live = registry.snapshot()
    ids = small.tokenizer.encode("yes")
    engine = ScriptedEngine(lambda request: deltas(ids, prompt_tokens=len(request.input_ids)))
    routes = RegistryRoutes(["model"], trial)
    ask = {"model": "model", "messages": [{"role": "user", "content": "well?"}]}
    headers = {"Authorization": "Bearer key"} | ({} if said is None else {"x-roundhouse-purpose": said})
    async with serve(small, engine, routes=routes, config=CollectorConfig(keys={sha256_of("key"): "acme"})) as served:
        _, first, _ = await post(served, "/v1/chat/completions", ask, **headers)
        routes.snapshot = live
        _, second, _ = await post(served, "/v1/chat/completions", ask, **headers)
        await until(lambda: len(served.journal.turns) == 2)
        turns = served.journal.turns
    assert (first["x-roundhouse-version"], first["x-roundhouse-arm"]) == ("bot@1", "canary")
    assert (second["x-roundhouse-version"], second.get("x-roundhouse-arm")) == ("bot@1", None)
    assert [turn.purpose for turn in turns] == [purpose, said or "traffic"]
