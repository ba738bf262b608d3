"""Requests that a client sends again: linked to the first attempt, and trained on once at most."""

import asyncio
from typing import Any

import anthropic
import openai
import pytest

from collector.attempts import Attempts
from collector.caller import Caller
from collector.conversation import Call, Sampling
from collector.earlier_attempts import EarlierAttempts
from collector.errors import EngineError
from collector.fakes import MemoryPast, Pause, ScriptedEngine, deltas
from collector.records import Event, Turn
from collector.rendering.renderer import Renderer
from tests.collector.loopback import Served, post, serve, until

END = "<|im_end|>"
ASK = {"model": "model", "max_tokens": 100, "messages": [{"role": "user", "content": "Hi"}]}
NAMED = {"x-claude-code-session-id": "s"}


def links(served: Served) -> list[tuple[Any, Any]]:
    """What is a retry of what, as turn ids."""
    events = [record for record in served.journal.records if isinstance(record, Event)]
    assert all(event.kind == "retry" and event.detail is not None for event in events)
    return [(event.detail["turn_id"], event.detail["retry_of"]) for event in events if event.detail]


def trained(turns: list[Turn]) -> list[str | None]:
    return [turn.untrainable_reason for turn in turns]


async def test_a_fallback_from_a_stream_that_broke_is_linked_and_trained(small: Renderer) -> None:
    ids = small.tokenizer.encode(f"Hello.{END}")
    engine = ScriptedEngine(lambda _: [*deltas(ids)[:2], EngineError("broke")], lambda _: deltas(ids))
    async with serve(small, engine) as served:
        await post(served, "/v1/messages", {**ASK, "stream": True}, **NAMED)
        await post(served, "/v1/messages", ASK, **NAMED)
        first, second = served.journal.turns
        assert links(served) == [(second.turn_id, first.turn_id)]
        event = next(record for record in served.journal.records if isinstance(record, Event))
    assert (event.session_id, event.turn, event.severity) == ("s", 2, "info")
    assert trained([first, second]) == ["error", None]


async def test_a_fallback_from_a_stream_that_was_whole_is_kept_and_not_trained(small: Renderer) -> None:
    ids = small.tokenizer.encode(f"Hello.{END}")
    async with serve(small, ScriptedEngine(lambda _: deltas(ids))) as served:
        for body in ({**ASK, "stream": True}, ASK, ASK):
            await post(served, "/v1/messages", body, **NAMED)
        first, second, third = served.journal.turns
        assert links(served) == [(second.turn_id, first.turn_id), (third.turn_id, first.turn_id)]
    assert trained([first, second, third]) == [None, "retried", "retried"]
    assert [turn.complete for turn in (first, second, third)] == [True, True, True]


@pytest.mark.parametrize("wire", ["messages", "chat", "responses"])
async def test_what_an_sdk_tries_again_is_linked_and_trained_once(small: Renderer, wire: str) -> None:
    ids = small.tokenizer.encode(f"Hello.{END}")
    engine = ScriptedEngine(lambda _: [EngineError("gone")], lambda _: deltas(ids))
    messages: Any = ASK["messages"]
    async with serve(small, engine) as served:
        if wire == "messages":
            async with anthropic.AsyncAnthropic(base_url=served.url, api_key="any", max_retries=1) as client:
                asked = {"model": "model", "max_tokens": 9, "messages": messages}
                await client.messages.create(**asked, extra_headers=NAMED)
        else:
            async with openai.AsyncOpenAI(base_url=f"{served.url}/v1", api_key="any", max_retries=1) as client:
                if wire == "chat":
                    await client.chat.completions.create(model="model", messages=messages, extra_headers=NAMED)
                else:
                    await client.responses.create(model="model", input="Hi", extra_headers=NAMED)
        first, second = served.journal.turns
        assert links(served) == [(second.turn_id, first.turn_id)]
    assert trained([first, second]) == ["error", None]


async def test_of_two_attempts_at_once_the_one_recorded_first_is_trained(small: Renderer) -> None:
    ids = small.tokenizer.encode(f"Hello.{END}")
    engine = ScriptedEngine(lambda _: [Pause(0.4), *deltas(ids)], lambda _: deltas(ids))
    async with serve(small, engine) as served:
        slow = asyncio.create_task(post(served, "/v1/messages", {**ASK, "stream": True}, **NAMED))
        await until(lambda: engine.requests)
        await post(served, "/v1/messages", {**ASK, "stream": True}, **NAMED, **{"x-stainless-retry-count": "1"})
        await slow
        second, first = served.journal.turns
        assert links(served) == [(second.turn_id, first.turn_id)]
    assert (second.turn, trained([second, first])) == (2, [None, "retried"])


async def test_further_samples_of_one_request_are_no_retries(small: Renderer) -> None:
    ids = small.tokenizer.encode(f"Hello.{END}")
    async with serve(small, ScriptedEngine(lambda _: deltas(ids))) as served:
        for stream in (False, False, True, True):
            await post(served, "/v1/messages", {**ASK, "stream": stream}, **NAMED)
        assert links(served) == []
        assert trained(served.journal.turns) == [None] * 4


CODEX = {"session-id": "s", "user-agent": "codex_exec/0.171.0 (Linux; x86_64) unknown"}
CODEX_ASK = {"model": "model", "input": [{"role": "user", "content": "Hi"}], "stream": True, "store": False}


async def test_a_stream_of_codex_that_broke_and_is_sent_again_is_linked(small: Renderer) -> None:
    """Codex repeats the body as it was (`stream_max_retries`), with no header that counts."""
    ids = small.tokenizer.encode(f"Hello.{END}")
    engine = ScriptedEngine(lambda _: [*deltas(ids)[:2], EngineError("broke")], lambda _: deltas(ids))
    async with serve(small, engine) as served:
        await post(served, "/v1/responses", CODEX_ASK, **CODEX)
        await post(served, "/v1/responses", CODEX_ASK, **CODEX)
        first, second = served.journal.turns
        assert links(served) == [(second.turn_id, first.turn_id)]
    assert trained([first, second]) == ["error", None]


async def test_a_whole_stream_that_codex_did_not_get_is_trained_once(small: Renderer) -> None:
    ids = small.tokenizer.encode(f"Hello.{END}")
    async with serve(small, ScriptedEngine(lambda _: deltas(ids))) as served:
        for _ in range(3):
            await post(served, "/v1/responses", CODEX_ASK, **CODEX)
        first, second, third = served.journal.turns
        assert links(served) == [(second.turn_id, first.turn_id), (third.turn_id, first.turn_id)]
    assert trained([first, second, third]) == [None, "retried", "retried"]


async def test_codex_says_the_same_in_two_sessions_and_neither_is_a_retry(small: Renderer) -> None:
    ids = small.tokenizer.encode(f"Hello.{END}")
    async with serve(small, ScriptedEngine(lambda _: deltas(ids))) as served:
        for name in ("s", "t"):
            await post(served, "/v1/responses", CODEX_ASK, **{**CODEX, "session-id": name})
        assert links(served) == []
        assert trained(served.journal.turns) == [None, None]


async def test_after_a_retry_that_was_whole_the_same_request_is_another_sample(small: Renderer) -> None:
    ids = small.tokenizer.encode(f"Hello.{END}")
    engine = ScriptedEngine(lambda _: [EngineError("gone")], lambda _: deltas(ids))
    async with serve(small, engine) as served:
        for _ in range(3):
            await post(served, "/v1/chat/completions", {**ASK, "stream": True}, **{"x-session-id": "s"})
        first, second, third = served.journal.turns
        assert links(served) == [(second.turn_id, first.turn_id)]
    assert trained([first, second, third]) == ["error", None, None]


@pytest.mark.parametrize(
    "change",
    [
        {"said": b"b"},
        {"caller": {"scope": "other"}},
        {"caller": {"session_name": "t"}},
        {"call": {"api": "messages"}},
        {"call": {"model": "n"}},
        {"now_s": 901.0},
        {"caller": {"retries": 0}},
    ],
)
def test_only_the_same_request_of_the_same_client_soon_after_is_a_retry(change: dict[str, Any]) -> None:
    def standing(attempts: Attempts, turn_id: str, change: dict[str, Any]) -> str | None:
        call = {"api": "chat", "model": "m", "sampling": Sampling(), "streamed": True, **change.get("call", {})}
        caller = Caller("a", "scope", "s", False, None, None, None, "traffic", 1)._replace(**change.get("caller", {}))
        said, now_s = change.get("said", b"a"), change.get("now_s", 899.0)
        return attempts.of(Call(**call), caller, said, turn_id, now_s=now_s).retry_of

    earlier = EarlierAttempts(MemoryPast())
    asyncio.run(earlier.read())
    attempts = Attempts(earlier)
    assert standing(attempts, "1", {"now_s": 0.0}) is None
    assert standing(attempts, "2", change) is None
    attempts = Attempts(earlier)
    assert standing(attempts, "1", {"now_s": 0.0}) is None
    assert standing(attempts, "2", {}) == "1"
    assert standing(attempts, "3", {}) == "1"
