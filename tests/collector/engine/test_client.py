"""The client against a stub on loopback: exact requests, cuts, refusals, leaving early, nothing sent twice."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator
from pathlib import Path

import msgspec
import pytest

from collector.engine.client import EngineClient
from collector.engine.wire import Delta, GenerateRequest, ModelInfo, SamplingParams, Span, WeightUpdate, WorkerLoad
from collector.errors import EngineError, EngineUnavailable
from tests.collector.engine.stub_engine import STREAM_HEAD, Answer, Received, StubEngine, answer, stub_engine

KEY = "secret-admin-key"
WANTED = GenerateRequest(input_ids=[1, 2, 3], sampling_params=SamplingParams(), rid="r-1", lora_path="ada@3")
EVENTS = [
    b'data: {"text":"\xc3\xa9","output_ids":[7],"meta_info":{"id":"r-1","finish_reason":null,"prompt_tokens":3,'
    b'"completion_tokens":1,"cached_tokens":2,"output_token_logprobs":[[-0.25,7,null]]}}\n\n',
    b'data: {"text":"","output_ids":[8],"meta_info":{"id":"r-1","finish_reason":{"type":"length","length":2},'
    b'"prompt_tokens":3,"completion_tokens":2,"cached_tokens":2,"output_token_logprobs":[[-1.5,8,null]],'
    b'"output_token_logprobs_length":2,"weight_versions":[{"version":"w1","start":0,"end":2}]}}\n\n',
    b"data: [DONE]\n\n",
]
IDS, LOGPROBS = [7, 8], [-0.25, -1.5]


def replying(*chunks: bytes, then_close: bool = True) -> Answer:
    """Answers /generate with these writes, and everything else with an empty 200."""

    async def respond(request: Received, writer: asyncio.StreamWriter) -> None:
        if request.line != "POST /generate":
            writer.write(answer(200, b"{}"))
            return
        for chunk in chunks:
            writer.write(chunk)
            await writer.drain()
            await asyncio.sleep(0.001)  # long enough for the client to read this write by itself
        if then_close:
            writer.close()

    return respond


@contextlib.asynccontextmanager
async def talking_to(respond: Answer, **options: float) -> AsyncGenerator[tuple[EngineClient, StubEngine], None]:
    async with stub_engine(respond) as stub:
        client = EngineClient(stub.url, admin_key=KEY, **options)
        try:
            yield client, stub
        finally:
            await client.close()


async def collect(client: EngineClient, wanted: GenerateRequest = WANTED) -> list[Delta]:
    return [delta async for delta in client.generate(wanted)]


def check(deltas: list[Delta]) -> None:
    assert [token for delta in deltas for token in delta.token_ids] == IDS
    assert [logprob for delta in deltas for logprob in delta.logprobs] == LOGPROBS
    assert deltas[-1].spans == [Span(version="w1", start=0, end=2)]
    assert (deltas[-1].prompt_tokens, deltas[-1].completion_tokens, deltas[-1].cached_tokens) == (3, 2, 2)


async def test_every_sampling_parameter_is_sent() -> None:
    async with talking_to(replying(STREAM_HEAD, *EVENTS)) as (client, stub):
        check(await collect(client))
    (request,) = stub.received
    assert request.line == "POST /generate"
    sent = msgspec.json.decode(request.body)
    assert set(sent["sampling_params"]) == set(SamplingParams.__struct_fields__)
    assert sent["sampling_params"]["top_k"] == -1
    assert (sent["input_ids"], sent["lora_path"], sent["return_logprob"], sent["stream"]) == (
        [1, 2, 3],
        "ada@3",
        True,
        True,
    )
    assert request.headers["authorization"] == f"Bearer {KEY}"


async def test_a_reply_cut_into_writes_at_any_byte_is_the_same() -> None:
    stream = b"".join(EVENTS)
    at = iter(range(1, len(stream)))

    async def respond(request: Received, writer: asyncio.StreamWriter) -> None:
        cut = next(at)
        await replying(STREAM_HEAD, stream[:cut], stream[cut:])(request, writer)

    async with talking_to(respond) as (client, stub):
        for _ in range(1, len(stream)):
            check(await collect(client))
    assert len(stub.received) == len(stream) - 1


async def test_a_whole_reply_without_streaming() -> None:
    body = EVENTS[1].removeprefix(b"data: ").strip().replace(b"[8]", b"[7,8]")
    body = body.replace(b"[[-1.5,8,null]]", b"[[-0.25,7,null],[-1.5,8,null]]")
    async with talking_to(replying(answer(200, body))) as (client, _):
        deltas = await collect(client, msgspec.structs.replace(WANTED, stream=False))
    check(deltas)
    assert len(deltas) == 1


@pytest.mark.parametrize("at", [0, 1, 100, len(EVENTS[0]), len(EVENTS[0]) + 40, len(EVENTS[0] + EVENTS[1]) - 1])
async def test_a_cut_reply_is_unavailable_and_aborted_but_not_sent_again(at: int) -> None:
    async with talking_to(replying(STREAM_HEAD, b"".join(EVENTS)[:at])) as (client, stub):
        with pytest.raises(EngineUnavailable, match=r"cut the reply to r-1 after [01] tokens"):
            await collect(client)
    assert stub.lines() == ["POST /generate", "POST /abort_request"]
    assert msgspec.json.decode(stub.received[1].body) == {"rid": "r-1", "abort_all": False}


async def test_a_reply_cut_inside_http_chunking_is_unavailable() -> None:
    head = STREAM_HEAD.replace(b"connection: close", b"transfer-encoding: chunked")
    chunk = b"%x\r\n%s\r\n" % (len(EVENTS[0]), EVENTS[0])
    async with talking_to(replying(head, chunk)) as (client, _), contextlib.aclosing(client.generate(WANTED)) as reply:
        assert (await anext(reply)).token_ids == [7]
        with pytest.raises(EngineUnavailable, match="after 1 tokens"):
            await anext(reply)


async def test_a_reply_is_whole_once_its_finish_has_come_and_a_cut_before_that_is_none() -> None:
    head = STREAM_HEAD.replace(b"connection: close", b"transfer-encoding: chunked")
    first, last, done = (b"%x\r\n%s\r\n" % (len(event), event) for event in EVENTS)
    stream = first + last + done
    finished = len(first + last) - len(b"\r\n")
    places = [0, 1, len(first) - 2, len(first), len(first) + 40, *range(finished - 3, len(stream) + 1)]
    at = iter(places)

    async def respond(request: Received, writer: asyncio.StreamWriter) -> None:
        if request.line == "POST /generate":
            await replying(head, stream[: next(at)])(request, writer)
        else:
            writer.write(answer(200, b""))

    async with talking_to(respond) as (client, stub):
        for place in places:
            if place >= finished:
                check(await collect(client))
            else:
                with pytest.raises(EngineUnavailable, match=r"cut the reply to r-1 after [01] tokens"):
                    await collect(client)
    assert stub.lines().count("POST /generate") == len(places)
    assert stub.lines().count("POST /abort_request") == sum(place < finished for place in places)


async def test_a_connection_whose_answer_has_no_end_is_not_used_again() -> None:
    head = STREAM_HEAD.replace(b"connection: close", b"transfer-encoding: chunked")
    chunks = [b"%x\r\n%s\r\n" % (len(event), event) for event in EVENTS]
    connections: set[asyncio.StreamWriter] = set()
    requests = 0

    async def respond(request: Received, writer: asyncio.StreamWriter) -> None:
        nonlocal requests
        requests += 1
        connections.add(writer)
        end = b"" if requests == 2 else b"0\r\n\r\n"
        await replying(head, *chunks, end, then_close=requests == 2)(request, writer)

    async with talking_to(respond) as (client, _):
        for _ in range(4):
            check(await collect(client))
    assert (requests, len(connections)) == (4, 2)


async def test_a_finish_whose_totals_do_not_agree_is_refused_though_the_connection_ends_there() -> None:
    wrong = EVENTS[1].replace(b'"output_token_logprobs_length":2', b'"output_token_logprobs_length":3')
    head = STREAM_HEAD.replace(b"connection: close", b"transfer-encoding: chunked")
    chunks = [b"%x\r\n%s\r\n" % (len(event), event) for event in (EVENTS[0], wrong)]
    async with talking_to(replying(head, *chunks)) as (client, _):
        with pytest.raises(EngineError, match="output_token_logprobs_length 3"):
            await collect(client)


async def test_a_refusal_that_is_cut_off_is_no_reply() -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 999\r\n\r\n"
    for status in (b"200 OK", b"400 Bad"):
        async with talking_to(replying(head.replace(b"200 OK", status) + b"{")) as (client, _):
            with pytest.raises(EngineError):
                await collect(client)


async def test_silence_is_waited_out_only_so_long() -> None:
    async with talking_to(replying(STREAM_HEAD, EVENTS[0], then_close=False), idle_timeout_s=0.1) as (client, stub):
        with pytest.raises(EngineUnavailable, match="after 1 tokens"):
            await collect(client)
    assert stub.lines()[-1] == "POST /abort_request"


async def test_a_missing_done_is_no_cut() -> None:
    async with talking_to(replying(STREAM_HEAD, *EVENTS[:2])) as (client, stub):
        check(await collect(client))
    assert stub.lines() == ["POST /generate"]


async def test_leaving_early_closes_the_connection_and_aborts() -> None:
    closed = asyncio.Event()

    async def respond(request: Received, writer: asyncio.StreamWriter) -> None:
        if request.line == "POST /abort_request":
            writer.write(answer(200, b""))
            return
        writer.write(STREAM_HEAD + EVENTS[0])
        with contextlib.suppress(ConnectionError):
            while not writer.is_closing():
                writer.write(b": still here\n\n")
                await writer.drain()
                await asyncio.sleep(0.005)
        closed.set()

    async with talking_to(respond) as (client, stub):
        async with contextlib.aclosing(client.generate(WANTED)) as reply:
            assert (await anext(reply)).token_ids == [7]
        async with asyncio.timeout(5):
            await closed.wait()
    assert stub.lines() == ["POST /generate", "POST /abort_request"]


async def test_a_cancelled_reader_aborts() -> None:
    started = asyncio.Event()

    async def respond(request: Received, writer: asyncio.StreamWriter) -> None:
        if request.line == "POST /abort_request":
            writer.write(answer(200, b""))
        started.set()

    async with talking_to(respond) as (client, stub):
        reading = asyncio.create_task(collect(client))
        await started.wait()
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
    assert stub.lines() == ["POST /generate", "POST /abort_request"]


async def test_leaving_after_the_last_delta_aborts_nothing() -> None:
    async with (
        talking_to(replying(STREAM_HEAD, *EVENTS)) as (client, stub),
        contextlib.aclosing(client.generate(WANTED)) as reply,
    ):
        async for delta in reply:
            if delta.finish is not None:
                break
    assert stub.lines() == ["POST /generate"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"error":{"message":"rid in use"}}', "rid in use"),
        (b'{"error":"plain"}', "plain"),
        (b'{"object":"error","message":"worded"}', "worded"),
        (b'{"success":false,"error_message":"lora trouble"}', "lora trouble"),
        (b'{"detail":[{"loc":["body"]}]}', "loc"),
        (b"Flush cache failed.\n", "Flush cache failed."),
        (b"\xff\xfe", "\ufffd"),
        (b"", "no message"),
    ],
)
async def test_a_refusal_has_its_status_and_words_and_is_not_aborted(body: bytes, words: str) -> None:
    async with talking_to(replying(answer(400, body), then_close=False)) as (client, stub):
        with pytest.raises(EngineError, match="answered /generate with 400") as refused:
            await collect(client)
    assert words in str(refused.value)
    assert refused.value.status == 400
    # An abort could end the request that owns this rid.
    assert stub.lines() == ["POST /generate"]


async def test_a_refusal_inside_the_stream_is_not_aborted() -> None:
    event = b'data: {"error":{"message":"Duplicate request ID detected: r-1","code":400}}\n\ndata: [DONE]\n\n'
    async with talking_to(replying(STREAM_HEAD, event)) as (client, stub):
        with pytest.raises(EngineError, match="Duplicate request ID") as refused:
            await collect(client)
    assert refused.value.status == 400
    assert stub.lines() == ["POST /generate"]


async def test_an_overloaded_engine_is_unavailable() -> None:
    for status in (502, 503, 504):
        async with talking_to(replying(answer(status, b'{"error":"busy"}'), then_close=False)) as (client, _):
            with pytest.raises(EngineUnavailable, match="busy") as refused:
                await collect(client)
        assert refused.value.status == status


async def test_another_content_type_is_refused_and_aborted() -> None:
    async with talking_to(replying(answer(200, b"<html>", "text/html"), then_close=False)) as (client, stub):
        with pytest.raises(EngineError, match="sent text/html, expected text/event-stream"):
            await collect(client)
    assert stub.lines() == ["POST /generate", "POST /abort_request"]


async def test_a_broken_contract_aborts_upstream() -> None:
    event = EVENTS[0].replace(b"[7]", b"[7,9]")
    async with talking_to(replying(STREAM_HEAD, event, then_close=False)) as (client, stub):
        with pytest.raises(EngineError, match="1 log-probabilities for 2 ids"):
            await collect(client)
    assert stub.lines() == ["POST /generate", "POST /abort_request"]


async def test_an_engine_that_is_not_there(caplog: pytest.LogCaptureFixture) -> None:
    async with stub_engine(replying()) as stub:
        pass
    client = EngineClient(stub.url, admin_key=KEY)
    with pytest.raises(EngineUnavailable, match="cannot be reached") as refused:
        await collect(client)
    assert refused.value.status is None
    with pytest.raises(EngineUnavailable, match="cannot be reached"):
        await client.model_info()
    assert not await client.ready()
    await client.close()
    assert caplog.text == ""  # there was nothing to abort


async def test_an_abort_that_fails_is_logged_and_no_error(caplog: pytest.LogCaptureFixture) -> None:
    async def respond(request: Received, writer: asyncio.StreamWriter) -> None:
        if request.line == "POST /generate":
            writer.write(STREAM_HEAD + EVENTS[0])
        else:
            writer.write(answer(500, b"no"))

    async with talking_to(respond) as (client, _), contextlib.aclosing(client.generate(WANTED)) as reply:
        await anext(reply)
    assert "request r-1 was left and could not be aborted: the engine at" in caplog.text
    assert KEY not in caplog.text


async def test_a_redirect_is_refused_so_that_the_key_stays_here() -> None:
    moved = b"HTTP/1.1 307 X\r\nlocation: http://127.0.0.1:9/\r\ncontent-length: 0\r\n\r\n"
    async with talking_to(replying(moved, then_close=False)) as (client, stub):
        with pytest.raises(EngineError, match="with 307"):
            await collect(client)
    assert stub.lines() == ["POST /generate"]


async def test_no_message_log_or_repr_holds_the_key(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    texts: list[str] = []
    for chunks in ([STREAM_HEAD, EVENTS[0]], [answer(401, b'{"error":"Unauthorized"}')]):
        async with talking_to(replying(*chunks)) as (client, _):
            with pytest.raises(EngineError) as refused:
                await collect(client)
            texts += [str(refused.value), repr(refused.value), repr(client)]
    assert KEY not in "".join(texts) + caplog.text


async def test_control_calls_are_what_sglang_expects() -> None:
    answers = {
        "GET /model_info": b'{"model_path":"/m","served_model_name":"m","weight_version":"w2","x":1}',
        "GET /v1/loads": b'{"loads":[{"dp_rank":0,"num_running_reqs":2,"num_waiting_reqs":1,"token_usage":0.5}]}',
        "POST /update_weights_from_disk": b'{"success":true,"message":"ok","num_paused_requests":1}',
    }

    async def respond(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(answer(200, answers.get(request.line, b"")))

    async with talking_to(respond) as (client, stub):
        assert await client.model_info() == ModelInfo(model_path="/m", served_model_name="m", weight_version="w2")
        assert await client.loads() == [WorkerLoad(num_running_reqs=2, num_waiting_reqs=1, token_usage=0.5)]
        assert await client.ready()
        await client.load_adapter("ada@3", Path("relative"))
        await client.unload_adapter("ada@3")
        await client.pause("retract")
        await client.resume()
        assert await client.flush_cache()
        done = await client.update_weights_from_disk(Path("/w"), version="w2", flush_cache=False)
        assert done == WeightUpdate(message="ok", num_paused_requests=1)
    sent = {request.line: msgspec.json.decode(request.body) for request in stub.received if request.body}
    assert sent == {
        "POST /load_lora_adapter": {"lora_name": "ada@3", "lora_path": str(Path.cwd() / "relative"), "pinned": False},
        "POST /unload_lora_adapter": {"lora_name": "ada@3"},
        "POST /pause_generation": {"mode": "retract"},
        "POST /continue_generation": {},
        "POST /update_weights_from_disk": {
            "model_path": "/w",
            "weight_version": "w2",
            "flush_cache": False,
            "abort_all_requests": False,
        },
    }


async def test_a_cache_that_cannot_be_flushed_is_false() -> None:
    async def respond(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(answer(400, b"Flush cache failed."))

    async with talking_to(respond) as (client, _):
        assert not await client.flush_cache()


async def test_an_answer_that_is_not_what_was_asked_for_is_refused() -> None:
    async def respond(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(answer(200, b'{"weight_version":3}'))

    async with talking_to(respond) as (client, _):
        with pytest.raises(EngineError, match="/model_info with JSON that cannot be read"):
            await client.model_info()


async def test_calls_that_would_do_harm_are_refused_here() -> None:
    client = EngineClient("http://127.0.0.1:9")
    with pytest.raises(ValueError, match="rid is empty"):
        await client.abort("")
    with pytest.raises(ValueError, match="return_logprob is False"):
        await collect(client, msgspec.structs.replace(WANTED, return_logprob=False))
    await client.close()
