"""Asks a running engine for its settings and for a few tokens."""

import uuid
from collections.abc import AsyncGenerator
from typing import Any, Protocol

from checks.doctor.engine_points import Draws, Probe, probe_points, settings_points, slots_point
from checks.doctor.point import Point
from collector.engine.adapter_slots import slots_of
from collector.engine.wire import Delta, GenerateRequest, ModelInfo, SamplingParams
from collector.errors import EngineError, EngineUnavailable

_PROMPTS = tuple(tuple(range(start, start + 16)) for start in (10, 40, 70, 100))
"""Ids that every vocabulary has. Their text means nothing, so that no token is certain."""
_TOKENS = 4
_DRAWS = 6
_SHARP = 0.1


class ProbedEngine(Protocol):
    """What is asked of an engine."""

    def generate(self, request: GenerateRequest) -> AsyncGenerator[Delta, None]: ...

    async def model_info(self) -> ModelInfo: ...

    # Any: an engine's own settings.
    async def server_info(self) -> dict[str, Any]: ...

    async def loaded_adapters(self) -> dict[str, str]: ...

    async def ready(self) -> bool: ...


async def engine_points(engine: ProbedEngine) -> list[Point]:
    """Everything that was found. EngineUnavailable when there is no engine there."""
    info = await engine.model_info()
    label = f"{info.served_model_name or info.model_path}, weights labelled {info.weight_version!r}"
    points = [Point(name="model", status="ok", said=label)]
    try:
        settings = await engine.server_info()
        points += settings_points(settings)
        points.append(slots_point(slots_of(settings), list(await engine.loaded_adapters())))
    except EngineUnavailable:
        raise
    except EngineError as error:
        points.append(Point(name="settings", status="no_data", said=str(error)))
    if not await engine.ready():
        said = "the engine takes no requests now"
        return [*points, Point(name="a few tokens", status="warn", said=said, advice="resume it, then ask again")]
    return [*points, *probe_points(await _probe(engine))]


async def _probe(engine: ProbedEngine) -> Probe:
    try:
        ids, logprobs, last = await _generate(engine, _PROMPTS[0], 1.0, _TOKENS)
        draws = [draw for prompt in _PROMPTS if (draw := await _draw(engine, prompt)) is not None]
    except EngineUnavailable:
        raise
    except EngineError as error:
        return Probe(0, None, 0, 0, (), (), refused=str(error))
    versions = tuple(dict.fromkeys(span.version for span in last.spans)) if last is not None else ()
    counted = last.prompt_tokens if last is not None else None
    return Probe(len(_PROMPTS[0]), counted, len(ids), len(logprobs), versions, draws)


async def _draw(engine: ProbedEngine, prompt: tuple[int, ...]) -> Draws | None:
    """The likeliest token, greedily and again at a low temperature."""
    ids, logprobs, _ = await _generate(engine, prompt, 0.0, 1)
    if not ids:
        return None
    for _ in range(_DRAWS):
        again, sharp, _ = await _generate(engine, prompt, _SHARP, 1)
        if again == ids:
            return Draws(logprobs[0], sharp[0])
    return Draws(logprobs[0], None)


async def _generate(
    engine: ProbedEngine, prompt: tuple[int, ...], temperature: float, tokens: int
) -> tuple[list[int], list[float], Delta | None]:
    sampling = SamplingParams(max_new_tokens=tokens, temperature=temperature, ignore_eos=True)
    request = GenerateRequest(input_ids=list(prompt), sampling_params=sampling, rid=uuid.uuid4().hex)
    ids, logprobs, last = list[int](), list[float](), None
    async for delta in engine.generate(request):
        ids += delta.token_ids
        logprobs += delta.logprobs
        last = delta if delta.finish is not None else last
    return ids, logprobs, last
