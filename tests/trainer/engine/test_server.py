"""Health, information and metrics over HTTP; an engine whose thread breaks."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.trainer.engine.loopback import Served, ids_and_logprobs, poll, serving, under_way
from trainer.engine_config import EngineConfig
from trainer.tiny_model import write_tiny_adapter

PROMPT = list(b"Once upon a time")


async def metrics(served: Served) -> dict[str, float]:
    status, text = await served.get("/metrics")
    assert status == 200
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    assert {sample.labels["model_name"] for sample in samples} == {served.engine.settings.model}
    return {sample.name: sample.value for sample in samples}


async def test_an_idle_engine_is_healthy_and_ready(served: Served) -> None:
    for path in ("/health", "/health_generate", "/ready"):
        assert (await served.get(path))[0] == 200


async def test_model_info_names_what_is_served(served: Served, llama: Path) -> None:
    status, info = await served.get("/model_info")
    assert status == 200
    assert info == {
        "model_path": str(llama),
        "served_model_name": str(llama),
        "weight_version": "default",
        "tokenizer_path": str(llama),
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "is_generation": True,
    }
    assert await served.get("/get_model_info") == (200, info)


async def test_a_served_name_is_told(llama: Path) -> None:
    with serving(EngineConfig(model=str(llama), served_name="tiny", max_context=100, kv_tokens=1000)) as engine:
        assert (await engine.get("/model_info"))[1]["served_model_name"] == "tiny"
        _, info = await engine.get("/server_info")
        # Whole blocks of 64 tokens.
        assert (info["max_context"], info["kv_tokens"], info["served_name"]) == (100, 960, "tiny")
        body = {"input_ids": [1] * 60, "sampling_params": {"max_new_tokens": 41}}
        assert (await engine.post("/generate", body))[0] == 400


async def test_metrics_count_what_happened(llama: Path, tmp_path: Path) -> None:
    adapter = write_tiny_adapter(tmp_path / "a", llama, rank=2)
    with serving(EngineConfig(model=str(llama), kv_tokens=6400, adapters={"a": str(adapter)})) as engine:
        for _ in range(2):
            await engine.generate(PROMPT, max_new_tokens=5, ignore_eos=True)
        found = await metrics(engine)
        assert found["sglang:num_requests_total"] == 2
        assert found["sglang:prompt_tokens_total"] == 32
        assert found["sglang:cached_tokens_total"] == 15
        assert found["sglang:cache_hit_rate"] == pytest.approx(15 / 32)
        assert found["sglang:generation_tokens_total"] == 10
        # The cache holds the prompt and four of the five tokens of each reply, their common beginning once.
        assert 20 <= found["sglang:kv_evictable_tokens"] <= 24
        assert found["sglang:max_total_num_tokens"] == 6400
        assert (found["sglang:lora_pool_slots_used"], found["sglang:lora_pool_slots_total"]) == (1, 16)
        asking = await under_way(engine, PROMPT, max_new_tokens=150, ignore_eos=True)
        await engine.post("/pause_generation", {"mode": "in_place"})
        found = await metrics(engine)
        assert found["sglang:num_running_reqs"] == found["sglang:num_paused_reqs"] == 1
        assert found["sglang:kv_used_tokens"] >= 64
        assert found["sglang:token_usage"] == found["sglang:kv_used_tokens"] / 6400
        total = sum(found[f"sglang:kv_{kind}_tokens"] for kind in ("used", "evictable", "available"))
        assert total == 6400
        loads = (await engine.get("/v1/loads"))[1]["loads"]
        assert [(load["num_running_reqs"], load["num_waiting_reqs"]) for load in loads] == [(1, 0)]
        await engine.post("/continue_generation", {})
        await asking


async def test_health_generate_fails_in_a_pause_and_leaves_nothing_behind(
    llama: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainer.engine.server.HEALTH_TIMEOUT_S", 0.2)
    with serving(EngineConfig(model=str(llama))) as engine:
        await engine.post("/pause_generation", {"mode": "retract"})
        status, text = await engine.get("/health_generate")
        assert (status, text) == (503, "no answer within 0.2 s")
        assert (await engine.get("/health"))[0] == 200
        assert engine.engine.load.waiting == 0


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_a_broken_engine_answers_everyone_and_says_so(llama: Path) -> None:
    with serving(EngineConfig(model=str(llama))) as engine:
        asking = await under_way(engine, PROMPT, max_new_tokens=1500, ignore_eos=True)

        def explode(*_: Any, **__: Any) -> None:
            raise RuntimeError("a fault in the forward pass")

        engine.engine.model.network.forward = explode
        answer = await asking
        finish = answer["meta_info"]["finish_reason"]
        assert (finish["type"], finish["status_code"]) == ("abort", 503)
        assert len(ids_and_logprobs(answer)[0]) >= 10
        await poll(lambda: engine.engine.ended.is_set())
        assert engine.engine.broken
        assert (await engine.get("/health"))[0] == 503
        assert (await engine.get("/ready"))[0] == 503
        body = {"input_ids": PROMPT, "sampling_params": {}}
        status, told = await asyncio.wait_for(engine.post("/generate", body), 5)
        assert (status, told["error"]["message"]) == (503, "the engine is not running")


async def test_an_error_says_what_was_found(served: Served) -> None:
    status, answer = await served.post("/generate", {"input_ids": [1], "sampling_params": {"top_k": 0}})
    assert status == 400
    assert answer == {"error": {"message": "top_k is 0, expected -1 or at least 1"}}
    assert (await served.get("/generate"))[0] == 405
    assert (await served.get("/nothing"))[0] == 404
