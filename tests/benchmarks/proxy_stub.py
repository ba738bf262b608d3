"""A stub engine in a process of its own: SGLang's `/generate` and chat completions, streamed, every token scripted.

    python tests/benchmarks/proxy_stub.py --model DIR --port N

One write for each token, and the event loop is entered between two of them: as fast as it can, or one every
`interval_s` seconds after `POST /pace`. A stream is known by the seed of its request; `GET /stamps` tells when each of
its tokens was written, by the clock that all processes of a machine share, and forgets it.
"""

import argparse
import asyncio
import json
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import httptools
import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.benchmarks.proxy_reply import MODEL, Piece, reply

_EVENTS = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
_END = b"0\r\n\r\n"
_DONE = b"data: [DONE]\n\n"


class Stub:
    """What all connections share."""

    def __init__(self, model: Path) -> None:
        self.model = model
        self.interval_s = 0.0
        self.stamps: dict[int, list[float]] = {}
        self.tasks: set[asyncio.Task[None]] = set()
        self._offsets = random.Random(7)

    def answer(self, method: str, path: str, body: bytes) -> Any:
        """The answer to a request that is not streamed; None for an unknown one."""
        match method, path:
            case "GET", "/health" | "/ready":
                return {}
            case "GET", "/model_info":
                return {"model_path": str(self.model), "served_model_name": MODEL, "weight_version": "default"}
            case "GET", "/server_info":
                return {"model_path": str(self.model), "incremental_streaming_output": True}
            case "GET", "/v1/models":
                return {"object": "list", "data": [{"id": MODEL, "object": "model", "root": MODEL}]}
            case "GET", "/stamps":
                stamps, self.stamps = self.stamps, {}
                return stamps
            case "POST", "/pace":
                self.interval_s = json.loads(body)["interval_s"]
                return {}
            case "POST", "/abort_request":
                return {}
            case _:
                return None

    async def stream(self, path: str, body: bytes, write: Callable[[bytes], None]) -> None:
        """Writes one reply, token by token."""
        asked = json.loads(body)
        if path == "/generate":
            sampling = asked["sampling_params"]
            seed, tokens = sampling["sampling_seed"], sampling["max_new_tokens"]
            first, last = b"", _DONE
            events = generate_events(reply(self.model, tokens), asked["rid"], len(asked["input_ids"]))
        else:
            seed, tokens = asked["seed"], asked["max_tokens"]
            name = f"chatcmpl-{seed}"
            first = chat_event(name, {"role": "assistant", "content": ""}, None)
            last = chat_event(name, {}, "length") + _DONE
            events = chat_events(reply(self.model, tokens), name)
        if not asked.get("stream"):
            raise ValueError("a request that is not streamed, expected stream: true")
        stamps = self.stamps[seed] = list[float]()
        write(_EVENTS + (_chunk(first) if first else b""))
        due = time.monotonic() + self._offsets.random() * self.interval_s
        for event in events:
            # Between two tokens others have their turn, as in an engine that steps.
            await asyncio.sleep(max(0.0, due - time.monotonic()) if self.interval_s else 0)
            due += self.interval_s
            chunk = _chunk(event)
            stamps.append(time.monotonic())
            write(chunk)
        write(_chunk(last) + _END)


def generate_events(pieces: tuple[Piece, ...], rid: str, prompt_tokens: int) -> list[bytes]:
    """The events of `/generate` as SGLang 0.5.23 sends them with `--incremental-streaming-output`."""
    total = len(pieces)
    events: list[bytes] = []
    for count, piece in enumerate(pieces, start=1):
        logprob = -((count * 7919) % 1000) / 499.5
        finish, spans = "null", ""
        if count == total:
            finish = f'{{"type":"length","length":{total}}}'
            spans = f',"weight_versions":[{{"version":"default","start":0,"end":{total}}}]'
        events.append(
            (
                f'data: {{"text":"{piece.text}","output_ids":[{piece.id}],"meta_info":{{"id":"{rid}",'
                f'"finish_reason":{finish},"prompt_tokens":{prompt_tokens},"weight_version":"default",'
                f'"total_retractions":0,"output_token_logprobs":[[{logprob!r},{piece.id},null]],'
                f'"output_token_logprobs_length":{count},"reasoning_tokens":0,"completion_tokens":{count},'
                f'"cached_tokens":0,"cached_tokens_details":null{spans}}}}}\n\n'
            ).encode()
        )
    return events


def chat_events(pieces: tuple[Piece, ...], name: str) -> list[bytes]:
    """The content chunks of a chat completion as SGLang 0.5.23 sends them."""
    head, tail = chat_event(name, {"role": None, "content": "\0"}, None).split(b"\\u0000")
    return [head + piece.text.encode() + tail for piece in pieces]


def chat_event(name: str, delta: dict[str, Any], finish: str | None) -> bytes:
    """One chunk."""
    whole = {"role": None, "content": None, "reasoning_content": None, "tool_calls": None, **delta}
    choice = {"index": 0, "delta": whole, "logprobs": None, "finish_reason": finish, "matched_stop": None}
    fields = {"id": name, "object": "chat.completion.chunk", "created": 1_700_000_000, "model": MODEL}
    text = json.dumps({**fields, "choices": [choice], "usage": None}, separators=(",", ":"))
    return f"data: {text}\n\n".encode()


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


class Connection(asyncio.Protocol):
    """One kept-alive connection of a client."""

    def __init__(self, stub: Stub) -> None:
        self._stub = stub
        self._parser = httptools.HttpRequestParser(self)
        self._path = ""
        self._body: list[bytes] = []
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are none of asyncio's classes.
        self._write = cast(asyncio.WriteTransport, transport).write

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._task is not None:
            self._task.cancel()

    def on_message_begin(self) -> None:
        """A request begins."""
        self._path, self._body = "", []

    def on_url(self, url: bytes) -> None:
        """A part of its path."""
        self._path += url.decode()

    def on_body(self, body: bytes) -> None:
        """A part of its body."""
        self._body.append(body)

    def on_message_complete(self) -> None:
        """The request is whole."""
        method, body = self._parser.get_method().decode(), b"".join(self._body)
        if self._path in ("/generate", "/v1/chat/completions"):
            self._task = asyncio.get_running_loop().create_task(self._stub.stream(self._path, body, self._write))
            self._stub.tasks.add(self._task)
            self._task.add_done_callback(self._stub.tasks.discard)
            return
        answer = self._stub.answer(method, self._path, body)
        text = json.dumps({"error": "unknown"} if answer is None else answer).encode()
        status = b"404 Not Found" if answer is None else b"200 OK"
        self._write(
            b"HTTP/1.1 %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (status, len(text), text)
        )


async def serve(model: Path, port: int) -> None:
    """Listens on loopback until the process is ended."""
    stub = Stub(model)
    reply(model, 1)
    server = await asyncio.get_running_loop().create_server(lambda: Connection(stub), "127.0.0.1", port)
    await server.serve_forever()


def main() -> None:
    """Runs the stub."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", type=Path, required=True, help="folder with the tokenizer.json that is spoken")
    parser.add_argument("--port", type=int, required=True)
    args = parser.parse_args()
    uvloop.run(serve(args.model, args.port))


if __name__ == "__main__":
    sys.exit(main())
