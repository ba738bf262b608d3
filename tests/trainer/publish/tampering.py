"""A proxy before an engine that changes what it is asked or what it says."""

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

# Any: the JSON of a request and of a reply.
Change = Callable[[dict[str, Any]], None]


def nothing(_: dict[str, Any]) -> None:
    """Leaves it as it is."""


@contextmanager
def tampering(url: str, *, asked: Change = nothing, said: Change = nothing) -> Iterator[str]:
    """The address of the proxy; `asked` and `said` change requests and replies of /generate in place."""

    async def forward(request: Request) -> Response:
        body = await request.body()
        generating = request.url.path == "/generate"
        if generating:
            order = msgspec.json.decode(body)
            asked(order)
            body = msgspec.json.encode(order)
        async with (
            aiohttp.ClientSession() as client,
            client.request(
                request.method,
                url + request.url.path,
                data=body or None,
                headers={"content-type": "application/json"} if body else {},
            ) as answer,
        ):
            raw = await answer.read()
            if generating and answer.status == 200:
                reply = msgspec.json.decode(raw)
                said(reply)
                raw = msgspec.json.encode(reply)
            return Response(raw, status_code=answer.status, media_type=answer.content_type)

    app = Starlette(routes=[Route("/{path:path}", forward, methods=["GET", "POST"])])
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=2))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            listening = threading.Event()
            while not server.started and thread.is_alive():
                listening.wait(0.01)
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()
