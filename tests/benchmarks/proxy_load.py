"""The clients: raw connections that cost little, so that the measured rates are the servers'."""

import asyncio
import gc
import json
import re
import time
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import numpy as np

_END = b"0\r\n\r\n"
_TIMEOUT_S = 300.0
_FRAME = re.compile(rb"\r\n[0-9a-fA-F]+\r\n")
_CONTENT = re.compile(rb'"content":"((?:[^"\\]|\\.)*)"')
KEY = "sk-roundhouse-benchmark-0123456789abcdef"
"""What is sent as the API key: LiteLLM insists on one."""


class Read(NamedTuple):
    """Bytes as they came, and when."""

    at: float
    data: bytes


class Answer(NamedTuple):
    """One streamed answer."""

    sent_at: float
    reads: list[Read]

    def body(self) -> bytes:
        """All of it, headers and chunk sizes included."""
        return b"".join(read.data for read in self.reads)

    def events(self) -> bytes:
        """The events, out of the frames that HTTP put them in."""
        return _FRAME.sub(b"", self.body())

    def content(self) -> str:
        """The text of the reply."""
        return b"".join(_CONTENT.findall(self.events())).decode()

    def check(self, tokens: int) -> None:
        """Raises ValueError unless it is a whole stream with a chunk for every token."""
        body = self.events()
        if not body.startswith(b"HTTP/1.1 200") or b"data: [DONE]" not in body[-64:]:
            raise ValueError(f"not a whole stream of 200: {body[:200]!r} … {body[-200:]!r}")
        said = body.count(b'"content":"')
        if said < tokens:
            raise ValueError(f"{said} chunks with content, expected at least {tokens}")


class Connection(asyncio.Protocol):
    """One kept-alive connection, one call at a time."""

    def __init__(self) -> None:
        self._reads: list[Read] = []
        self._tail = b""
        self._done: asyncio.Future[None] | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._reads.append(Read(time.monotonic(), data))
        self._tail = self._tail[-4:] + data if len(data) < len(_END) else data
        if self._tail.endswith(_END) and self._done is not None and not self._done.done():
            self._done.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_exception(ConnectionError(f"cut after {b''.join(read.data for read in self._reads)[-300:]}"))

    async def call(self, request: bytes) -> Answer:
        """Sends a request and reads its chunked answer to the end."""
        assert self._transport is not None
        self._reads, self._tail = [], b""
        self._done = asyncio.get_running_loop().create_future()
        sent_at = time.monotonic()
        self._transport.write(request)
        async with asyncio.timeout(_TIMEOUT_S):
            await self._done
        return Answer(sent_at, self._reads)

    def close(self) -> None:
        """Ends it."""
        if self._transport is not None:
            self._transport.close()


def http_request(body: bytes, **headers: str) -> bytes:
    """A chat completion as one client sends it."""
    more = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {KEY}\r\n{more}"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


@asynccontextmanager
async def connections(url: str, count: int) -> AsyncGenerator[list[Connection]]:
    """Some connections to one server."""
    parts = urlsplit(url)
    loop = asyncio.get_running_loop()
    opened: list[Connection] = []
    try:
        for _ in range(count):
            _, connection = await loop.create_connection(Connection, parts.hostname or "", parts.port or 80)
            opened.append(connection)
        yield opened
    finally:
        for connection in opened:
            connection.close()


@contextmanager
def no_collection() -> Generator[None]:
    """The clients' own garbage collection is not what is measured."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


async def burst(url: str, request: Callable[[], bytes], *, concurrency: int, seconds: float, tokens: int) -> float:
    """Streams a second while `concurrency` clients each start the next stream when one has ended."""
    ended: list[float] = []

    async def client(connection: Connection, until: float) -> None:
        while True:
            answer = await connection.call(request())
            answer.check(tokens)
            ended.append(time.monotonic())
            if ended[-1] >= until:
                return

    async with connections(url, concurrency) as opened:
        with no_collection():
            started = time.monotonic()
            await asyncio.gather(*(client(connection, started + seconds) for connection in opened))
    return len(ended) / (max(ended) - started)


class Latencies(NamedTuple):
    """Seconds, of every chunk or stream of a paced round."""

    chunk: np.ndarray
    """From the engine's write of a token to the client's read of its last character."""
    first: np.ndarray
    """From the request to the first content."""
    last: np.ndarray
    """From the engine's write of the last token to the end of the stream."""


async def paced(
    url: str, engine: str, requests: dict[int, bytes], *, interval_s: float, pieces: list[str]
) -> Latencies:
    """One stream for each request, all at once, a token every `interval_s` in each of them."""
    await ask(engine, "/pace", {"interval_s": interval_s})
    async with connections(url, len(requests)) as opened:
        with no_collection():
            calls = [one.call(request) for one, request in zip(opened, requests.values(), strict=True)]
            answers = dict(zip(requests, await asyncio.gather(*calls), strict=True))
    await ask(engine, "/pace", {"interval_s": 0.0})
    stamps = {int(seed): times for seed, times in (await ask(engine, "/stamps")).items()}
    chunk, first, last = list[np.ndarray](), list[float](), list[float]()
    ends = np.cumsum([len(piece) for piece in pieces])
    for seed, answer in answers.items():
        if answer.content() != "".join(pieces):
            raise ValueError(f"stream {seed} said {answer.content()[:200]!r}, expected the reply of the stub")
        seen = arrivals(answer, ends)
        chunk.append(seen - np.asarray(stamps[seed]))
        first.append(seen[0] - answer.sent_at)
        last.append(answer.reads[-1].at - stamps[seed][-1])
    return Latencies(np.concatenate(chunk), np.asarray(first), np.asarray(last))


def arrivals(answer: Answer, ends: np.ndarray) -> np.ndarray:
    """When the last character of each token was there; `ends` are the lengths of the text up to and with each."""
    body = answer.body()
    read_ends = np.cumsum([len(read.data) for read in answer.reads])
    read_at = np.asarray([read.at for read in answer.reads])
    found = [(match.end(), len(match.group(1))) for match in _CONTENT.finditer(body) if match.group(1)]
    # A content string is there with its last byte.
    text_ends = np.cumsum([length for _, length in found])
    which = np.searchsorted(text_ends, ends)
    places = np.asarray([place for place, _ in found])[which]
    return read_at[np.searchsorted(read_ends, places)]


async def ask(url: str, path: str, body: Any = None) -> Any:
    """A small request to the stub or a server, and its JSON answer; raises ValueError unless it is 200."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    data = b"" if body is None else json.dumps(body).encode()
    method = "GET" if body is None else "POST"
    writer.write(
        f"{method} {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {KEY}\r\nconnection: close\r\n"
        f"content-type: application/json\r\ncontent-length: {len(data)}\r\n\r\n".encode()
        + data
    )
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"content-length: *(\d+)", head, re.IGNORECASE)
    answer = await reader.readexactly(int(length.group(1))) if length else b"null"
    writer.close()
    if b" 200 " not in head.splitlines()[0]:
        raise ValueError(f"{path} answered {head[:200]!r} {answer[:300]!r}")
    return json.loads(answer)
