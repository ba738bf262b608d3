"""A loopback server that answers with the bytes a test gives it."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple

STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\nconnection: close\r\n\r\n"


class Received(NamedTuple):
    """One request as it came."""

    line: str
    headers: dict[str, str]
    body: bytes


Answer = Callable[[Received, asyncio.StreamWriter], Awaitable[None]]


class StubEngine(NamedTuple):
    """The stub's address and what it has been sent."""

    url: str
    received: list[Received]

    def lines(self) -> list[str]:
        return [request.line for request in self.received]


def answer(status: int, body: bytes, content_type: str = "application/json") -> bytes:
    """A whole HTTP answer."""
    head = f"HTTP/1.1 {status} X\r\ncontent-type: {content_type}\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


@asynccontextmanager
async def stub_engine(respond: Answer) -> AsyncGenerator[StubEngine, None]:
    """Answers each request of each connection with `respond`, which may close the connection."""
    received: list[Received] = []
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            while not writer.is_closing():
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                line, *fields = head.strip().split("\r\n")
                headers = {name.lower(): value for name, value in (field.split(": ", 1) for field in fields)}
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                received.append(Received(line.removesuffix(" HTTP/1.1"), headers, body))
                await respond(received[-1], writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()
            tasks.discard(task)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield StubEngine(f"http://127.0.0.1:{port}", received)
    finally:
        server.close()
        for task in set(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
