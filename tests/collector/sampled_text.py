"""Engines that sample given texts."""

from typing import Any

from collector.fakes import ScriptedEngine, deltas
from collector.rendering.renderer import Renderer


def replies(renderer: Renderer, *texts: str, **more: Any) -> ScriptedEngine:
    """An engine that samples these texts, one per request."""

    def script(text: str) -> Any:
        ids = renderer.tokenizer.encode(text)
        return lambda request: deltas(ids, prompt_tokens=len(request.input_ids), **more)

    return ScriptedEngine(*(script(text) for text in texts))
