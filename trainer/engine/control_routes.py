"""The engine over HTTP: adapters, pauses, aborts, weights and the cache."""

from typing import TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from collector.engine.wire import PauseMode
from trainer.engine.adapter_loading import load_adapter, loaded_adapters, unload_adapter
from trainer.engine.engine import Engine
from trainer.engine.engine_refusal import EngineRefusal
from trainer.engine.weight_update import flush_cache, update_weights

B = TypeVar("B", bound=msgspec.Struct)


class LoadBody(msgspec.Struct, frozen=True, kw_only=True):
    """`POST /load_lora_adapter`."""

    lora_name: str
    lora_path: str


class UnloadBody(msgspec.Struct, frozen=True, kw_only=True):
    """`POST /unload_lora_adapter`."""

    lora_name: str


class PauseBody(msgspec.Struct, frozen=True, kw_only=True):
    """`POST /pause_generation`."""

    mode: PauseMode = "abort"


class AbortBody(msgspec.Struct, frozen=True, kw_only=True):
    """`POST /abort_request`."""

    rid: str | None = None
    abort_all: bool = False


class UpdateBody(msgspec.Struct, frozen=True, kw_only=True):
    """`POST /update_weights_from_disk`."""

    model_path: str
    weight_version: str | None = None
    flush_cache: bool = True
    abort_all_requests: bool = False


class ControlRoutes:
    """What a publisher and an operator ask of an engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def routes(self) -> list[Route]:
        """Path to method."""
        post = ["POST"]
        return [
            Route("/load_lora_adapter", self.load_lora_adapter, methods=post),
            Route("/unload_lora_adapter", self.unload_lora_adapter, methods=post),
            Route("/v1/models", self.models, methods=["GET"]),
            Route("/pause_generation", self.pause_generation, methods=post),
            Route("/continue_generation", self.continue_generation, methods=post),
            Route("/abort_request", self.abort_request, methods=post),
            Route("/flush_cache", self.flush_cache, methods=["GET", "POST"]),
            Route("/update_weights_from_disk", self.update_weights_from_disk, methods=post),
        ]

    async def load_lora_adapter(self, request: Request) -> Response:
        """Loads an adapter under a new name."""
        body = await _read(request, LoadBody)
        try:
            loaded = await load_adapter(self._engine, body.lora_name, body.lora_path)
        except EngineRefusal as refusal:
            return self._adapter_refused(refusal)
        return _adapters(loaded)

    async def unload_lora_adapter(self, request: Request) -> Response:
        """Unloads an adapter once the requests that use it are done."""
        body = await _read(request, UnloadBody)
        try:
            loaded = await unload_adapter(self._engine, body.lora_name)
        except EngineRefusal as refusal:
            return self._adapter_refused(refusal)
        return _adapters(loaded)

    async def models(self, _: Request) -> Response:
        """The base model, and each loaded adapter with its folder as `root`."""
        base = self._engine.settings.served_name or self._engine.settings.model
        cards = [{"id": base, "object": "model", "root": base, "parent": None}]
        for name, folder in loaded_adapters(self._engine).items():
            cards.append({"id": name, "object": "model", "root": folder, "parent": base})
        return JSONResponse({"object": "list", "data": cards})

    async def pause_generation(self, request: Request) -> Response:
        """Stops computing."""
        await self._engine.pause((await _read(request, PauseBody)).mode)
        return JSONResponse({"message": "Generation paused successfully.", "status": "ok"})

    async def continue_generation(self, _: Request) -> Response:
        """Ends a pause."""
        await self._engine.resume()
        return JSONResponse({"message": "Generation continued successfully.", "status": "ok"})

    async def abort_request(self, request: Request) -> Response:
        """Ends one request or all; a name that is not live is ignored."""
        body = await _read(request, AbortBody)
        if body.abort_all:
            await self._engine.abort_all()
        elif body.rid:
            await self._engine.abort(body.rid)
        return Response(status_code=200)

    async def flush_cache(self, request: Request) -> Response:
        """Empties the prefix cache."""
        given = request.query_params.get("timeout", "0")
        try:
            timeout_s = float(given)
        except ValueError as error:
            raise EngineRefusal(f"timeout is {given!r}, expected a number of seconds") from error
        await flush_cache(self._engine, timeout_s)
        return PlainTextResponse("Cache flushed.\n")

    async def update_weights_from_disk(self, request: Request) -> Response:
        """Replaces the base weights."""
        body = await _read(request, UpdateBody)
        try:
            success, message = await update_weights(
                self._engine,
                body.model_path,
                version=body.weight_version,
                flush=body.flush_cache,
                abort_all=body.abort_all_requests,
            )
        except EngineRefusal as refusal:
            success, message = False, str(refusal)
        answer = {"success": success, "message": message, "num_paused_requests": 0}
        return JSONResponse(answer, status_code=200 if success else 400)

    def _adapter_refused(self, refusal: EngineRefusal) -> Response:
        loaded = loaded_adapters(self._engine)
        answer = {"success": False, "error_message": str(refusal), "loaded_adapters": loaded}
        return JSONResponse(answer, status_code=refusal.status)


def _adapters(loaded: dict[str, str]) -> Response:
    return JSONResponse({"success": True, "error_message": None, "loaded_adapters": loaded})


async def _read(request: Request, kind: type[B]) -> B:
    body = await request.body() or b"{}"
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise EngineRefusal(f"the body of {request.url.path} cannot be used: {error}") from error
