"""Calls of chat completions, and an engine that answers them with texts."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import openai

from collector.fakes import ScriptedEngine, deltas
from collector.rendering.renderer import Renderer
from tests.collector.loopback import Served

HI = [{"role": "user", "content": "Hi"}]
END = "<|im_end|>"
TOOLS: list[Any] = [
    {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {}}}}
]


@asynccontextmanager
async def openai_client(served: Served, key: str = "any") -> AsyncGenerator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=f"{served.url}/v1", api_key=key, max_retries=0) as client:
        yield client


def replies(renderer: Renderer, *texts: str) -> ScriptedEngine:
    """An engine that samples these texts, one per request."""

    def script(text: str) -> Any:
        ids = renderer.tokenizer.encode(text)
        return lambda request: deltas(ids, prompt_tokens=len(request.input_ids))

    return ScriptedEngine(*(script(text) for text in texts))


async def metric(served: Served, line: str) -> float | None:
    """The value of one line of /metrics; None when it is not there."""
    async with aiohttp.ClientSession() as session, session.get(f"{served.url}/metrics") as answer:
        lines = dict(text.rsplit(" ", 1) for text in (await answer.text()).splitlines() if text[0] != "#")
    return float(lines[line]) if line in lines else None


async def refusals(served: Served) -> dict[str, float]:
    """Counted refusals by status."""
    family = next(f for f in served.collector.metrics.registry.collect() if f.name == "roundhouse_refusals")
    return {s.labels["status"]: s.value for s in family.samples if s.name.endswith("_total")}
