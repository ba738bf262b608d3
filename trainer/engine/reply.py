"""The reply to `POST /generate`, whole or as server-sent events, in SGLang's JSON."""

import asyncio
import time
from typing import Any

import msgspec
from starlette.types import Receive, Scope, Send

from collector.engine.wire import Finish, GenerateRequest
from trainer.engine.engine import Engine
from trainer.engine.sequence import Progress
from trainer.engine.text import ReplyText

HEADERS = {
    True: [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")],
    False: [(b"content-type", b"application/json")],
}
"""Of a stream, and of a whole reply."""


class Reply:
    """One request's answer as an ASGI response; a client that leaves, at any time, ends the request."""

    def __init__(self, engine: Engine, request: GenerateRequest) -> None:
        self._engine = engine
        self._request = request
        self._queue: asyncio.Queue[Progress] = asyncio.Queue()
        self._text = ReplyText(engine.codec, request.sampling_params) if engine.codec is not None else None
        self._began = time.monotonic()

    async def submit(self) -> None:
        """Queues the request, or raises why it cannot be served."""
        await self._engine.submit(self._request, self._queue.put_nowait)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends the reply."""
        del scope
        gone = asyncio.create_task(_disconnected(receive))
        finished = False
        try:
            if self._request.stream:
                await send({"type": "http.response.start", "status": 200, "headers": HEADERS[True]})
            parts: list[Progress] = []
            while not finished:
                news = await self._next(gone)
                if news is None:
                    return
                finished = news.finish is not None
                if self._request.stream:
                    await self._send_event(send, news)
                else:
                    parts.append(news)
            await self._send_end(send, parts)
        finally:
            gone.cancel()
            if not finished and self._engine.alive:
                await self._engine.abort(self._request.rid, "The client left.")

    async def _next(self, gone: "asyncio.Task[None]") -> Progress | None:
        """All progress there is; None when the client has left."""
        getting = asyncio.create_task(self._queue.get())
        await asyncio.wait({getting, gone}, return_when=asyncio.FIRST_COMPLETED)
        if gone.done():
            getting.cancel()
            return None
        news = [await getting]
        while not self._queue.empty():
            news.append(self._queue.get_nowait())
        return _merge(news)

    async def _send_event(self, send: Send, news: Progress) -> None:
        event = b"data: " + msgspec.json.encode(self._json(news)) + b"\n\n"
        await send({"type": "http.response.body", "body": event, "more_body": True})

    async def _send_end(self, send: Send, parts: list[Progress]) -> None:
        if self._request.stream:
            await send({"type": "http.response.body", "body": b"data: [DONE]\n\n"})
            return
        body = msgspec.json.encode(self._json(_merge(parts)))
        headers = [*HEADERS[False], (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _json(self, news: Progress) -> dict[str, Any]:
        meta: dict[str, Any] = {
            "id": self._request.rid,
            "finish_reason": _finish_json(news.finish),
            "prompt_tokens": len(self._request.input_ids),
            "completion_tokens": news.completion_tokens,
            "cached_tokens": news.cached_tokens,
            "num_retractions": news.retractions,
            "weight_version": news.weight_version,
        }
        if self._request.return_logprob:
            pairs = zip(news.logprobs, news.token_ids, strict=True)
            meta["input_token_logprobs"] = [[logprob, token, None] for logprob, token in news.input_logprobs]
            meta["output_token_logprobs"] = [[logprob, token, None] for logprob, token in pairs]
            meta["output_token_logprobs_length"] = news.completion_tokens
        if news.finish is not None:
            meta["weight_versions"] = [msgspec.to_builtins(span) for span in news.spans]
            meta["e2e_latency"] = time.monotonic() - self._began
        text = {} if self._text is None else {"text": self._text.add(news.token_ids, news.finish)}
        return {**text, "output_ids": news.token_ids, "meta_info": meta}


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _merge(news: list[Progress]) -> Progress:
    return news[-1]._replace(
        token_ids=[token for part in news for token in part.token_ids],
        logprobs=[logprob for part in news for logprob in part.logprobs],
    )


def _finish_json(finish: Finish | None) -> dict[str, Any] | None:
    if finish is None:
        return None
    if finish.type == "stop":
        return {"type": "stop", "matched": finish.matched}
    if finish.type == "length":
        return {"type": "length", "length": finish.length}
    return {"type": "abort", "message": finish.message, "status_code": finish.status_code, "err_type": None}
