"""Writes one answer to a client that may leave at any moment, streamed or whole."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing, suppress
from time import monotonic
from urllib.parse import quote

from starlette.types import Message, Receive, Send

from collector.conversation import Outcome
from collector.errors import EngineError
from collector.metrics import Metrics
from collector.refusal import Refusal
from collector.shapes.exchange import Exchange
from collector.shapes.problem import Problem
from collector.turn import EngineAborted, TurnInProgress
from collector.turnstile import Turnstile

Headers = list[tuple[bytes, bytes]]

_JSON = (b"content-type", b"application/json")
_EVENT_STREAM: Headers = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]
_NOT_RECORDED = b": not recorded\n\n"


class Answer:
    """Carries a turn's events to the client; the client's leaving ends the turn."""

    def __init__(
        self,
        exchange: Exchange,
        turn: TurnInProgress,
        receive: Receive,
        send: Send,
        *,
        ping_interval_s: float,
        metrics: Metrics,
        turnstile: Turnstile,
    ) -> None:
        self._exchange = exchange
        self._turn = turn
        self._receive = receive
        self._send = send
        self._ping_interval_s = ping_interval_s
        self._metrics = metrics
        self._turnstile = turnstile
        self._headers: Headers = [
            (b"x-roundhouse-session", quote(turn.name.session_id, safe="/:@+=,;!~ ").encode()),
            (b"x-roundhouse-turn", turn.name.turn_id.encode()),
        ]
        if (target := turn.plan.target).adapter is not None:
            self._headers.append((b"x-roundhouse-version", f"{target.adapter}@{target.version}".encode()))
        if turn.plan.canary:
            self._headers.append((b"x-roundhouse-arm", b"canary"))
        if exchange.left_out:
            self._headers.append(
                (b"x-roundhouse-tools-left-out", quote(", ".join(exchange.left_out), safe=", ").encode())
            )
        self._started = False
        self._over = False
        """Whether the last bytes were sent, or nobody is left to read them."""
        self._last_sent = monotonic()
        self._writing = asyncio.Lock()

    async def run(self) -> None:
        """Serves the turn to its end, or until the client leaves."""
        work = asyncio.create_task(self._work())
        side = [asyncio.create_task(self._end_when_client_leaves(work))]
        if self._exchange.stream:
            side.append(asyncio.create_task(self._ping()))
        try:
            await asyncio.wait({work})
        except asyncio.CancelledError:
            # The server stops: the turn is recorded as far as it came.
            work.cancel()
            await asyncio.wait({work})
        finally:
            for task in side:
                task.cancel()
        if not work.cancelled():
            work.result()

    async def _work(self) -> None:
        turn, exchange = self._turn, self._exchange
        try:
            async with aclosing(turn.events()) as batches:
                async for events in batches:
                    if exchange.stream:
                        await self._write(lambda events=events: exchange.events(events))
            await self._end(await self._finished())
        # A client that left shows as a cancellation, or as a failed write.
        except (asyncio.CancelledError, OSError):
            self._over = True
            await turn.abandon()
        except (EngineError, EngineAborted) as error:
            await self._refuse(await turn.fail(error))
        except Refusal as refusal:
            await self._refuse(refusal)
        finally:
            try:
                await turn.settle()
            finally:
                # A fault of ours: it rises on, and the client is told what it can read.
                if not self._over:
                    await self._refuse(Refusal.fault())

    async def _finished(self) -> Outcome:
        """The turn on record, as whole as its reply is, though the client may leave while it waits to be recorded."""
        try:
            await self._turnstile.enter()
        except asyncio.CancelledError:
            self._over = True
            with suppress(Refusal):
                await self._turn.finish()
            raise
        return await self._turn.finish()

    async def _end(self, outcome: Outcome) -> None:
        if self._exchange.stream:
            closing = b"" if outcome.recorded else _NOT_RECORDED
            await self._write(lambda: closing + self._exchange.closing(outcome), last=True)
            return
        body = self._exchange.body(outcome)
        recorded: Headers = [] if outcome.recorded else [(b"x-roundhouse-recorded", b"false")]
        self._over = True
        await send_whole(self._send, 200, [*self._headers, *recorded, _JSON], body)

    async def _refuse(self, refusal: Refusal) -> None:
        # Also where the stream has begun with 200: the error event says this status's error.
        self._metrics.refusals.labels(refusal.status).inc()
        if self._started:
            await self._write(lambda: self._exchange.broken_off(refusal), last=True)
        else:
            self._started = self._over = True
            problem = self._exchange.problem(refusal)
            await send_refusal(self._send, problem, refusal.retry_after_s, self._headers)

    async def _write(self, piece: Callable[[], bytes], *, last: bool = False) -> None:
        async with self._writing:
            opening = b""
            if not self._started:
                self._started = True
                await self._send(_start(200, [*self._headers, *_EVENT_STREAM]))
                opening = self._exchange.opening(self._turn.name)
            body = opening + piece()
            self._over = self._over or last
            if body or last:
                await self._send({"type": "http.response.body", "body": body, "more_body": not last})
                self._last_sent = monotonic()

    async def _ping(self) -> None:
        while True:
            silence = monotonic() - self._last_sent
            if silence < self._ping_interval_s:
                await asyncio.sleep(self._ping_interval_s - silence)
            else:
                await self._write(self._exchange.keep_alive)

    async def _end_when_client_leaves(self, work: asyncio.Task[None]) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        work.cancel()


def _start(status: int, headers: Headers) -> Message:
    return {"type": "http.response.start", "status": status, "headers": headers}


async def send_whole(send: Send, status: int, headers: Headers, body: bytes) -> None:
    """One whole response."""
    length = (b"content-length", str(len(body)).encode())
    await send(_start(status, [*headers, length]))
    await send({"type": "http.response.body", "body": body})


async def send_refusal(send: Send, problem: Problem, retry_after_s: int | None, headers: Headers | None = None) -> None:
    """An error, in the shape of its wire."""
    retry: Headers = []
    if retry_after_s is not None:
        retry = [(b"retry-after", str(retry_after_s).encode())]
    await send_whole(send, problem.status, [*(headers or []), *retry, _JSON], problem.body)
