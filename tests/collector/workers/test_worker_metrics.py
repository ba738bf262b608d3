"""What engines say is exported and recorded, what they do not say is absent, and tokens come to a cost by adapter."""

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from prometheus_client import CollectorRegistry, generate_latest

from collector.config import CollectorConfig, PriceConfig
from collector.engine.wire import DraftLoad, LoraLoad, WorkerLoad
from collector.fakes import ScriptedEngine, deltas
from collector.records import Audit
from collector.store.registry import Registry
from collector.store.registry_rows import RegistrySnapshot
from collector.store.sql import run_query
from collector.workers.engine_load import load_event, record_loads
from collector.workers.worker_metrics import RegistryMetrics, failed_checkpoints
from tests.collector.loopback import Served, until
from tests.collector.workers.plant import REPLY, URLS, hello, plant

WHY: dict[str, Any] = {"actor": "test", "reason": "test"}
FULL = WorkerLoad(
    num_running_reqs=3, num_waiting_reqs=2, dp_rank=0, num_used_tokens=500, max_total_num_tokens=1000, token_usage=0.5,
    gen_throughput=120.5, cache_hit_rate=0.25, lora=LoraLoad(slots_used=2, slots_total=4),
    speculative=DraftLoad(accept_length=2.5, accept_rate=0.75),
)  # fmt: skip


async def scraped(served: Served) -> dict[str, float]:
    """Every sample of /metrics."""
    async with aiohttp.ClientSession() as session, session.get(f"{served.url}/metrics") as answer:
        lines = [line for line in (await answer.text()).splitlines() if line[0] != "#"]
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in lines}


async def test_what_an_engine_says_is_on_the_collectors_metrics_by_worker_and_rank(tmp_path: Path) -> None:
    engine = ScriptedEngine(hello)
    engine.busy = [FULL, WorkerLoad(num_running_reqs=1, num_waiting_reqs=0, dp_rank=1)]
    async with plant(tmp_path, engine) as made:
        await made.settled()
        found = await scraped(made.served)
    first = f'{{rank="0",worker="{URLS[0]}"}}'
    expected = {
        "running": 3, "waiting": 2, "kv_used_tokens": 500, "kv_tokens": 1000, "kv_usage": 0.5,
        "tokens_per_second": 120.5, "cache_hit_rate": 0.25, "adapter_slots_used": 2, "adapter_slots_total": 4,
        "accept_length": 2.5, "accept_rate": 0.75,
    }  # fmt: skip
    assert {name: found.get(f"roundhouse_engine_{name}{first}") for name in expected} == expected
    second = [name for name in found if f'rank="1",worker="{URLS[0]}"' in name]
    assert sorted(name.partition("{")[0] for name in second) == [
        "roundhouse_engine_running",
        "roundhouse_engine_waiting",
    ]
    assert found[f'roundhouse_worker_up{{worker="{URLS[0]}"}}'] == 1


async def test_an_engine_that_says_nothing_of_its_load_or_slots_has_no_such_metric(tmp_path: Path) -> None:
    async with plant(tmp_path, ScriptedEngine(hello)) as made:
        await made.settled()
        found = await scraped(made.served)
        event = load_event(made.workers[0])
    assert [name for name in found if name.startswith("roundhouse_engine_")] == []
    assert f'roundhouse_worker_adapter_slots{{worker="{URLS[0]}"}}' not in found
    assert event.detail is not None
    assert (event.detail["ranks"], event.detail["slots"], event.detail["loaded"]) == (None, None, [])


async def test_a_worker_that_is_down_is_0_and_what_it_once_said_is_gone(tmp_path: Path) -> None:
    engine = ScriptedEngine(hello)
    engine.busy = [FULL]
    async with plant(tmp_path, engine) as made:
        await made.settled()
        engine.down = "connection refused"
        await until(lambda: made.workers[0].fault)
        found = await scraped(made.served)
        event = load_event(made.workers[0])
    assert found[f'roundhouse_worker_up{{worker="{URLS[0]}"}}'] == 0
    assert found[f'roundhouse_worker_lost_total{{worker="{URLS[0]}"}}'] == 1
    assert [name for name in found if name.startswith("roundhouse_engine_")] == []
    assert f'roundhouse_worker_adapters{{worker="{URLS[0]}"}}' not in found
    assert event.severity == "warn"
    assert event.detail is not None
    assert (event.detail["fault"], event.detail["ranks"], event.detail["loaded"]) == ("connection refused", None, None)


async def test_loads_are_recorded_at_the_rate_asked_for(tmp_path: Path) -> None:
    engine = ScriptedEngine(hello)
    engine.busy = [FULL]
    told: list[Any] = []
    async with plant(tmp_path, engine, ScriptedEngine(hello)) as made:
        await made.settled()
        recording = asyncio.create_task(record_loads(made.workers, told.append, every_s=0.05))
        await until(lambda: len(told) >= 4)
        recording.cancel()
    assert [event.detail["worker"] for event in told[:4]] == [URLS[0], URLS[1]] * 2
    assert json.loads(json.dumps(told[0].detail["ranks"]))[0]["accept_rate"] == 0.75


async def test_tokens_come_to_a_cost_by_adapter_and_a_kind_without_a_price_has_none(tmp_path: Path) -> None:
    replies = [12, 0, None]

    def script(request: Any) -> Any:
        return deltas(REPLY, prompt_tokens=len(request.input_ids), cached_tokens=replies.pop(0))

    config = CollectorConfig(prices=PriceConfig(prompt=2.0, cached=0.5))
    async with plant(tmp_path, ScriptedEngine(script), config=config) as made:
        await made.ask("base")
        made.publish(1)
        await until(lambda: made.engines[0].loaded)
        await made.prove(0)
        await made.ask("one")
        await made.ask("two")
        found = await scraped(made.served)
        prompt = len(made.rows("turns")[0]["prompt_ids"])
    tokens = {name: value for name, value in found.items() if name.startswith("roundhouse_adapter_tokens_total")}
    assert tokens == {
        'roundhouse_adapter_tokens_total{adapter="(base)",kind="prompt"}': prompt - 12,
        'roundhouse_adapter_tokens_total{adapter="(base)",kind="cached"}': 12,
        'roundhouse_adapter_tokens_total{adapter="(base)",kind="completion"}': len(REPLY),
        'roundhouse_adapter_tokens_total{adapter="bot",kind="prompt"}': 2 * prompt,
        'roundhouse_adapter_tokens_total{adapter="bot",kind="cached"}': 0,
        'roundhouse_adapter_tokens_total{adapter="bot",kind="completion"}': 2 * len(REPLY),
    }
    costs = {name: value for name, value in found.items() if name.startswith("roundhouse_adapter_cost_total")}
    assert costs == {
        'roundhouse_adapter_cost_total{adapter="(base)",kind="prompt"}': pytest.approx((prompt - 12) * 2 / 1e6),
        'roundhouse_adapter_cost_total{adapter="(base)",kind="cached"}': pytest.approx(12 * 0.5 / 1e6),
        'roundhouse_adapter_cost_total{adapter="bot",kind="prompt"}': pytest.approx(2 * prompt * 2 / 1e6),
        'roundhouse_adapter_cost_total{adapter="bot",kind="cached"}': 0,
    }
    whole = PriceConfig(prompt=2.0, completion=8.0)
    query = "SELECT adapter, turns, prompt_tokens, cached_tokens, completion_tokens, cost FROM costs ORDER BY adapter"
    with run_query(tmp_path, query, prices=whole) as result:
        bot, base = list(result.rows)
    # No cached token of bot's was seen, so that their missing price is no matter; the base model's has one.
    assert bot == ("bot", 2, 2 * prompt, 0, 2 * len(REPLY), pytest.approx((2 * prompt * 2 + 2 * len(REPLY) * 8) / 1e6))
    assert base == (None, 1, prompt - 12, 12, len(REPLY), None)


def test_failed_checkpoints_are_those_rejected_and_those_rolled_back(tmp_path: Path) -> None:
    with Registry(tmp_path) as registry:
        registry.register_adapter("bot", tenant="dev", base_model="model", **WHY)
        for version in (1, 2):
            (tmp_path / f"bot-{version}").mkdir()
            registry.register_version(
                "bot", version, parent=0, optimizer_step=version, folder=f"bot-{version}", sha256="0" * 64,
                trained_on=[], **WHY,
            )  # fmt: skip
        assert failed_checkpoints(registry.snapshot()) == {("bot", "rejected"): 0, ("bot", "rolled_back"): 0}
        registry.change_state("bot", 1, expected="candidate", to="rejected", **WHY)
        snapshot = registry.snapshot()
    back = Audit(
        revision=9, at=datetime.now(UTC), actor="a", reason="r", action="rollback", adapter="bot", version=0,
        detail={"from": 2, "retired": [2], "rejected": []},
    )  # fmt: skip
    after: RegistrySnapshot = snapshot._replace(decisions=(back,))
    assert failed_checkpoints(after) == {("bot", "rejected"): 1, ("bot", "rolled_back"): 1}
    registry_of = CollectorRegistry()
    RegistryMetrics(lambda: after, list, registry_of)
    text = generate_latest(registry_of).decode()
    assert 'roundhouse_failed_checkpoints_total{adapter="bot",how="rejected"} 1.0' in text
