"""Streamed answers of an engine over kept-alive connections: bytes as they come, with little work for each of them.

A token may come in an HTTP chunk of its own, which costs a general client several times what parsing it does.
"""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from time import monotonic
from urllib.parse import urlsplit

import httptools

_HELD_BYTES = 256 * 1024
"""More than this of a body is not read ahead of whoever takes it."""
_HEAD_BYTES = 256 * 1024
"""No head of an answer is longer, with all that may come before it."""


class NotConnected(Exception):
    """There is no connection: nothing was sent."""


class StreamCut(Exception):
    """The answer ended before it was whole, or was no HTTP."""


class StreamClosed(StreamCut):
    """The connection was closed before the answer was whole."""


class StreamedAnswer(asyncio.Protocol):
    """One connection, and the answer that comes over it now."""

    def __init__(self, pool: "StreamPool") -> None:
        self._pool = pool
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._waits_since = 0.0
        self._watch: asyncio.TimerHandle | None = None
        self._error: StreamCut | None = None
        """Why nothing more comes over the connection."""
        self._asked = self._headed = self._whole = self._keeps_alive = self._paused = False
        self.status = 0
        self._headers: dict[bytes, bytes] = {}
        self._pieces: list[bytes] = []
        self._held = self._head_bytes = 0

    @property
    def is_open(self) -> bool:
        """Whether neither side has begun to end the connection."""
        return self._transport is not None and not self._transport.is_closing()

    @property
    def content_type(self) -> str:
        """The media type, without its parameters."""
        return self._headers.get(b"content-type", b"").decode("latin-1").partition(";")[0].strip().lower()

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """The body as it comes. StreamCut when it is not whole, TimeoutError after too long a silence."""
        while True:
            if self._pieces:
                piece = b"".join(self._pieces)
                self._pieces.clear()
                self._held = 0
                self._read_on()
                yield piece
            elif self._whole:
                return
            else:
                await self._more()

    async def read(self) -> bytes:
        """The whole body."""
        return b"".join([piece async for piece in self.pieces()])

    async def ask(self, request: bytes) -> None:
        """Sends a request and waits for the head of its answer."""
        assert self._transport is not None
        self._asked, self._headed, self._whole, self._headers = True, False, False, {}
        self._held = self._head_bytes = 0
        self._transport.write(request)
        while not self._headed:
            await self._more()

    def is_reusable(self) -> bool:
        """Whether another request may be sent over the connection."""
        return self._whole and self._keeps_alive and not self._pieces and self._error is None

    def rest(self) -> None:
        """Expects nothing until it is asked again."""
        self._asked = False

    def close(self) -> None:
        """Ends the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    async def _more(self) -> None:
        if self._error is not None:
            raise self._error
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        self._waits_since = loop.time()
        if self._watch is None:
            self._watch = loop.call_later(self._pool.idle_timeout_s, self._end_long_silence)
        await self._waiter

    def _end_long_silence(self) -> None:
        # One timer for many waits: it looks whether the one under way is the one that it was set for.
        self._watch = None
        if self._waiter is None or self._waiter.done():
            return
        loop = asyncio.get_running_loop()
        due = self._waits_since + self._pool.idle_timeout_s
        if loop.time() >= due:
            self._waiter.set_exception(TimeoutError(f"silent for {self._pool.idle_timeout_s:g} s"))
        else:
            self._watch = loop.call_at(due, self._end_long_silence)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _read_on(self) -> None:
        if self._paused and self._transport is not None and self._error is None:
            self._paused = False
            self._transport.resume_reading()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection stands."""
        # uvloop's transports are no subclasses of asyncio's.
        self._transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        """Bytes came."""
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._error = self._error or StreamCut(f"no HTTP answer: {error}")
        self._check_head(len(data))
        if self._error is not None:
            self._pool.forget(self)
            self.close()
        elif self._held > _HELD_BYTES and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()
        self._wake()

    def _check_head(self, size: int) -> None:
        self._head_bytes += 0 if self._headed else size
        if self._head_bytes > _HEAD_BYTES and not self._headed:
            self._error = self._error or StreamCut(f"a head of more than {_HEAD_BYTES} bytes")

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
        self._pool.forget(self)
        if self._watch is not None:
            self._watch.cancel()
        framed = b"content-length" in self._headers or b"transfer-encoding" in self._headers
        if self._headed and not framed and exc is None and self._error is None:
            self._whole = True
        self._error = self._error or StreamClosed(str(exc or "") or "the connection was closed")
        self._wake()

    def on_message_begin(self) -> None:
        """An answer begins."""
        if not self._asked or self._whole:
            # Taken for the next answer it would be that of another request.
            self._error = self._error or StreamCut("an answer that nobody asked for")
        elif not self._headed:
            # Those of a 1xx are not those of the answer.
            self._headers = {}

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header of the answer."""
        # What comes after the body is no part of the head.
        if not self._headed:
            self._headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        """The head is whole."""
        self.status = self._parser.get_status_code()
        # After 1xx comes the answer itself.
        self._headed = self.status >= 200

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        self._pieces.append(body)
        self._held += len(body)

    def on_message_complete(self) -> None:
        """The answer is whole."""
        self._whole = self._headed
        self._keeps_alive = self._parser.should_keep_alive()


class StreamPool:
    """Connections to one engine. An idle one is used again for `keep_alive_s` at most."""

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str],
        *,
        connect_timeout_s: float,
        idle_timeout_s: float,
        keep_alive_s: float,
    ) -> None:
        parts = urlsplit(url)
        self._host, self._secure = parts.hostname or "", parts.scheme == "https"
        self._port = parts.port or (443 if self._secure else 80)
        lines = {"host": parts.netloc, "content-type": "application/json", **headers}
        if any(mark in value for value in lines.values() for mark in "\r\n\0"):
            raise ValueError("a header for the engine holds a line break, expected one line")
        self._head = "".join(f"{name}: {value}\r\n" for name, value in lines.items()).encode()
        self._connect_timeout_s = connect_timeout_s
        self.idle_timeout_s = idle_timeout_s
        self._keep_alive_s = keep_alive_s
        self._tls: ssl.SSLContext | None = None
        self._idle: dict[StreamedAnswer, float] = {}
        """Since when each has been idle, the longest first."""

    @asynccontextmanager
    async def post(self, path: str, body: bytes) -> AsyncGenerator[StreamedAnswer]:
        """The answer to a request; left early, its connection is closed. NotConnected, StreamCut or TimeoutError."""
        connection = self._take_idle() or await self._connect()
        try:
            length = b"content-length: %d\r\n\r\n" % len(body)
            await connection.ask(b"POST %b HTTP/1.1\r\n%b%b%b" % (path.encode(), self._head, length, body))
            yield connection
        finally:
            if connection.is_reusable():
                connection.rest()
                self._idle[connection] = monotonic()
            else:
                connection.close()

    def forget(self, connection: StreamedAnswer) -> None:
        """A connection is not to be used again."""
        self._idle.pop(connection, None)

    def close(self) -> None:
        """Closes what is idle."""
        while self._idle:
            self._idle.popitem()[0].close()

    def _take_idle(self) -> StreamedAnswer | None:
        oldest = monotonic() - self._keep_alive_s
        for connection in [connection for connection, since in self._idle.items() if since < oldest]:
            del self._idle[connection]
            connection.close()
        while self._idle:
            connection = self._idle.popitem()[0]
            if connection.is_open:
                return connection
        return None

    async def _connect(self) -> StreamedAnswer:
        loop = asyncio.get_running_loop()
        if self._secure and self._tls is None:
            self._tls = await asyncio.to_thread(ssl.create_default_context)
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                _, connection = await loop.create_connection(
                    lambda: StreamedAnswer(self), self._host, self._port, ssl=self._tls
                )
        except (OSError, TimeoutError) as error:
            raise NotConnected(str(error) or type(error).__name__) from error
        return connection
