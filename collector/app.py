"""The collector's HTTP surface: which path does what."""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from time import time

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from collector.answer import Answer, send_refusal
from collector.caller import Caller, identify
from collector.collector import Collector
from collector.errors import StoreError
from collector.openapi import document
from collector.refusal import Refusal
from collector.request_body import ClientGone, headers_of, read_bounded
from collector.shapes.chat import ChatExchange
from collector.shapes.exchange import Exchange
from collector.shapes.generate import GenerateExchange
from collector.shapes.messages import MessagesExchange, TokenCount, counted_call
from collector.shapes.messages_problem import messages_problem
from collector.shapes.problem import Problem, openai_problem
from collector.shapes.responses import ResponsesExchange
from collector.turnstile import Turnstile

_log = logging.getLogger(__name__)

WordProblem = Callable[[Refusal], Problem]
"""How a wire words its errors."""


class TurnEndpoint:
    """Serves model calls in one wire shape."""

    def __init__(
        self,
        collector: Collector,
        turnstile: Turnstile,
        shape: Callable[[bytes], Exchange],
        problem: WordProblem,
    ) -> None:
        self._collector = collector
        self._shape = shape
        self._problem = problem
        self._turnstile = turnstile

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Reads, prepares and answers one call."""
        collector = self._collector
        try:
            caller, body = await _read(collector, scope, receive)
            started_at = datetime.now(UTC)
            with collector.capture.arriving():
                await self._turnstile.enter()
            exchange = self._shape(body)
            turn = await collector.capture.begin(exchange.call, caller.naming(exchange.call.session_name), started_at)
        except (Refusal, RecursionError, StoreError) as error:
            await _refuse(collector, send, error, self._problem)
            return
        except ClientGone:
            return
        await Answer(
            exchange,
            turn,
            receive,
            send,
            ping_interval_s=collector.config.ping_interval_s,
            metrics=collector.metrics,
            turnstile=self._turnstile,
        ).run()


class BodyEndpoint:
    """Serves requests that are answered with one small JSON body."""

    def __init__(
        self,
        collector: Collector,
        accept: Callable[[bytes, Caller], Awaitable[bytes]],
        problem: WordProblem = openai_problem,
    ) -> None:
        self._collector = collector
        self._accept = accept
        self._problem = problem

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Reads and answers one request."""
        try:
            caller, body = await _read(self._collector, scope, receive)
            answer = await self._accept(body, caller)
        except (Refusal, RecursionError, StoreError) as error:
            await _refuse(self._collector, send, error, self._problem)
        except ClientGone:
            return
        else:
            await Response(answer, media_type="application/json")(scope, receive, send)


async def _read(collector: Collector, scope: Scope, receive: Receive) -> tuple[Caller, bytes]:
    headers = headers_of(scope)
    owner = collector.keys.owner(headers)
    config = collector.config
    idle_s = config.request_idle_timeout_s
    body = await read_bounded(receive, headers, config.max_request_bytes, idle_timeout_s=idle_s)
    return identify(headers, tenant=owner.tenant, key_sha256=owner.key_sha256), body


async def _refuse(
    collector: Collector, send: Send, error: Refusal | RecursionError | StoreError, problem: WordProblem
) -> None:
    if isinstance(error, RecursionError):
        error = Refusal.invalid("the request is nested too deeply; flatten it", code="too_deep")
    if isinstance(error, StoreError):
        _log.error("a request is refused: %s", error)
        error = Refusal.busy(f"what is stored cannot be read: {error}", code="store_unavailable")
    collector.metrics.refusals.labels(error.status).inc()
    await send_refusal(send, problem(error), error.retry_after_s)


class _ErrorAnswers:
    """Answers what the endpoints themselves do not: unknown paths, and refusals of the small ones."""

    def __init__(self, collector: Collector) -> None:
        self._collector = collector

    async def of_http(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        refusal = Refusal(
            f"{request.method} {request.url.path[:200]} is not served here: {error.detail}",
            status=error.status_code,
            kind="invalid_request_error",
            code="unknown_url" if error.status_code == 404 else None,
        )
        return self._response(refusal, error.headers)

    async def of_refusal(self, _: Request, error: Exception) -> Response:
        assert isinstance(error, Refusal)
        return self._response(error, None)

    async def of_fault(self, _: Request, __: Exception) -> Response:
        return self._response(Refusal.fault(), None)

    def _response(self, refusal: Refusal, headers: Mapping[str, str] | None) -> Response:
        self._collector.metrics.refusals.labels(refusal.status).inc()
        status, body = openai_problem(refusal)
        return Response(body, status, headers, media_type="application/json")


def build_app(collector: Collector) -> Starlette:
    """The application around one collector, which it starts and stops."""

    started = int(time())
    errors = _ErrorAnswers(collector)
    turnstile = Turnstile()

    def turns(shape: Callable[[bytes], Exchange], problem: WordProblem = openai_problem) -> TurnEndpoint:
        return TurnEndpoint(collector, turnstile, shape, problem)

    async def models(request: Request) -> Response:
        owner = collector.keys.owner(headers_of(request.scope))
        names = collector.routes.models(owner.tenant)
        data = [{**_model(name, started, owner.tenant), **collector.describe()} for name in names]
        ends = {"first_id": names[0] if names else None, "last_id": names[-1] if names else None}
        return _json({"object": "list", "data": data, "has_more": False, **ends})

    async def model(request: Request) -> Response:
        owner = collector.keys.owner(headers_of(request.scope))
        name = request.path_params["name"]
        collector.routes.target(owner.tenant, name, session_id="", pinned=None)
        return _json(_model(name, started, owner.tenant))

    async def root(_: Request) -> Response:
        return _json({"service": "roundhouse collector"})

    async def count_tokens(body: bytes, caller: Caller) -> bytes:
        call = counted_call(body)
        tokens = await collector.capture.count(call, caller.naming(call.session_name))
        return msgspec.json.encode(TokenCount(tokens))

    described = msgspec.json.encode(document())

    async def openapi(_: Request) -> Response:
        return Response(described, media_type="application/json")

    async def health(_: Request) -> Response:
        return _json(collector.health())

    async def ready(_: Request) -> Response:
        missing = await collector.not_ready()
        return _json({"ready": not missing, "missing": missing}, status=503 if missing else 200)

    async def metrics(_: Request) -> Response:
        collector.observe()
        return Response(collector.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        async with collector.running():
            yield

    return Starlette(
        routes=[
            Route("/v1/chat/completions", turns(ChatExchange), methods=["POST"]),
            Route("/v1/responses", turns(ResponsesExchange), methods=["POST"]),
            Route("/v1/messages", turns(MessagesExchange, messages_problem), methods=["POST"]),
            Route(
                "/v1/messages/count_tokens",
                BodyEndpoint(collector, count_tokens, messages_problem),
                methods=["POST"],
            ),
            Route("/generate", turns(GenerateExchange), methods=["POST"]),
            Route("/v1/feedback", BodyEndpoint(collector, collector.desk.accept), methods=["POST"]),
            Route("/v1/events", BodyEndpoint(collector, collector.desk.declare), methods=["POST"]),
            Route("/v1/models", models, methods=["GET"]),
            Route("/v1/models/{name:path}", model, methods=["GET"]),
            Route("/", root, methods=["GET"]),
            Route("/health", health, methods=["GET"]),
            Route("/ready", ready, methods=["GET"]),
            Route("/metrics", metrics, methods=["GET"]),
            Route("/openapi.json", openapi, methods=["GET"]),
        ],
        exception_handlers={HTTPException: errors.of_http, Refusal: errors.of_refusal, Exception: errors.of_fault},
        lifespan=lifespan,
    )


def _model(name: str, started: int, tenant: str) -> dict[str, object]:
    """A model as OpenAI's clients read it, and as Anthropic's do."""
    return {
        "id": name,
        "object": "model",
        "created": started,
        "owned_by": tenant,
        "type": "model",
        "display_name": name,
        "created_at": datetime.fromtimestamp(started, UTC).isoformat(),
    }


def _json(value: object, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status, media_type="application/json")
