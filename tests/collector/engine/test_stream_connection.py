"""Connections to the engine: used again only when that is safe, and every way an answer may be framed or cut."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from collector.engine.stream_connection import NotConnected, StreamCut, StreamPool

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
WHOLE = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
CHUNKS = b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"


class Engine:
    """A loopback server that plays `script`, and counts its connections."""

    def __init__(self, script: Callable[[int, asyncio.StreamWriter], Awaitable[None]]) -> None:
        self._script = script
        self.connections = 0
        self.requests: list[bytes] = []

    async def __aenter__(self) -> "Engine":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.pool = StreamPool(
            f"http://127.0.0.1:{port}",
            {"authorization": "Bearer k"},
            connect_timeout_s=2,
            idle_timeout_s=0.5,
            keep_alive_s=2,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        self.pool.close()
        self._server.close()
        await asyncio.sleep(0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
                self.requests.append(head + await reader.readexactly(length))
                await self._script(len(self.requests), writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def ask(self) -> tuple[int, str, bytes]:
        async with self.pool.post("/generate", b"{}") as answer:
            return answer.status, answer.content_type, await answer.read()


def sends(*answers: bytes, close: bool = False) -> Engine:
    """The n-th answer for the n-th request, the last one for all further ones."""

    async def script(number: int, writer: asyncio.StreamWriter) -> None:
        writer.write(answers[min(number, len(answers)) - 1])
        if close:
            writer.close()

    return Engine(script)


async def test_a_request_and_its_answer() -> None:
    async with sends(WHOLE + CHUNKS) as engine:
        assert await engine.ask() == (200, "text/event-stream", b"abcde")
        (request,) = engine.requests
    assert request.startswith(b"POST /generate HTTP/1.1\r\nhost: 127.0.0.1:")
    assert b"\r\nauthorization: Bearer k\r\n" in request
    assert request.endswith(b"\r\ncontent-length: 2\r\n\r\n{}")


async def test_a_connection_is_used_again_after_a_whole_answer() -> None:
    async with sends(WHOLE + CHUNKS, b"HTTP/1.1 400 Bad\r\ncontent-length: 2\r\n\r\nno", WHOLE + CHUNKS) as engine:
        assert [status for status, _, _ in [await engine.ask() for _ in range(3)]] == [200, 400, 200]
        assert engine.connections == 1


async def test_what_comes_before_the_answer_is_not_taken_for_it() -> None:
    async with sends(b"HTTP/1.1 100 Continue\r\n\r\n" + WHOLE + CHUNKS) as engine:
        assert await engine.ask() == (200, "text/event-stream", b"abcde")


@pytest.mark.parametrize(
    "last", [WHOLE.replace(b"chunked", b"chunked\r\nconnection: close") + CHUNKS, WHOLE + CHUNKS + WHOLE]
)
async def test_a_connection_is_not_used_again_where_that_is_not_safe(last: bytes) -> None:
    async with sends(last, WHOLE + CHUNKS) as engine:
        assert (await engine.ask())[2] == b"abcde"
        assert (await engine.ask())[2] == b"abcde"
        assert engine.connections == 2


async def test_an_answer_that_nobody_asked_for_ends_an_idle_connection() -> None:
    writers: list[asyncio.StreamWriter] = []

    async def script(_: int, writer: asyncio.StreamWriter) -> None:
        writer.write(WHOLE + CHUNKS)
        writers.append(writer)

    async with Engine(script) as engine:
        await engine.ask()
        writers[0].write(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nother")
        await asyncio.sleep(0.05)
        assert (await engine.ask())[2] == b"abcde"
        assert engine.connections == 2


async def test_an_answer_without_a_length_lasts_until_the_end_of_its_connection() -> None:
    async with sends(b"HTTP/1.1 200 OK\r\n\r\nall of it", close=True) as engine:
        assert await engine.ask() == (200, "", b"all of it")


@pytest.mark.parametrize(
    "cut",
    [
        b"",
        b"HTTP/1.1 200",
        WHOLE,
        WHOLE + b"3\r\nab",
        WHOLE + b"3\r\nabc\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nab",
    ],
)
async def test_a_cut_answer_is_never_whole(cut: bytes) -> None:
    async with sends(cut, close=True) as engine:
        with pytest.raises(StreamCut, match="closed"):
            await engine.ask()


@pytest.mark.parametrize("junk", [b"SSH-2.0-x\r\n", WHOLE + b"zz\r\nabc\r\n"])
async def test_what_is_no_http_is_refused(junk: bytes) -> None:
    async with sends(junk) as engine:
        with pytest.raises(StreamCut, match="no HTTP answer"):
            await engine.ask()


async def test_what_came_before_the_cut_is_given_first() -> None:
    async with sends(WHOLE + b"3\r\nabc\r\n", close=True) as engine, engine.pool.post("/generate", b"{}") as answer:
        pieces = answer.pieces()
        assert await anext(pieces) == b"abc"
        with pytest.raises(StreamCut):
            await anext(pieces)


async def test_silence_ends_the_wait() -> None:
    async with sends(WHOLE + b"3\r\nabc\r\n") as engine:
        with pytest.raises(TimeoutError):
            await engine.ask()


async def test_leaving_early_ends_the_connection() -> None:
    left = asyncio.Event()

    async def script(_: int, writer: asyncio.StreamWriter) -> None:
        writer.write(WHOLE + b"3\r\nabc\r\n")
        while not writer.is_closing():
            writer.write(b"1\r\nx\r\n")
            await writer.drain()
            await asyncio.sleep(0.001)

    async def watched(number: int, writer: asyncio.StreamWriter) -> None:
        try:
            await script(number, writer)
        finally:
            left.set()

    async with Engine(watched) as engine:
        async with engine.pool.post("/generate", b"{}") as answer:
            async for _ in answer.pieces():
                break
        await asyncio.wait_for(left.wait(), 5)


async def test_no_more_is_read_than_is_taken() -> None:
    size, written = 64 * 2**20, 0

    async def script(_: int, writer: asyncio.StreamWriter) -> None:
        nonlocal written
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size)
        for _ in range(size // 65_536):
            writer.write(bytes(65_536))
            await writer.drain()
            written += 65_536

    async with Engine(script) as engine, engine.pool.post("/generate", b"{}") as answer:
        await asyncio.sleep(0.3)
        # What neither side's kernel nor the connection holds has not been written.
        assert written < size / 2
        assert len(await answer.read()) == size


async def test_an_engine_that_is_not_there_was_sent_nothing() -> None:
    async with sends(WHOLE) as engine:
        pass
    with pytest.raises(NotConnected):
        await engine.ask()


def test_a_header_with_a_line_break_is_refused() -> None:
    with pytest.raises(ValueError, match="line break"):
        StreamPool("http://h:1", {"authorization": "a\r\nb: c"}, connect_timeout_s=1, idle_timeout_s=1, keep_alive_s=1)


async def test_headers_are_those_of_the_answer_and_of_nothing_before_or_after_it() -> None:
    early = b"HTTP/1.1 103 Early Hints\r\ncontent-length: 9\r\ncontent-type: text/plain\r\n\r\n"
    trailed = b"3\r\nabc\r\n0\r\ncontent-type: text/plain\r\n\r\n"
    bare = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with sends(early + bare + trailed, WHOLE + trailed) as engine:
        assert await engine.ask() == (200, "", b"abc")
        assert await engine.ask() == (200, "text/event-stream", b"abc")
        assert engine.connections == 1


async def test_what_precedes_an_answer_does_not_say_how_long_it_is() -> None:
    early = b"HTTP/1.1 103 Early Hints\r\ncontent-length: 9\r\n\r\n"
    async with sends(early + b"HTTP/1.1 200 OK\r\n\r\nall of it", close=True) as engine:
        assert (await engine.ask())[2] == b"all of it"


@pytest.mark.parametrize("endless", [b"x-a: " + b"a" * 4096 + b"\r\n", b"HTTP/1.1 100 Continue\r\n\r\n"])
async def test_a_head_without_end_is_refused_and_not_waited_for(endless: bytes) -> None:
    start = b"HTTP/1.1 200 OK\r\n" if endless.startswith(b"x") else b""
    async with sends(start + endless * (1 + 400_000 // len(endless))) as engine:
        with pytest.raises(StreamCut, match="a head of more than"):
            await engine.ask()


async def test_framing_alone_does_not_stop_the_reading() -> None:
    chunk = b"1;name=" + b"v" * 4000 + b"\r\nx\r\n"
    async with sends(WHOLE + chunk * 200 + b"0;last\r\n\r\n") as engine:
        assert (await engine.ask())[2] == b"x" * 200


async def test_an_answer_cut_into_single_bytes_is_the_same() -> None:
    async def script(_: int, writer: asyncio.StreamWriter) -> None:
        for byte in WHOLE + b"3;a=b\r\nabc\r\n2\r\nde\r\n0\r\nx: y\r\n\r\n":
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0)

    async with Engine(script) as engine:
        assert await engine.ask() == (200, "text/event-stream", b"abcde")
        assert (await engine.ask())[2] == b"abcde"
        assert engine.connections == 1


async def test_a_request_that_is_cancelled_takes_its_connection_with_it() -> None:
    came = asyncio.Event()

    async def script(number: int, writer: asyncio.StreamWriter) -> None:
        came.set()
        if number == 1:
            await asyncio.sleep(0.1)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n%d" % number)

    async with Engine(script) as engine:
        first = asyncio.create_task(engine.ask())
        await came.wait()
        first.cancel()
        assert (await engine.ask())[2] == b"2"
        await asyncio.sleep(0.2)
        assert (await engine.ask())[2] == b"3"
        assert engine.connections == 2


async def test_a_connection_that_its_engine_is_closing_is_not_used_again() -> None:
    closing: list[asyncio.StreamWriter] = []

    async def script(_: int, writer: asyncio.StreamWriter) -> None:
        writer.write(WHOLE + CHUNKS)
        closing.append(writer)

    async with Engine(script) as engine:
        for connections in (1, 2, 3):
            assert (await engine.ask())[2] == b"abcde"
            assert engine.connections == connections
            closing[-1].close()
            await asyncio.sleep(0.02)
