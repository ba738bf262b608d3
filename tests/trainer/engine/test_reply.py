"""`POST /generate` over HTTP: log-probabilities, batches, streams, finish reasons, clients that leave."""

import asyncio
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.trainer.engine.loopback import Served, ids_and_logprobs, plain_logprobs, serving, wait_until
from trainer.engine_config import EngineConfig
from trainer.tiny_model import EOS_ID

PROMPT = list(b"Once upon a time")


def random_prompts(count: int, longest: int, seed: int = 0) -> list[list[int]]:
    dice = random.Random(seed)
    return [[dice.randrange(256) for _ in range(dice.randrange(1, longest))] for _ in range(count)]


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
async def test_logprobs_equal_a_plain_forward_pass(tiny_models: dict[str, Path], family: str) -> None:
    with serving(EngineConfig(model=str(tiny_models[family]))) as engine:
        for temperature in (0.6, 1.0, 1.7):
            answer = await engine.generate(PROMPT, max_new_tokens=24, temperature=temperature, ignore_eos=True)
            ids, logprobs = ids_and_logprobs(answer)
            assert len(ids) == 24
            expected = plain_logprobs(tiny_models[family], PROMPT, ids, temperature=temperature)
            assert logprobs == pytest.approx(expected, abs=1e-4)


async def test_greedy_takes_the_likeliest_token_and_reports_temperature_one(served: Served, llama: Path) -> None:
    first = await served.generate(PROMPT, max_new_tokens=16, temperature=0.0, ignore_eos=True)
    ids, logprobs = ids_and_logprobs(first)
    assert logprobs == pytest.approx(plain_logprobs(llama, PROMPT, ids), abs=1e-4)
    again = await served.generate(PROMPT, max_new_tokens=16, temperature=0.0, ignore_eos=True)
    assert again["output_ids"] == ids


async def test_a_batched_run_equals_a_solo_run(llama: Path) -> None:
    prompts = random_prompts(12, 90)
    given: list[dict[str, Any]] = [
        {"temperature": 1.0},
        {"temperature": 0.7, "top_p": 0.9},
        {"temperature": 1.2, "top_k": 20, "min_p": 0.01},
        {"temperature": 0.0},
        {"repetition_penalty": 1.3, "presence_penalty": 0.4, "frequency_penalty": 0.2},
    ]
    sampling = [
        {"max_new_tokens": 20, "ignore_eos": True, "sampling_seed": 100 + index, **given[index % len(given)]}
        for index in range(len(prompts))
    ]
    with serving(EngineConfig(model=str(llama), prefill_chunk=32)) as engine:
        together = await asyncio.gather(
            *(engine.generate(ids, **params) for ids, params in zip(prompts, sampling, strict=True))
        )
    with serving(EngineConfig(model=str(llama), max_running=1, prefill_chunk=1024)) as engine:
        for ids, params, batched in zip(prompts, sampling, together, strict=True):
            assert (await engine.post("/flush_cache"))[0] == 200
            alone_ids, alone_logprobs = ids_and_logprobs(await engine.generate(ids, **params))
            batched_ids, batched_logprobs = ids_and_logprobs(batched)
            assert batched_ids == alone_ids
            assert batched_logprobs == pytest.approx(alone_logprobs, abs=1e-5)


async def test_a_cached_prefix_gives_what_no_cache_gives(llama: Path) -> None:
    prompt = random_prompts(1, 400, seed=5)[0] + list(range(200))
    params = {"max_new_tokens": 12, "sampling_seed": 9, "ignore_eos": True}
    with serving(EngineConfig(model=str(llama))) as engine:
        first = await engine.generate(prompt, **params)
        cached = await engine.generate(prompt, **params)
        # The next turn of a conversation: prompt and completion of the first, and more.
        longer = prompt + first["output_ids"] + list(b"and then?")
        warm = await engine.generate(longer, **params)
        await engine.post("/flush_cache")
        cold = await engine.generate(longer, **params)
    assert first["meta_info"]["cached_tokens"] == 0
    assert cached["meta_info"]["cached_tokens"] == len(prompt) - 1
    # The last sampled token's keys and values were never computed.
    assert warm["meta_info"]["cached_tokens"] == len(prompt) + 11
    assert cold["meta_info"]["cached_tokens"] == 0
    for one, other in ((first, cached), (warm, cold)):
        assert one["output_ids"] == other["output_ids"]
        assert ids_and_logprobs(one)[1] == pytest.approx(ids_and_logprobs(other)[1], abs=1e-5)
    expected = plain_logprobs(llama, longer, warm["output_ids"])
    assert ids_and_logprobs(warm)[1] == pytest.approx(expected, abs=1e-4)


async def test_a_stream_is_the_whole_reply_in_pieces(served: Served) -> None:
    params = {"max_new_tokens": 30, "sampling_seed": 4, "ignore_eos": True}
    whole = await served.generate(PROMPT, body={"rid": "whole"}, **params)
    events = [event async for event in served.stream(PROMPT, body={"rid": "pieces"}, **params)]
    assert [token for event in events for token in event["output_ids"]] == whole["output_ids"]
    logprobs = [logprob for event in events for logprob in event["meta_info"]["output_token_logprobs"]]
    assert [triple[1:] for triple in logprobs] == [[token, None] for token in whole["output_ids"]]
    assert [triple[0] for triple in logprobs] == pytest.approx(ids_and_logprobs(whole)[1], abs=1e-5)
    assert "".join(event["text"] for event in events) == whole["text"]
    counts = [event["meta_info"]["completion_tokens"] for event in events]
    assert counts == sorted(counts)
    assert counts[-1] == 30
    assert all(event["meta_info"]["finish_reason"] is None for event in events[:-1])
    assert all("weight_versions" not in event["meta_info"] for event in events[:-1])
    last = events[-1]["meta_info"]
    assert last["id"] == "pieces"
    assert last["finish_reason"] == {"type": "length", "length": 30}
    assert last["weight_versions"] == [{"version": "default", "start": 0, "end": 30}]
    assert last["prompt_tokens"] == len(PROMPT)


async def test_the_first_event_comes_before_the_reply_is_done(served: Served) -> None:
    stream = served.stream(PROMPT, max_new_tokens=1500, ignore_eos=True)
    first = await anext(stream)
    assert first["meta_info"]["completion_tokens"] < 1500
    assert served.engine.load.running == 1
    await stream.aclose()
    await wait_until(served, running=0)


async def test_the_stop_token_is_in_the_ids_with_its_logprob(served: Served, llama: Path) -> None:
    bias = {str(EOS_ID): 30.0}
    answer = await served.generate(PROMPT, max_new_tokens=50, logit_bias=bias, skip_special_tokens=False)
    assert answer["output_ids"] == [EOS_ID]
    assert answer["meta_info"]["finish_reason"] == {"type": "stop", "matched": EOS_ID}
    assert answer["text"] == ""
    assert ids_and_logprobs(answer)[1] == [pytest.approx(0.0, abs=1e-4)]
    kept = await served.generate(
        PROMPT, max_new_tokens=50, logit_bias=bias, skip_special_tokens=False, no_stop_trim=True
    )
    assert kept["text"] == "<|im_end|>"


async def test_a_stop_string_keeps_the_tokens_up_to_its_end(served: Served) -> None:
    params = {"max_new_tokens": 40, "sampling_seed": 11, "ignore_eos": True}
    whole = (await served.generate(PROMPT, **params))["output_ids"]
    at = next(end for end in range(8, 40) if max(whole[end - 2 : end]) < 128)
    stop = bytes(whole[at - 2 : at])
    assert stop not in bytes(token % 256 for token in whole[: at - 1])
    answer = await served.generate(PROMPT, stop=[stop.decode()], **params)
    assert answer["output_ids"] == whole[:at]
    assert answer["meta_info"]["finish_reason"] == {"type": "stop", "matched": stop.decode()}
    assert not answer["text"].endswith(stop.decode())


async def test_no_stop_token_comes_before_min_new_tokens(served: Served) -> None:
    answer = await served.generate(
        PROMPT, max_new_tokens=50, min_new_tokens=5, stop_token_ids=[65], logit_bias={"65": 30.0, str(EOS_ID): 29.0}
    )
    ids = answer["output_ids"]
    assert len(ids) == 6
    assert ids[-1] in (65, EOS_ID)
    assert not {65, EOS_ID} & set(ids[:5])


async def test_no_tokens_may_be_asked_for(served: Served) -> None:
    answer = await served.generate(PROMPT, max_new_tokens=0)
    assert answer["output_ids"] == []
    assert answer["meta_info"]["finish_reason"] == {"type": "length", "length": 0}
    assert answer["meta_info"]["weight_versions"] == [{"version": "default", "start": 0, "end": 0}]


async def test_two_unseeded_requests_differ(served: Served) -> None:
    answers = [await served.generate(PROMPT, max_new_tokens=20, ignore_eos=True) for _ in range(2)]
    assert answers[0]["output_ids"] != answers[1]["output_ids"]


async def test_logprobs_are_absent_unless_asked_for(served: Served) -> None:
    answer = await served.generate(PROMPT, body={"return_logprob": False}, max_new_tokens=2)
    assert "output_token_logprobs" not in answer["meta_info"]


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_leaves_before_the_first_token_ends_its_request(llama: Path, stream: bool) -> None:
    with serving(EngineConfig(model=str(llama))) as engine:
        await engine.post("/pause_generation", {"mode": "in_place"})
        body = {"input_ids": PROMPT, "sampling_params": {"max_new_tokens": 50}, "stream": stream}
        content = msgspec.json.encode(body)
        _, sending = await asyncio.open_connection("127.0.0.1", int(engine.url.rpartition(":")[2]))
        sending.write(b"POST /generate HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(content) + content)
        await wait_until(engine, waiting=1)
        sending.close()
        await sending.wait_closed()
        await wait_until(engine, waiting=0)
        assert engine.engine.load.aborted_total == 1


async def test_a_client_that_leaves_mid_stream_ends_its_request(served: Served) -> None:
    before = served.engine.load.aborted_total
    stream = served.stream(PROMPT, max_new_tokens=1900, ignore_eos=True)
    await anext(stream)
    await stream.aclose()
    await wait_until(served, running=0, aborted_total=before + 1)


async def test_an_aborted_request_answers_with_what_it_has(served: Served) -> None:
    asking = asyncio.create_task(
        served.generate(PROMPT, body={"rid": "to-abort"}, max_new_tokens=1900, ignore_eos=True)
    )
    await wait_until(served, running=1)
    await asyncio.sleep(0.05)
    assert (await served.post("/abort_request", {"rid": "to-abort"}))[0] == 200
    answer = await asking
    ids, logprobs = ids_and_logprobs(answer)
    assert 0 < len(ids) == len(logprobs) < 1900
    finish = answer["meta_info"]["finish_reason"]
    assert finish["type"] == "abort"
    assert finish["message"] == "Aborted by AbortReq."
    assert answer["meta_info"]["weight_versions"] == [{"version": "default", "start": 0, "end": len(ids)}]


async def test_a_duplicate_live_rid_is_refused_and_a_finished_one_is_not(served: Served) -> None:
    body = {"rid": "twice"}
    stream = served.stream(PROMPT, body=body, max_new_tokens=1900, ignore_eos=True)
    await anext(stream)
    full = {"input_ids": PROMPT, "sampling_params": {"max_new_tokens": 1}, **body}
    status, answer = await served.post("/generate", full)
    assert status == 400
    assert answer["error"]["message"].startswith("Duplicate request ID detected: twice")
    await stream.aclose()
    await wait_until(served, running=0)
    assert (await served.post("/generate", full))[0] == 200


@pytest.mark.long
async def test_the_small_model_computes_as_transformers_does_alone_and_in_a_batch() -> None:
    from trainer.small_model import find_small_model

    folder = find_small_model()
    dice = random.Random(1)
    prompts = [[dice.randrange(1000, 40000) for _ in range(dice.randrange(10, 120))] for _ in range(6)]
    with serving(EngineConfig(model=str(folder))) as engine:
        params = {"max_new_tokens": 24, "ignore_eos": True}
        together = await asyncio.gather(
            *(engine.generate(ids, sampling_seed=seed, **params) for seed, ids in enumerate(prompts))
        )
        assert (await engine.post("/flush_cache"))[0] == 200
        for seed, (ids, answer) in enumerate(zip(prompts, together, strict=True)):
            sampled, logprobs = ids_and_logprobs(answer)
            assert logprobs == pytest.approx(plain_logprobs(folder, ids, sampled), abs=1e-4)
            alone = await engine.generate(ids, sampling_seed=seed, **params)
            assert alone["output_ids"] == sampled
            # 30 layers round more than two do: 1.3e-5 at worst, measured.
            assert ids_and_logprobs(alone)[1] == pytest.approx(logprobs, abs=5e-5)
