"""A proxy before an engine in which one thing is wrong: what is asked, what is said, or whether it answers."""

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import aiohttp
import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

# Any: the JSON of requests and replies.
Json = dict[str, Any]
_DONE = b"[DONE]"


class Fault:
    """Nothing is wrong; faults override a part."""

    async def asked(self, path: str, order: Json) -> None:
        """Changes a request in place before the engine gets it, or keeps it from getting there."""

    async def said(self, order: Json, reply: list[Json], url: str) -> None:
        """Changes the events of one reply of /generate in place; `url` is the engine's own."""


class Asked(Fault):
    """Every request for tokens is changed on its way."""

    def __init__(self, change: Callable[[Json], None]) -> None:
        self._change = change

    async def asked(self, path: str, order: Json) -> None:
        """Changes it."""
        if path == "/generate":
            self._change(order)


class Said(Fault):
    """Every reply is changed on its way, as the triples (log-probability, id, text) of its sampled tokens."""

    def __init__(self, change: Callable[[Json, list[list[Any]]], None]) -> None:
        self._change = change

    async def said(self, order: Json, reply: list[Json], url: str) -> None:
        """Changes it."""
        self._change(order, sampled_triples(reply))


class Hangs(Fault):
    """A route takes requests and never answers, until it is let go."""

    def __init__(self, path: str, of: Callable[[Json], bool] = lambda _: True) -> None:
        """`of` says which of its requests."""
        self._path = path
        self._of = of
        self.hangs = True
        self.asked_for: list[Json] = []

    async def asked(self, path: str, order: Json) -> None:
        """Waits."""
        if path == self._path and self._of(order):
            self.asked_for.append(order)
            while self.hangs:  # noqa: ASYNC110 - another thread lets it go
                await asyncio.sleep(0.02)


def sampled_triples(reply: list[Json]) -> list[list[Any]]:
    """The entries of all sampled tokens of a reply, streamed or whole; they can be changed in place."""
    return [triple for event in reply for triple in event["meta_info"].get("output_token_logprobs", [])]


@contextmanager
def faulty(url: str, fault: Fault) -> Iterator[str]:
    """The address of an engine with that fault."""

    async def forward(request: Request) -> Response:
        path, body = request.url.path, await request.body()
        order: Json = msgspec.json.decode(body) if body else {}
        await fault.asked(path, order)
        async with (
            aiohttp.ClientSession() as client,
            client.request(request.method, url + path, json=order if body else None) as answer,
        ):
            raw = await answer.read()
            if path == "/generate" and answer.status == 200:
                raw = await _changed(fault, order, raw, url)
            return Response(raw, status_code=answer.status, media_type=answer.content_type)

    app = Starlette(routes=[Route("/{path:path}", forward, methods=["GET", "POST"])])
    with listening(app) as address:
        yield address


async def _changed(fault: Fault, order: Json, raw: bytes, url: str) -> bytes:
    if not order.get("stream"):
        reply = [msgspec.json.decode(raw)]
        await fault.said(order, reply, url)
        return msgspec.json.encode(reply[0])
    data = [line.removeprefix(b"data: ") for line in raw.splitlines() if line.startswith(b"data: ")]
    reply = [msgspec.json.decode(each) for each in data if each != _DONE]
    await fault.said(order, reply, url)
    return b"".join(b"data: " + each + b"\n\n" for each in [*map(msgspec.json.encode, reply), _DONE])


@contextmanager
def listening(app: Starlette) -> Iterator[str]:
    """Serves an application on loopback from a thread, until the block ends."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(uvicorn.Config(app, lifespan="on", log_config=None, timeout_graceful_shutdown=2))
        thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])))
        thread.start()
        try:
            waiting = threading.Event()
            while not server.started and thread.is_alive():
                waiting.wait(0.005)
            assert server.started
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()
