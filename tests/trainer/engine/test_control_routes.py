"""Pauses, aborts and flushes over HTTP."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.trainer.engine.loopback import Served, ids_and_logprobs, plain_logprobs, serving, under_way, wait_until
from trainer.engine_config import EngineConfig

PROMPT = list(b"Once upon a time")
LONG = {"max_new_tokens": 200, "ignore_eos": True, "sampling_seed": 21}


@pytest.fixture
def engine(llama: Path) -> Iterator[Served]:
    with serving(EngineConfig(model=str(llama))) as served:
        yield served


async def test_an_abort_pause_ends_every_request_and_new_ones_wait(engine: Served) -> None:
    asking = await under_way(engine, PROMPT, **LONG)
    assert await engine.post("/pause_generation", {}) == (
        200,
        {"message": "Generation paused successfully.", "status": "ok"},
    )
    answer = await asking
    assert answer["meta_info"]["finish_reason"]["type"] == "abort"
    assert 0 < len(answer["output_ids"]) < 200
    later = asyncio.create_task(engine.generate(PROMPT, max_new_tokens=3, ignore_eos=True))
    await wait_until(engine, waiting=1, running=0)
    assert (await engine.get("/ready"))[0] == 503
    assert (await engine.get("/health"))[0] == 200
    assert (await engine.post("/continue_generation", {}))[0] == 200
    assert len((await later)["output_ids"]) == 3
    assert (await engine.get("/ready"))[0] == 200


@pytest.mark.parametrize(("mode", "retractions"), [("in_place", 0), ("retract", 1)])
async def test_a_paused_request_goes_on_as_if_nothing_had_been(
    engine: Served, llama: Path, mode: str, retractions: int
) -> None:
    undisturbed = await engine.generate(PROMPT, **LONG)
    await engine.post("/flush_cache")
    asking = await under_way(engine, PROMPT, **LONG)
    await engine.post("/pause_generation", {"mode": mode})
    await wait_until(engine, paused=True, running=1 - retractions, waiting=retractions)
    sampled = engine.engine.load.generated_tokens_total
    await asyncio.sleep(0.05)
    assert engine.engine.load.generated_tokens_total == sampled
    await engine.post("/continue_generation", {"torch_empty_cache": True})
    answer = await asking
    ids, logprobs = ids_and_logprobs(answer)
    assert ids == undisturbed["output_ids"]
    assert logprobs == pytest.approx(ids_and_logprobs(undisturbed)[1], abs=2e-5)
    assert logprobs == pytest.approx(plain_logprobs(llama, PROMPT, ids), abs=1e-4)
    assert answer["meta_info"]["num_retractions"] == retractions


@pytest.mark.parametrize("mode", ["in_place", "retract"])
async def test_a_paused_request_can_be_aborted(engine: Served, mode: str) -> None:
    asking = await under_way(engine, PROMPT, **LONG)
    await engine.post("/pause_generation", {"mode": mode})
    await engine.post("/abort_request", {"abort_all": True})
    answer = await asking
    ids, logprobs = ids_and_logprobs(answer)
    assert 10 <= len(ids) == len(logprobs) < 200


async def test_a_flush_empties_the_cache_when_idle(engine: Served) -> None:
    await engine.generate(PROMPT, max_new_tokens=2)
    assert await engine.get("/flush_cache") == (200, "Cache flushed.\n")
    assert engine.engine.load.cached_tokens == 0
    answer = await engine.generate(PROMPT, max_new_tokens=2)
    assert answer["meta_info"]["cached_tokens"] == 0


async def test_a_flush_is_refused_while_a_request_holds_its_cache(engine: Served) -> None:
    asking = await under_way(engine, PROMPT, **LONG)
    status, answer = await engine.post("/flush_cache")
    assert status == 400
    assert "1 running, 0 queued" in answer["error"]["message"]
    await engine.post("/pause_generation", {"mode": "in_place"})
    assert (await engine.post("/flush_cache"))[0] == 400
    await engine.post("/pause_generation", {"mode": "retract"})
    assert (await engine.post("/flush_cache"))[0] == 200
    await engine.post("/continue_generation", {})
    assert len((await asking)["output_ids"]) == 200


async def test_a_flush_may_wait_until_the_engine_is_idle(engine: Served) -> None:
    asking = await under_way(engine, PROMPT, **LONG)
    assert (await engine.post("/flush_cache?timeout=30"))[0] == 200
    assert asking.done() or (await asking)["output_ids"]
    assert (await engine.post("/flush_cache?timeout=soon"))[0] == 400


async def test_unknown_and_empty_rids_are_ignored(engine: Served) -> None:
    asking = await under_way(engine, PROMPT, **LONG)
    for body in ({"rid": "nobody"}, {"rid": ""}, {}):
        assert (await engine.post("/abort_request", body))[0] == 200
    assert len((await asking)["output_ids"]) == 200


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/pause_generation", {"mode": "soon"}),
        ("/abort_request", {"abort_all": "yes"}),
        ("/load_lora_adapter", {"lora_name": "x"}),
        ("/unload_lora_adapter", {"lora_name": 3}),
        ("/update_weights_from_disk", {}),
        ("/update_weights_from_disk", {"model_path": "x", "flush_cache": 1}),
    ],
)
async def test_a_body_of_the_wrong_type_is_refused(engine: Served, path: str, body: dict[str, object]) -> None:
    status, answer = await engine.post(path, body)
    assert status == 400
    assert f"the body of {path} cannot be used" in answer["error"]["message"]
