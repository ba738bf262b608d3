"""The one client of an engine's HTTP surface, for SGLang and for the embedded engine."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import msgspec

from collector.engine.address import checked_address
from collector.engine.engine_message import engine_message
from collector.engine.event_stream import EventParser
from collector.engine.reply import ReplyReader
from collector.engine.score_reply import read_scored
from collector.engine.stream_connection import NotConnected, StreamClosed, StreamCut, StreamedAnswer, StreamPool
from collector.engine.wire import (
    Delta,
    GenerateRequest,
    ModelInfo,
    PauseMode,
    SamplingParams,
    Scored,
    WeightUpdate,
    WorkerLoad,
)
from collector.errors import EngineError, EngineUnavailable

_log = logging.getLogger(__name__)
_Answer = TypeVar("_Answer")

# Below the 5 s after which uvicorn closes an idle connection, so that no request meets one that is being closed.
_KEEP_ALIVE_S = 2.0
_UNAVAILABLE = {502, 503, 504}


class _NeverSent(EngineUnavailable):
    """No connection: the engine does not know the request."""


class _Loads(msgspec.Struct, frozen=True):
    loads: list[WorkerLoad]


class _ListedModel(msgspec.Struct, frozen=True):
    id: str
    root: str
    parent: str | None = None


class _Models(msgspec.Struct, frozen=True):
    data: list[_ListedModel]


class EngineClient:
    """Talks to one engine. Every failure is an EngineError; EngineUnavailable when no whole answer came.

    Nothing is sent twice. A reply that breaks the engine's contract is refused, never repaired. Made and used inside
    one running event loop.
    """

    def __init__(
        self,
        url: str,
        *,
        admin_key: str | None = None,
        connect_timeout_s: float = 5.0,
        idle_timeout_s: float = 600.0,
    ) -> None:
        """`idle_timeout_s` is the longest silence that is waited out; a paused engine is silent."""
        self._url = checked_address(url)
        self._headers = {"authorization": f"Bearer {admin_key}"} if admin_key else {}
        self._connect_timeout_s = connect_timeout_s
        self._idle_timeout_s = idle_timeout_s
        self._lazy_session: aiohttp.ClientSession | None = None
        self._streams = StreamPool(
            self._url,
            self._headers,
            connect_timeout_s=connect_timeout_s,
            idle_timeout_s=idle_timeout_s,
            keep_alive_s=_KEEP_ALIVE_S,
        )
        self._aborts: set[asyncio.Task[None]] = set()

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[Delta, None]:
        """What the engine samples, as it comes, each token once; the last delta has the finish and the totals.

        What arrives together is one delta.
        A consumer that stops early must close the generator (`contextlib.aclosing`): that aborts the request.
        """
        if not request.return_logprob:
            raise ValueError("return_logprob is False, expected True: no token is taken without its log mu")
        reader = ReplyReader(request.rid)
        finished = False
        try:
            async with (
                self._streamed("/generate", msgspec.json.encode(request)) as response,
                aclosing(self._payloads(response, request, reader)) as arrivals,
            ):
                async for payloads in arrivals:
                    delta = reader.read(payloads)
                    if delta is not None:
                        finished = delta.finish is not None
                        yield delta
                    if reader.failure is not None:
                        raise reader.failure
            if not reader.ended:
                raise self._cut(reader, "the stream ended")
        except _NeverSent:
            reader.ended = True
            raise
        except StreamClosed as error:
            # With the finish come totals, and they agree: nothing of the reply is missing, only the end of its framing.
            if not finished:
                raise self._cut(reader, _words(error)) from error
        except (StreamCut, TimeoutError) as error:
            raise self._cut(reader, _words(error)) from error
        finally:
            if not reader.ended:
                self._abort_in_background(request.rid)

    async def abort(self, rid: str) -> None:
        """Ends a request early; its reply then finishes with `abort`. An unknown rid is no error."""
        if not rid:
            raise ValueError("rid is empty, expected the name of one request: SGLang matches rids by prefix")
        await self._call("/abort_request", {"rid": rid, "abort_all": False})

    async def score(self, ids: list[int], *, rid: str, lora_path: str | None = None, start: int = 0) -> Scored:
        """Log-probabilities of given tokens, nothing sampled: of those after `start`. At most `start` come from the
        prefix cache."""
        nothing = SamplingParams(max_new_tokens=0)
        request = GenerateRequest(
            input_ids=ids, sampling_params=nothing, rid=rid, lora_path=lora_path, logprob_start_len=start, stream=False
        )
        try:
            status, body = await self._answer("POST", "/generate", msgspec.json.encode(request))
        except (asyncio.CancelledError, EngineUnavailable) as error:
            if not isinstance(error, _NeverSent):
                self._abort_in_background(rid)
            raise
        self._check_status("/generate", status, body)
        return read_scored(body, ids=ids, start=start, rid=rid)

    async def load_adapter(self, name: str, path: Path, *, pinned: bool = False) -> None:
        """Loads the adapter in folder `path`, as the engine sees it, under a name that is not loaded yet.

        SGLang sends one that is not pinned away when it needs the room, and loads it again at its next use.
        """
        await self._call("/load_lora_adapter", {"lora_name": name, "lora_path": _absolute(path), "pinned": pinned})

    async def unload_adapter(self, name: str) -> None:
        """Unloads an adapter; waits for its running requests. SGLang loads it again if a request names it later."""
        await self._call("/unload_lora_adapter", {"lora_name": name})

    async def loaded_adapters(self) -> dict[str, str]:
        """Name of each loaded adapter to its folder, as the engine sees it."""
        models = self._decode("/v1/models", await self._call("/v1/models"), _Models).data
        return {model.id: model.root for model in models if model.parent is not None}

    async def pause(self, mode: PauseMode) -> None:
        """Stops sampling. `abort` ends what runs, `retract` queues it again without its KV, `in_place` keeps its KV.

        Returns when the engine has taken the order: a few more tokens may still arrive.
        """
        await self._call("/pause_generation", {"mode": mode})

    async def resume(self) -> None:
        """Samples on after a pause."""
        await self._call("/continue_generation", {})

    async def flush_cache(self) -> bool:
        """Empties the prefix cache; False when the engine could not, because requests hold it."""
        status, body = await self._answer("POST", "/flush_cache", b"")
        if status == 400:
            return False
        self._check_status("/flush_cache", status, body)
        return True

    async def update_weights_from_disk(
        self,
        model_path: Path,
        *,
        version: str,
        flush_cache: bool = True,
        abort_all_requests: bool = False,
    ) -> WeightUpdate:
        """Replaces the base weights by those in folder `model_path` and labels them `version`.

        Not paused, it waits for what runs. SGLang paused in place with `flush_cache` refuses with 400 after it has
        changed the weights: an EngineError from here never says that the old ones are still served.
        """
        order: dict[str, object] = {
            "model_path": _absolute(model_path),
            "weight_version": version,
            "flush_cache": flush_cache,
            "abort_all_requests": abort_all_requests,
        }
        return self._decode(
            "/update_weights_from_disk", await self._call("/update_weights_from_disk", order), WeightUpdate
        )

    async def model_info(self) -> ModelInfo:
        """What the engine serves, and the label of its base weights."""
        return self._decode("/model_info", await self._call("/model_info"), ModelInfo)

    # Any: an engine's own settings, as it has them.
    async def server_info(self) -> dict[str, Any]:
        """The settings that the engine runs with, by the names of its own flags."""
        return self._decode("/server_info", await self._call("/server_info"), dict[str, Any])

    async def ready(self) -> bool:
        """Whether the engine takes requests now; False while it starts, is paused, or cannot be reached."""
        try:
            status, _ = await self._answer("GET", "/ready", b"")
        except EngineUnavailable:
            return False
        return status == 200

    async def loads(self) -> list[WorkerLoad]:
        """How busy each of the engine's data-parallel workers is."""
        return self._decode("/v1/loads", await self._call("/v1/loads"), _Loads).loads

    async def close(self) -> None:
        """Finishes the aborts under way and closes the connections."""
        while self._aborts:
            await asyncio.gather(*self._aborts, return_exceptions=True)
        self._streams.close()
        if self._lazy_session is not None:
            await self._lazy_session.close()
            self._lazy_session = None

    def _session(self) -> aiohttp.ClientSession:
        if self._lazy_session is None:
            timeout = aiohttp.ClientTimeout(
                total=None, sock_connect=self._connect_timeout_s, sock_read=self._idle_timeout_s
            )
            connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEP_ALIVE_S)
            self._lazy_session = aiohttp.ClientSession(
                connector=connector, timeout=timeout, headers=self._headers, cookie_jar=aiohttp.DummyCookieJar()
            )
        return self._lazy_session

    @asynccontextmanager
    async def _exchange(self, method: str, path: str, body: bytes) -> AsyncGenerator[aiohttp.ClientResponse]:
        headers = {"content-type": "application/json"} if body else {}
        try:
            # Redirects are not followed: the key is for this engine only.
            response = await self._session().request(
                method, self._url + path, data=body or None, headers=headers, allow_redirects=False
            )
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise _NeverSent(f"the engine at {self._url} cannot be reached: {_words(error)}; is it running?") from error
        except (aiohttp.ClientError, TimeoutError) as error:
            raise EngineUnavailable(f"the engine at {self._url} gave {path} no answer: {_words(error)}") from error
        try:
            yield response
        finally:
            # Closes the connection unless the answer has been read to its end.
            response.close()

    @asynccontextmanager
    async def _streamed(self, path: str, body: bytes) -> AsyncGenerator[StreamedAnswer]:
        answered = False
        try:
            async with self._streams.post(path, body) as response:
                answered = True
                yield response
        except NotConnected as error:
            raise _NeverSent(f"the engine at {self._url} cannot be reached: {error}; is it running?") from error
        except (StreamCut, TimeoutError) as error:
            if answered:
                raise
            raise EngineUnavailable(f"the engine at {self._url} gave {path} no answer: {_words(error)}") from error

    async def _payloads(
        self, response: StreamedAnswer, request: GenerateRequest, reader: ReplyReader
    ) -> AsyncGenerator[list[bytes], None]:
        expected = "text/event-stream" if request.stream else "application/json"
        if response.status != 200:
            # Not to be aborted: the rid may be that of another, live request.
            reader.ended = True
            self._check_status("/generate", response.status, await response.read())
        if response.content_type != expected:
            raise EngineError(f"the engine at {self._url} sent {response.content_type}, expected {expected}")
        if not request.stream:
            yield [await response.read()]
            return
        parser = EventParser()
        async for chunk in response.pieces():
            if payloads := [payload for payload in parser.feed(chunk) if payload != b"[DONE]"]:
                yield payloads

    async def _answer(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        async with self._exchange(method, path, body) as response:
            try:
                return response.status, await response.read()
            except (aiohttp.ClientError, TimeoutError) as error:
                raise EngineUnavailable(
                    f"the engine at {self._url} cut its answer to {path}: {_words(error)}"
                ) from error

    async def _call(self, path: str, order: dict[str, object] | None = None) -> bytes:
        method, body = ("GET", b"") if order is None else ("POST", msgspec.json.encode(order))
        status, answer = await self._answer(method, path, body)
        self._check_status(path, status, answer)
        return answer

    def _check_status(self, path: str, status: int, body: bytes) -> None:
        if status == 200:
            return
        kind = EngineUnavailable if status in _UNAVAILABLE else EngineError
        raise kind(f"the engine at {self._url} answered {path} with {status}: {engine_message(body)}", status=status)

    def _decode(self, path: str, body: bytes, kind: type[_Answer]) -> _Answer:
        try:
            return msgspec.json.decode(body, type=kind)
        except msgspec.DecodeError as error:
            raise EngineError(
                f"the engine at {self._url} answered {path} with JSON that cannot be read: {error}"
            ) from error

    def _cut(self, reader: ReplyReader, reason: str) -> EngineUnavailable:
        return EngineUnavailable(
            f"the engine at {self._url} cut the reply to {reader.rid} after {reader.token_count} tokens ({reason}), "
            "expected a finish reason; the request is not sent again"
        )

    def _abort_in_background(self, rid: str) -> None:
        task = asyncio.get_running_loop().create_task(self._abort_if_reachable(rid))
        self._aborts.add(task)
        task.add_done_callback(self._aborts.discard)

    async def _abort_if_reachable(self, rid: str) -> None:
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                await self.abort(rid)
        except (EngineError, TimeoutError) as error:
            _log.warning("request %s was left and could not be aborted: %s", rid, error)


def _absolute(path: Path) -> str:
    return str(path.absolute())


def _words(error: Exception) -> str:
    return str(error) or type(error).__name__
