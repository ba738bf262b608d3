"""Images, audio and files are refused in every shape, in words that name them."""

from typing import Any

import pytest

from collector.fakes import ScriptedEngine, deltas
from collector.rendering.renderer import Renderer
from tests.collector.loopback import post, serve

URL = "data:image/png;base64,AAAA"
CHAT: dict[str, Any] = {"model": "model", "messages": [{"role": "user", "content": "Hi"}]}


def said(*parts: dict[str, Any], role: str = "user") -> list[dict[str, Any]]:
    return [{"role": role, "content": [{"type": "text", "text": "Look"}, *parts]}]


def result(part: dict[str, Any]) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": "t", "content": [part]}


IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
CALLED = [
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {}}]},
]
REFUSED = [
    (
        "chat/completions",
        {"messages": said({"type": "image_url", "image_url": {"url": URL}})},
        "messages[0].content[1]",
    ),
    ("chat/completions", {"messages": said({"type": "input_audio", "input_audio": {}})}, "messages[0].content[1]"),
    ("chat/completions", {"messages": said({"type": "file", "file": {}})}, "messages[0].content[1]"),
    ("chat/completions", {"modalities": ["text", "audio"]}, "modalities"),
    ("chat/completions", {"audio": {"voice": "alloy", "format": "wav"}}, "modalities"),
    ("messages", {"messages": said(IMAGE)}, "messages[0].content[1]"),
    ("messages", {"messages": said({"type": "document", "source": {}})}, "messages[0].content[1]"),
    ("messages", {"messages": [*CALLED, {"role": "user", "content": [result(IMAGE)]}]}, "content[0].content[0]"),
    ("messages", {"system": [IMAGE]}, "system[0]"),
    ("messages/count_tokens", {"messages": said(IMAGE)}, "messages[0].content[1]"),
    ("responses", {"input": said({"type": "input_image", "image_url": URL})}, "input[0].content"),
    ("responses", {"input": said({"type": "input_audio", "input_audio": {}})}, "input[0].content"),
    ("responses", {"input": said({"type": "input_file", "file_id": "f"})}, "input[0].content"),
]


@pytest.mark.parametrize(("path", "change", "where"), REFUSED)
async def test_media_in_a_conversation_are_refused(
    small: Renderer, path: str, change: dict[str, Any], where: str
) -> None:
    engine = ScriptedEngine(lambda _: deltas(small.tokenizer.encode("a<|im_end|>")))
    async with serve(small, engine) as served:
        status, _, answer = await post(served, f"/v1/{path}", {**CHAT, "max_tokens": 9, **change})
        assert (status, engine.requests, served.journal.records) == (400, [], [])
    assert where in answer["error"]["message"]
    assert "not supported" in answer["error"]["message"]
    assert any(word in answer["error"]["message"] for word in ("images", "audio"))


@pytest.mark.parametrize("name", ["image_data", "audio_data", "video_data", "input_embeds"])
async def test_media_beside_ids_are_refused(small: Renderer, name: str) -> None:
    engine = ScriptedEngine(lambda _: deltas([1]))
    async with serve(small, engine) as served:
        status, _, answer = await post(served, "/generate", {"input_ids": [1], name: [URL]})
        assert (status, answer["error"]["param"], engine.requests) == (400, name, [])
    assert "not supported" in answer["error"]["message"]


async def test_a_field_that_holds_nothing_is_no_medium(small: Renderer) -> None:
    engine = ScriptedEngine(lambda _: deltas(small.tokenizer.encode("a<|im_end|>")))
    async with serve(small, engine) as served:
        assert (await post(served, "/generate", {"input_ids": [1], "image_data": None}))[0] == 200
        assert (await post(served, "/v1/chat/completions", {**CHAT, "modalities": ["text"]}))[0] == 200
