"""New base weights while requests are under way: what samples, which version is named, what the cache keeps."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.trainer.engine.loopback import Served, ids_and_logprobs, plain_logprobs, poll, serving, under_way
from trainer.engine_config import EngineConfig
from trainer.tiny_model import write_tiny_model

PROMPT = list(b"Once upon a time")
LONG = {"max_new_tokens": 200, "ignore_eos": True, "sampling_seed": 21}


@pytest.fixture(scope="module")
def newer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("newer"), seed=1)


@pytest.fixture
def engine(llama: Path) -> Iterator[Served]:
    with serving(EngineConfig(model=str(llama))) as served:
        yield served


async def update(engine: Served, folder: Path, **given: Any) -> tuple[int, Any]:
    return await engine.post("/update_weights_from_disk", {"model_path": str(folder), "weight_version": "w1", **given})


def spans_of(answer: dict[str, Any]) -> list[tuple[str, int, int]]:
    return [(span["version"], span["start"], span["end"]) for span in answer["meta_info"]["weight_versions"]]


async def test_an_idle_engine_serves_the_new_weights_at_once(engine: Served, newer: Path) -> None:
    await engine.generate(PROMPT, max_new_tokens=4)
    status, answer = await update(engine, newer)
    assert status == 200
    assert answer == {
        "success": True,
        "message": "Succeeded to update model weights. Weight version updated to w1.",
        "num_paused_requests": 0,
    }
    reply = await engine.generate(PROMPT, max_new_tokens=8, ignore_eos=True)
    ids, logprobs = ids_and_logprobs(reply)
    assert reply["meta_info"]["cached_tokens"] == 0
    assert logprobs == pytest.approx(plain_logprobs(newer, PROMPT, ids), abs=1e-4)
    assert spans_of(reply) == [("w1", 0, 8)]
    _, info = await engine.get("/model_info")
    assert (info["weight_version"], info["model_path"]) == ("w1", str(newer))


async def test_an_update_waits_for_requests_in_flight_and_later_ones_for_the_update(
    engine: Served, llama: Path, newer: Path
) -> None:
    asking = await under_way(engine, PROMPT, **LONG)
    updating = asyncio.create_task(update(engine, newer))
    await poll(lambda: engine.engine.scheduler.draining)
    later = asyncio.create_task(engine.generate(PROMPT, max_new_tokens=5, ignore_eos=True))
    assert (await updating)[0] == 200
    old, new = await asking, await later
    assert spans_of(old) == [("default", 0, 200)]
    assert ids_and_logprobs(old)[1] == pytest.approx(plain_logprobs(llama, PROMPT, old["output_ids"]), abs=1e-4)
    assert spans_of(new) == [("w1", 0, 5)]
    assert ids_and_logprobs(new)[1] == pytest.approx(plain_logprobs(newer, PROMPT, new["output_ids"]), abs=1e-4)


async def test_retract_computes_the_rest_as_the_new_weights_would(engine: Served, llama: Path, newer: Path) -> None:
    asking = await under_way(engine, PROMPT, **LONG)
    await engine.post("/pause_generation", {"mode": "retract"})
    assert (await update(engine, newer))[0] == 200
    await engine.post("/continue_generation", {})
    answer = await asking
    ids, logprobs = ids_and_logprobs(answer)
    (first, start, cut), (second, at, end) = spans_of(answer)
    assert (first, start, second, at, end) == ("default", 0, "w1", cut, 200)
    assert 10 <= cut < 200
    assert logprobs[:cut] == pytest.approx(plain_logprobs(llama, PROMPT, ids[:cut]), abs=1e-4)
    assert logprobs[cut:] == pytest.approx(plain_logprobs(newer, PROMPT + ids[:cut], ids[cut:]), abs=1e-4)


async def test_in_place_without_a_flush_goes_on_with_old_keys_and_new_weights(
    engine: Served, llama: Path, newer: Path
) -> None:
    asking = await under_way(engine, PROMPT, **LONG)
    await engine.post("/pause_generation", {"mode": "in_place"})
    status, answer = await update(engine, newer, flush_cache=False)
    assert (status, answer["success"]) == (200, True)
    await engine.post("/continue_generation", {})
    reply = await asking
    ids, logprobs = ids_and_logprobs(reply)
    (_, _, cut), (second, _, end) = spans_of(reply)
    assert (second, end) == ("w1", 200)
    assert logprobs[:cut] == pytest.approx(plain_logprobs(llama, PROMPT, ids[:cut]), abs=1e-4)
    # Neither the old weights nor the new ones alone give what old keys under new weights give.
    for folder in (llama, newer):
        pure = plain_logprobs(folder, PROMPT + ids[:cut], ids[cut:])
        assert max(abs(a - b) for a, b in zip(pure, logprobs[cut:], strict=True)) > 0.05


async def test_in_place_with_a_flush_answers_400_and_has_changed_the_weights(engine: Served, newer: Path) -> None:
    await engine.generate(list(b"another prompt"), max_new_tokens=2)
    asking = await under_way(engine, PROMPT, **LONG)
    await engine.post("/pause_generation", {"mode": "in_place"})
    status, answer = await update(engine, newer)
    assert (status, answer["success"]) == (400, False)
    assert answer["message"].startswith("Weights were updated, but the cache was not flushed: 1 running requests")
    await engine.post("/continue_generation", {})
    (_, _, cut), (second, start, end) = spans_of(await asking)
    assert (second, start, end) == ("w1", cut, 200)
    # No later request reads what the old weights computed, neither before nor during the pause.
    for prompt in (PROMPT, list(b"another prompt")):
        reply = await engine.generate(prompt, max_new_tokens=4, ignore_eos=True)
        ids, logprobs = ids_and_logprobs(reply)
        assert reply["meta_info"]["cached_tokens"] == 0
        assert logprobs == pytest.approx(plain_logprobs(newer, prompt, ids), abs=1e-4)


async def test_an_abort_pause_allows_an_update_with_a_flush(engine: Served, newer: Path) -> None:
    asking = await under_way(engine, PROMPT, **LONG)
    await engine.post("/pause_generation", {"mode": "abort"})
    assert (await update(engine, newer))[0] == 200
    await engine.post("/continue_generation", {})
    answer = await asking
    assert spans_of(answer) == [("default", 0, len(answer["output_ids"]))]


async def test_an_update_may_abort_what_is_in_flight(engine: Served, newer: Path) -> None:
    asking = await under_way(engine, PROMPT, **LONG)
    assert (await update(engine, newer, abort_all_requests=True))[0] == 200
    assert (await asking)["meta_info"]["finish_reason"]["message"] == "Aborted by a weight update."


async def test_a_queued_request_is_sampled_by_the_new_weights_alone(llama: Path, newer: Path) -> None:
    with serving(EngineConfig(model=str(llama), max_running=1)) as engine:
        first = await under_way(engine, PROMPT, **LONG)
        second = asyncio.create_task(engine.generate(PROMPT, max_new_tokens=6, ignore_eos=True))
        await poll(lambda: engine.engine.load.waiting == 1)
        await engine.post("/pause_generation", {"mode": "in_place"})
        assert (await update(engine, newer, flush_cache=False))[0] == 200
        await engine.post("/continue_generation", {})
        assert spans_of(await second) == [("w1", 0, 6)]
        assert [span[0] for span in spans_of(await first)] == ["default", "w1"]


async def test_an_update_without_a_version_keeps_the_label(engine: Served, newer: Path) -> None:
    assert (await update(engine, newer, weight_version=None))[0] == 200
    assert spans_of(await engine.generate(PROMPT, max_new_tokens=2, ignore_eos=True)) == [("default", 0, 2)]


async def test_weights_that_do_not_fit_change_nothing(engine: Served, llama: Path, tmp_path: Path) -> None:
    wider = write_tiny_model(tmp_path / "wider", hidden=32)
    other = write_tiny_model(tmp_path / "other", family="qwen3")
    for folder, says in ((wider, "has the shape"), (other, "differ by name"), (tmp_path, "no config.json found")):
        status, answer = await update(engine, folder)
        assert (status, answer["success"]) == (400, False)
        assert says in answer["message"]
    reply = await engine.generate(PROMPT, max_new_tokens=5, ignore_eos=True)
    ids, logprobs = ids_and_logprobs(reply)
    assert spans_of(reply) == [("default", 0, 5)]
    assert logprobs == pytest.approx(plain_logprobs(llama, PROMPT, ids), abs=1e-4)


async def test_adapters_apply_to_the_new_weights(engine: Served, llama: Path, newer: Path, tmp_path: Path) -> None:
    from trainer.tiny_model import write_tiny_adapter

    adapter = write_tiny_adapter(tmp_path / "adapter", llama, rank=4)
    await engine.post("/load_lora_adapter", {"lora_name": "a", "lora_path": str(adapter)})
    await engine.generate(PROMPT, body={"lora_path": "a"}, max_new_tokens=2)
    assert (await update(engine, newer))[0] == 200
    reply = await engine.generate(PROMPT, body={"lora_path": "a"}, max_new_tokens=6, ignore_eos=True)
    ids, logprobs = ids_and_logprobs(reply)
    assert reply["meta_info"]["cached_tokens"] == 0
    assert logprobs == pytest.approx(plain_logprobs(newer, PROMPT, ids, adapter=adapter), abs=1e-4)
