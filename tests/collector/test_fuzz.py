"""Bodies of every sort: answered, never a 500, and the collector serves on."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from collector.app import BodyEndpoint, TurnEndpoint
from collector.collector import Collector
from collector.config import CollectorConfig
from collector.fakes import MemoryJournal, MemoryPast, ScriptedEngine, deltas, fleet_of
from collector.routes import RegistryRoutes
from collector.shapes.chat import ChatExchange
from collector.shapes.generate import GenerateExchange
from collector.shapes.messages import MessagesExchange
from collector.shapes.messages_problem import messages_problem
from collector.shapes.problem import openai_problem
from collector.shapes.responses import ResponsesExchange
from collector.store.registry_rows import RegistrySnapshot
from collector.turnstile import Turnstile
from tests.collector.published import small_renderer

NAMES = ["role", "content", "type", "text", "tool_calls", "function", "name", "arguments", "x"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(["user", "text"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=12,
)
CHAT_FIELDS = [
    "model", "messages", "tools", "stream", "stream_options", "max_tokens", "temperature", "top_p", "top_k", "min_p",
    "stop", "seed", "n", "logit_bias", "tool_choice", "response_format", "chat_template_kwargs", "stop_token_ids",
]  # fmt: skip
MESSAGE = st.fixed_dictionaries(
    {"role": st.sampled_from(["system", "user", "assistant", "tool", "developer"])},
    optional={"content": st.text(max_size=20) | JSON, "tool_calls": JSON, "reasoning_content": JSON, "name": JSON},
)
CHAT = st.fixed_dictionaries(
    {"model": st.just("model"), "messages": st.lists(MESSAGE, min_size=1, max_size=4) | JSON},
    optional=dict.fromkeys(CHAT_FIELDS[2:], JSON),
)
GENERATE = st.fixed_dictionaries(
    {"input_ids": st.lists(st.integers(0, 300), max_size=5) | JSON},
    optional={"sampling_params": JSON, "stream": JSON, "return_logprob": JSON, "lora_path": JSON},
)
FEEDBACK = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(
        ("kind", "value", "text", "session_id", "turn", "response_id", "feedback", "feedback_id", "user"), JSON
    ),
)


@pytest.fixture(scope="module")
def collector() -> Collector:
    small = small_renderer()
    ids = small.tokenizer.encode("<think>\nHm.\n</think>\n\nHi.<|im_end|>")
    engine = ScriptedEngine(lambda _: deltas(ids))
    return Collector(
        config=CollectorConfig(),
        renderer=small,
        context_tokens=4096,
        base_model="model",
        fleet=fleet_of(engine),
        journal=MemoryJournal(),
        past=MemoryPast(),
        routes=RegistryRoutes(["model"], RegistrySnapshot(0, (), (), (), {})),
        user_key=b"key",
    )


async def status_of(app: Any, body: bytes) -> int:
    sent: list[Any] = []
    waiting = [{"type": "http.request", "body": body}]

    async def receive() -> Any:
        if not waiting:
            await asyncio.Event().wait()
        return waiting.pop()

    async def send(message: Any) -> None:
        sent.append(message)

    await app({"type": "http", "headers": [], "method": "POST", "path": "/"}, receive, send)
    assert not sent[-1].get("more_body")
    return sent[0]["status"]


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(body=CHAT | JSON)
async def test_any_chat_body_is_answered(collector: Collector, body: Any) -> None:
    journal: Any = collector.capture._journal
    before = len(journal.turns)
    status = await status_of(
        TurnEndpoint(collector, Turnstile(), ChatExchange, openai_problem), json.dumps(body).encode()
    )
    assert status in (200, 400, 404)
    assert len(journal.turns) - before == (status == 200)
    assert collector.capture.running == 0


@settings(max_examples=60, deadline=None)
@given(body=GENERATE)
async def test_any_generate_body_is_answered(collector: Collector, body: Any) -> None:
    status = await status_of(
        TurnEndpoint(collector, Turnstile(), GenerateExchange, openai_problem), json.dumps(body).encode()
    )
    assert status in (200, 400, 404)
    assert collector.capture.running == 0


@settings(max_examples=60, deadline=None)
@given(body=FEEDBACK | JSON)
async def test_any_feedback_body_is_answered(collector: Collector, body: Any) -> None:
    for accept in (collector.desk.accept, collector.desk.declare):
        assert await status_of(BodyEndpoint(collector, accept), json.dumps(body).encode()) in (200, 400, 404, 409)


@settings(max_examples=100, deadline=None)
@given(body=st.binary(max_size=60))
async def test_any_bytes_are_answered(collector: Collector, body: bytes) -> None:
    assert await status_of(TurnEndpoint(collector, Turnstile(), ChatExchange, openai_problem), body) == 400


BLOCK = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "thinking", "tool_use", "tool_result", "image"])},
    optional={
        "text": st.text(max_size=8) | JSON, "thinking": JSON, "id": JSON, "name": JSON, "input": JSON, "content": JSON,
        "tool_use_id": st.text(max_size=4) | JSON,
    },
)  # fmt: skip
TURN = st.fixed_dictionaries(
    {"role": st.sampled_from(["system", "user", "assistant"]), "content": st.lists(BLOCK, max_size=3) | JSON}
)
MESSAGES_FIELDS = (
    "system", "tools", "tool_choice", "thinking", "output_config", "metadata", "stream", "temperature", "top_k",
    "stop_sequences",
)  # fmt: skip
MESSAGES = st.fixed_dictionaries(
    {"model": st.just("model"), "max_tokens": st.just(9), "messages": st.lists(TURN, min_size=1, max_size=4) | JSON},
    optional=dict.fromkeys(MESSAGES_FIELDS, JSON),
)
ITEM = st.fixed_dictionaries(
    {"type": st.sampled_from(["message", "reasoning", "function_call", "function_call_output"])},
    optional={
        "role": st.sampled_from(["user", "assistant", "developer"]) | JSON, "content": st.text(max_size=8) | JSON,
        "call_id": st.text(max_size=4) | JSON, "name": JSON, "arguments": st.text(max_size=8) | JSON,
        "output": st.text(max_size=8) | JSON, "encrypted_content": st.sampled_from(["roundhouse.YQ==", "x"]) | JSON,
    },
)  # fmt: skip
RESPONSES_FIELDS = (
    "instructions", "tools", "tool_choice", "stream", "max_output_tokens", "temperature", "include", "reasoning",
    "text", "metadata", "prompt",
)  # fmt: skip
RESPONSES = st.fixed_dictionaries(
    {"model": st.just("model"), "input": st.lists(ITEM, max_size=4) | st.text(max_size=9) | JSON},
    optional=dict.fromkeys(RESPONSES_FIELDS, JSON),
)


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(body=MESSAGES | JSON)
async def test_any_messages_body_is_answered(collector: Collector, body: Any) -> None:
    journal: Any = collector.capture._journal
    before = len(journal.turns)
    endpoint = TurnEndpoint(collector, Turnstile(), MessagesExchange, messages_problem)
    status = await status_of(endpoint, json.dumps(body).encode())
    assert status in (200, 400, 404)
    assert len(journal.turns) - before == (status == 200)
    assert collector.capture.running == 0


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(body=RESPONSES | JSON)
async def test_any_responses_body_is_answered(collector: Collector, body: Any) -> None:
    journal: Any = collector.capture._journal
    before = len(journal.turns)
    status = await status_of(
        TurnEndpoint(collector, Turnstile(), ResponsesExchange, openai_problem), json.dumps(body).encode()
    )
    assert status in (200, 400, 404)
    assert len(journal.turns) - before == (status == 200)
    assert collector.capture.running == 0
