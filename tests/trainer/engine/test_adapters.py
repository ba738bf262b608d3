"""Adapters over HTTP: what they compute, side by side in a batch, and their loading and unloading."""

import asyncio
import shutil
from pathlib import Path

import pytest

from tests.trainer.engine.loopback import Served, ids_and_logprobs, plain_logprobs, serving, wait_until
from tests.trainer.engine.test_reply import random_prompts
from trainer.engine_config import EngineConfig
from trainer.tiny_model import write_tiny_adapter

PROMPT = list(b"The quick brown fox")


@pytest.fixture(scope="module")
def adapters(llama: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("adapters")
    every = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
    return {
        "one": write_tiny_adapter(folder / "one", llama, rank=4, seed=1),
        "two": write_tiny_adapter(folder / "two", llama, rank=8, seed=2, target_modules=every),
    }


@pytest.fixture
def engine(llama: Path):
    with serving(EngineConfig(model=str(llama))) as served:
        yield served


async def load(served: Served, name: str, folder: Path) -> None:
    status, answer = await served.post("/load_lora_adapter", {"lora_name": name, "lora_path": str(folder)})
    assert (status, answer["success"]) == (200, True), answer
    assert answer["loaded_adapters"][name] == str(folder)


async def test_a_batch_of_base_and_adapters_equals_peft_and_solo_runs(
    engine: Served, llama: Path, adapters: dict[str, Path]
) -> None:
    for name, folder in adapters.items():
        await load(engine, name, folder)
    names = [None, "one", "two", "one", None, "two"]
    prompts = random_prompts(len(names), 60, seed=8)
    sampling = [{"max_new_tokens": 16, "ignore_eos": True, "sampling_seed": index} for index in range(len(names))]
    together = await asyncio.gather(
        *(
            engine.generate(ids, body={"lora_path": name}, **params)
            for ids, name, params in zip(prompts, names, sampling, strict=True)
        )
    )
    await engine.post("/flush_cache")
    for ids, name, params, answer in zip(prompts, names, sampling, together, strict=True):
        sampled, logprobs = ids_and_logprobs(answer)
        expected = plain_logprobs(llama, ids, sampled, adapter=adapters[name] if name else None)
        assert logprobs == pytest.approx(expected, abs=1e-4)
        alone = await engine.generate(ids, body={"lora_path": name}, **params)
        assert alone["output_ids"] == sampled
        # These adapters outweigh the base, and float32 rounding grows with them (2.4e-5 at worst, measured).
        assert ids_and_logprobs(alone)[1] == pytest.approx(logprobs, abs=1e-4 if name else 1e-5)
    # The adapters matter: under the base weights the same tokens have other probabilities.
    base = plain_logprobs(llama, prompts[2], together[2]["output_ids"])
    assert max(abs(a - b) for a, b in zip(base, ids_and_logprobs(together[2])[1], strict=True)) > 0.1


async def test_an_adapter_never_reads_prefixes_of_the_base_or_of_another_one(
    engine: Served, llama: Path, adapters: dict[str, Path]
) -> None:
    for name, folder in adapters.items():
        await load(engine, name, folder)
    for name in (None, "one", "two"):
        answer = await engine.generate(PROMPT, body={"lora_path": name}, max_new_tokens=4)
        assert answer["meta_info"]["cached_tokens"] == 0
        again = await engine.generate(PROMPT, body={"lora_path": name}, max_new_tokens=4)
        assert again["meta_info"]["cached_tokens"] == len(PROMPT) - 1


async def test_a_name_loaded_again_serves_the_new_weights_without_old_prefixes(
    engine: Served, llama: Path, adapters: dict[str, Path]
) -> None:
    for folder in adapters.values():
        await load(engine, "line@1", folder)
        answer = await engine.generate(PROMPT, body={"lora_path": "line@1"}, max_new_tokens=8, ignore_eos=True)
        assert answer["meta_info"]["cached_tokens"] == 0
        ids, logprobs = ids_and_logprobs(answer)
        assert logprobs == pytest.approx(plain_logprobs(llama, PROMPT, ids, adapter=folder), abs=1e-4)
        status, answer = await engine.post("/unload_lora_adapter", {"lora_name": "line@1"})
        assert (status, answer["loaded_adapters"]) == (200, {})


async def test_an_unloaded_name_is_refused(engine: Served, adapters: dict[str, Path]) -> None:
    await load(engine, "one", adapters["one"])
    await engine.post("/unload_lora_adapter", {"lora_name": "one"})
    body = {"input_ids": PROMPT, "sampling_params": {"max_new_tokens": 1}, "lora_path": "one"}
    status, answer = await engine.post("/generate", body)
    assert status == 400
    assert answer["error"]["message"] == "LoRA adapter 'one' is not loaded; expected a loaded one, and none is"
    status, answer = await engine.post("/unload_lora_adapter", {"lora_name": "one"})
    assert (status, answer["success"]) == (400, False)


async def test_a_loaded_name_is_not_loaded_again(engine: Served, adapters: dict[str, Path]) -> None:
    await load(engine, "one", adapters["one"])
    body = {"lora_name": "one", "lora_path": str(adapters["two"])}
    status, answer = await engine.post("/load_lora_adapter", body)
    assert status == 400
    assert not answer["success"]
    assert "already loaded" in answer["error_message"]
    assert answer["loaded_adapters"] == {"one": str(adapters["one"])}


async def test_an_unload_waits_for_requests_in_flight_and_refuses_new_ones(
    engine: Served, adapters: dict[str, Path]
) -> None:
    await load(engine, "one", adapters["one"])
    await load(engine, "two", adapters["two"])
    stream = engine.stream(PROMPT, body={"lora_path": "one"}, max_new_tokens=300, ignore_eos=True)
    await anext(stream)
    unloading = asyncio.create_task(engine.post("/unload_lora_adapter", {"lora_name": "one"}))
    await asyncio.sleep(0.05)
    assert not unloading.done()
    body = {"input_ids": PROMPT, "sampling_params": {"max_new_tokens": 1}, "lora_path": "one"}
    status, answer = await engine.post("/generate", body)
    assert status == 400
    assert answer["error"]["message"] == "LoRA adapter 'one' is being unloaded; expected a loaded one: two"
    events = [event async for event in stream]
    assert events[-1]["meta_info"]["finish_reason"] == {"type": "length", "length": 300}
    status, answer = await unloading
    assert (status, answer["loaded_adapters"]) == (200, {"two": str(adapters["two"])})


async def test_an_unload_waits_while_paused_in_place_until_generation_continues(
    engine: Served, adapters: dict[str, Path]
) -> None:
    await load(engine, "one", adapters["one"])
    asking = asyncio.create_task(
        engine.generate(PROMPT, body={"lora_path": "one"}, max_new_tokens=200, ignore_eos=True)
    )
    await wait_until(engine, running=1)
    await engine.post("/pause_generation", {"mode": "in_place"})
    unloading = asyncio.create_task(engine.post("/unload_lora_adapter", {"lora_name": "one"}))
    await asyncio.sleep(0.1)
    assert not unloading.done()
    await engine.post("/continue_generation", {})
    assert (await unloading)[0] == 200
    assert len((await asking)["output_ids"]) == 200


async def test_more_adapters_than_slots_are_refused(llama: Path, adapters: dict[str, Path]) -> None:
    settings = EngineConfig(model=str(llama), max_adapters=1, adapters={"one": str(adapters["one"])})
    with serving(settings) as engine:
        body = {"lora_name": "two", "lora_path": str(adapters["two"])}
        status, answer = await engine.post("/load_lora_adapter", body)
        assert status == 400
        assert answer["error_message"] == "1 adapters are loaded and max_adapters is 1; unload one first"
        assert engine.engine.load.adapters == 1


async def test_an_adapter_that_does_not_fit_is_refused_and_serving_goes_on(
    engine: Served, tiny_models: dict[str, Path], adapters: dict[str, Path], tmp_path: Path
) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(adapters["one"], broken)
    (broken / "adapter_model.safetensors").unlink()
    status, answer = await engine.post("/load_lora_adapter", {"lora_name": "x", "lora_path": str(broken)})
    assert status == 400
    assert "not found; expected safetensors" in answer["error_message"]
    assert (await engine.generate(PROMPT, max_new_tokens=1))["output_ids"]
