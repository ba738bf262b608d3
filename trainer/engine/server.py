"""The engine over HTTP: generation, health and information, by the routes of SGLang that this project uses."""

import asyncio
import time
import uuid
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from collector.engine.wire import GenerateRequest, ModelInfo, SamplingParams
from trainer.engine.control_routes import ControlRoutes
from trainer.engine.engine import Engine
from trainer.engine.engine_refusal import EngineRefusal
from trainer.engine.generate_body import decode_generate
from trainer.engine.metrics import metrics_of, prometheus_text
from trainer.engine.reply import Reply
from trainer.engine.sequence import Progress

HEALTH_TIMEOUT_S = 20.0
"""How long the engine may take to answer before it counts as unhealthy; SGLang's default."""


def build_app(engine: Engine, *, on_end: Callable[[], None] = lambda: None) -> Starlette:
    """The application of an engine; it starts and stops the engine's thread. `on_end` is called when that has ended."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        engine.start()
        watcher = asyncio.create_task(_watch(engine, on_end))
        yield
        watcher.cancel()
        await engine.stop()

    routes = [*DataRoutes(engine).routes(), *ControlRoutes(engine).routes()]
    return Starlette(routes=routes, exception_handlers={EngineRefusal: _refused}, lifespan=lifespan)


async def _watch(engine: Engine, on_end: Callable[[], None]) -> None:
    await engine.ended.wait()
    on_end()


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, EngineRefusal)
    return JSONResponse({"error": {"message": str(error)}}, status_code=error.status)


class DataRoutes:
    """Generation, health and information."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def routes(self) -> list[Route]:
        """Path to method."""
        get, both = ["GET"], ["GET", "POST"]
        return [
            Route("/generate", self.generate, methods=["POST", "PUT"]),
            Route("/health", self.health, methods=get),
            Route("/health_generate", self.health_generate, methods=get),
            Route("/ready", self.ready, methods=get),
            Route("/model_info", self.model_info, methods=both),
            Route("/get_model_info", self.model_info, methods=both),
            Route("/server_info", self.server_info, methods=get),
            Route("/get_server_info", self.server_info, methods=get),
            Route("/v1/loads", self.loads, methods=get),
            Route("/metrics", self.metrics, methods=get),
        ]

    async def generate(self, request: Request) -> Reply:
        """Samples from the model."""
        reply = Reply(self._engine, decode_generate(await request.body()))
        await reply.submit()
        return reply

    async def health(self, _: Request) -> Response:
        """Whether the torch thread answers; works in a pause too."""
        return await self._answers(self._engine.between_steps(lambda: None))

    async def health_generate(self, _: Request) -> Response:
        """Whether a token can be sampled; in a pause it cannot."""
        return await self._answers(self._generate_one())

    async def ready(self, _: Request) -> Response:
        """Whether a new request would be computed: not in a pause."""
        return Response(status_code=200 if self._engine.alive and not self._engine.load.paused else 503)

    async def model_info(self, _: Request) -> Response:
        """What is served."""
        config = self._engine.model.config
        kind = {"model_type": config.model_type, "architectures": config.architectures, "is_generation": True}
        return JSONResponse({**msgspec.to_builtins(self._info()), **kind})

    async def server_info(self, _: Request) -> Response:
        """The settings, and how busy the engine is."""
        state = {"weight_version": self._engine.scheduler.weight_version, **self._load_json()}
        settings = msgspec.to_builtins(self._engine.settings)
        dtype = str(self._engine.model.network.dtype).removeprefix("torch.")
        found = {
            "dtype": dtype,
            "launch_id": self._engine.launch_id,
            "max_context": self._engine.max_context,
            "kv_tokens": self._engine.scheduler.kv_tokens,
        }
        return JSONResponse({**settings, **found, "engine": "roundhouse", "internal_states": [state]})

    async def loads(self, _: Request) -> Response:
        """How busy the engine is, in the shape of SGLang's one-rank answer."""
        return JSONResponse({"engine": "roundhouse", "loads": [self._load_json()]})

    async def metrics(self, _: Request) -> Response:
        """The same for Prometheus."""
        return PlainTextResponse(prometheus_text(self._engine.load.aged(time.monotonic()), self._info()))

    def _info(self) -> ModelInfo:
        engine = self._engine
        return ModelInfo(
            model_path=engine.model.folder,
            served_model_name=engine.settings.served_name or engine.settings.model,
            weight_version=engine.scheduler.weight_version,
            tokenizer_path=engine.model.folder if engine.codec is not None else None,
        )

    def _load_json(self) -> dict[str, Any]:
        load = self._engine.load.aged(time.monotonic())
        named = {metric.name: metric.value for metric in metrics_of(load)}
        lora = {"slots_used": load.adapters, "slots_total": load.adapter_slots}
        return {"dp_rank": 0, "num_waiting_reqs": load.waiting, "lora": lora, "paused": load.paused, **named}

    async def _answers(self, sign: Any) -> Response:
        try:
            await asyncio.wait_for(sign, HEALTH_TIMEOUT_S)
        except TimeoutError:
            return PlainTextResponse(f"no answer within {HEALTH_TIMEOUT_S:g} s", status_code=503)
        return Response(status_code=200)

    async def _generate_one(self) -> None:
        params = SamplingParams(max_new_tokens=1, temperature=0.0)
        request = GenerateRequest(input_ids=[0], sampling_params=params, rid=f"HEALTH_CHECK_{uuid.uuid4().hex}")
        done: asyncio.Queue[Progress] = asyncio.Queue()
        await self._engine.submit(request, done.put_nowait)
        try:
            await done.get()
        finally:
            await self._engine.abort(request.rid)
