"""However the engine cuts its output, inside a character or a tag, a client of any wire ends up with the same reply."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.app import TurnEndpoint
from collector.collector import Collector
from collector.config import CollectorConfig
from collector.engine.wire import Delta, Finish, Span
from collector.fakes import MemoryJournal, MemoryPast, ScriptedEngine, fleet_of
from collector.rendering.renderer import Renderer
from collector.routes import RegistryRoutes
from collector.shapes.chat import ChatExchange
from collector.shapes.messages import MessagesExchange
from collector.shapes.messages_problem import messages_problem
from collector.shapes.problem import openai_problem
from collector.shapes.responses import ResponsesExchange
from collector.store.registry_rows import RegistrySnapshot
from collector.turnstile import Turnstile
from tests.collector.published import small_renderer
from tests.collector.wire_events import messages_events, responses_events

SMALL = small_renderer()
HI = [{"role": "user", "content": "Hi"}]
CALL = '<tool_call>\n{"name": "f", "arguments": {"städte":  ["Zürich 🙂"], "n": 1.50}}\n</tool_call>'
END = "<|im_end|>"
TEXTS = {
    "text": f"naïve 🙂 <thin <tool_cal 日本 {END}",
    "thinking": f"<think>\nÜber 🙂.\n</think>\n\nJa – nein.{END}",
    "tool": f"{CALL}{END}",
    "thinking, text, tools": f"<think>\nHm </thin\n</think>\n\nSee 日本.\n{CALL}\n{CALL}\nMore.{END}",
    "thinking never ended": "<think>\nOn 🙂 and",
    "call never closed": 'Look <tool_call>\n{"name": "f", "argu',
}
Said = tuple[str, str, list[tuple[str, str]]]
"""Thinking, visible text, and the name and arguments of each call."""


def bodies() -> dict[str, tuple[Any, dict[str, Any]]]:
    """What makes an endpoint, and a request, of each wire."""
    function = {"name": "f", "parameters": {"type": "object"}}
    chat = {"messages": HI, "tools": [{"type": "function", "function": function}]}
    messages = {"max_tokens": 9, "messages": HI, "tools": [{"name": "f", "input_schema": {}}]}
    responses = {"input": "Hi", "tools": [{"type": "function", **function}]}
    return {
        "chat": ((ChatExchange, openai_problem), {"model": "model", **chat}),
        "messages": ((MessagesExchange, messages_problem), {"model": "model", **messages}),
        "responses": ((ResponsesExchange, openai_problem), {"model": "model", **responses}),
    }


def said_in_chat(stream: str) -> Said:
    chunks = [json.loads(line.removeprefix("data: ")) for line in stream.split("\n\n") if line.startswith("data: {")]
    deltas = [choice["delta"] for chunk in chunks for choice in chunk["choices"]]
    calls = [call["function"] for delta in deltas for call in delta.get("tool_calls", ())]
    return (
        "".join(delta.get("reasoning_content") or "" for delta in deltas),
        "".join(delta.get("content") or "" for delta in deltas),
        [(call["name"], call["arguments"]) for call in calls],
    )


def said_in_messages(stream: str) -> Said:
    thinking, text, calls = "", "", list[tuple[str, str]]()
    for event in messages_events(stream):
        if event["type"] == "content_block_start" and event["content_block"]["type"] == "tool_use":
            calls.append((event["content_block"]["name"], ""))
        delta = event.get("delta", {})
        thinking += delta.get("thinking", "")
        text += delta.get("text", "")
        if "partial_json" in delta:
            calls[-1] = (calls[-1][0], calls[-1][1] + delta["partial_json"])
    return thinking, text, calls


def said_in_responses(stream: str) -> Said:
    last = responses_events(stream)[-1]
    items: list[Any] = last["response"]["output"]

    def texts(kind: str) -> str:
        return "".join(item["content"][0]["text"] for item in items if item["type"] == kind)

    calls = [(item["name"], item["arguments"]) for item in items if item["type"] == "function_call"]
    return texts("reasoning"), texts("message"), calls


READERS = {"chat": said_in_chat, "messages": said_in_messages, "responses": said_in_responses}


def cut(ids: list[int], ends: list[int]) -> list[Delta]:
    """The ids in deltas that end at these places."""
    pieces = [ids[start:end] for start, end in zip([0, *ends], [*ends, len(ids)], strict=True)]
    steps = [Delta(token_ids=piece, logprobs=[-0.5] * len(piece)) for piece in pieces]
    stopped = SMALL.tokenizer.decode(ids).endswith(END)
    finish = Finish(type="stop", matched=ids[-1]) if stopped else Finish(type="length")
    spans = [Span(version="default", start=0, end=len(ids))]
    return [*steps, Delta(token_ids=[], logprobs=[], finish=finish, spans=spans, cached_tokens=0)]


async def stream_of(renderer: Renderer, steps: list[Delta], shape: Any, body: dict[str, Any]) -> str:
    engine = ScriptedEngine(lambda _: steps)
    collector = Collector(
        config=CollectorConfig(),
        renderer=renderer,
        context_tokens=4096,
        base_model="model",
        fleet=fleet_of(engine),
        journal=MemoryJournal(),
        past=MemoryPast(),
        routes=RegistryRoutes(["model"], RegistrySnapshot(0, (), (), (), {})),
        user_key=b"key",
    )
    sent: list[bytes] = []
    waiting = [{"type": "http.request", "body": json.dumps({**body, "stream": True}).encode()}]

    async def receive() -> Any:
        if not waiting:
            await asyncio.Event().wait()
        return waiting.pop()

    async def send(message: Any) -> None:
        sent.append(message.get("body", b""))

    try:
        await TurnEndpoint(collector, Turnstile(), *shape)({"type": "http", "headers": []}, receive, send)
    finally:
        collector.capture.close()
    return b"".join(sent).decode()


async def check(wire: str, text: str, ends: list[int]) -> None:
    shape, body = bodies()[wire]
    ids = SMALL.tokenizer.encode(text)
    whole = READERS[wire](await stream_of(SMALL, cut(ids, []), shape, body))
    assert READERS[wire](await stream_of(SMALL, cut(ids, ends), shape, body)) == whole


@pytest.mark.parametrize("wire", READERS)
async def test_every_wire_says_what_was_sampled(wire: str) -> None:
    shape, body = bodies()[wire]
    steps = cut(SMALL.tokenizer.encode(TEXTS["thinking, text, tools"]), [])
    arguments = '{"städte":  ["Zürich 🙂"], "n": 1.50}'
    expected = ("Hm </thin", "See 日本.\nMore.", [("f", arguments), ("f", arguments)])
    assert READERS[wire](await stream_of(SMALL, steps, shape, body)) == expected


@pytest.mark.parametrize("wire", READERS)
@settings(max_examples=25, deadline=None)
@given(drawn=st.data())
async def test_any_cuts_give_the_same_reply(wire: str, drawn: st.DataObject) -> None:
    text = drawn.draw(st.sampled_from(list(TEXTS.values())))
    count = len(SMALL.tokenizer.encode(text))
    ends = drawn.draw(st.sets(st.integers(1, count - 1)) if count > 1 else st.just(set[int]()))
    await check(wire, text, sorted(ends))


@pytest.mark.long
@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("wire", READERS)
async def test_a_cut_at_every_single_byte_gives_the_same_reply(wire: str, name: str) -> None:
    for place in range(1, len(SMALL.tokenizer.encode(TEXTS[name]))):
        await check(wire, TEXTS[name], [place])
