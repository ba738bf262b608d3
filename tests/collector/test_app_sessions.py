"""Which session a turn belongs to, and what tells tenants apart."""

from typing import Any

from collector.config import CollectorConfig
from collector.keys import sha256_of
from collector.rendering.renderer import Renderer
from tests.collector.chat_calls import END, HI, replies
from tests.collector.loopback import post, serve


async def test_a_conversation_without_a_header_stays_one_session_and_strangers_stay_apart(qwen3: Renderer) -> None:
    async with serve(qwen3, replies(qwen3, f"Hello.{END}")) as served:
        first = {"model": "model", "messages": HI}
        following = {"model": "model", "messages": [*HI, {"role": "assistant", "content": "Hello."}, *HI]}
        await post(served, "/v1/chat/completions", first)
        await post(served, "/v1/chat/completions", {**first, "messages": [{"role": "user", "content": "Else"}]})
        await post(served, "/v1/chat/completions", following)
        one, two, three = served.journal.turns
        assert one.session_id == three.session_id != two.session_id
        assert (three.turn, three.link, three.parent_turn_id) == (2, "extends", one.turn_id)


async def test_rewritten_history_is_a_break_and_the_model_sees_what_the_client_asked_for(qwen3: Renderer) -> None:
    async with serve(qwen3, replies(qwen3, f"Hello.{END}")) as served:
        headers = {"x-session-id": "s"}
        await post(served, "/v1/chat/completions", {"model": "model", "messages": HI}, **headers)
        messages = [*HI, {"role": "assistant", "content": "Goodbye."}, *HI]
        await post(served, "/v1/chat/completions", {"model": "model", "messages": messages}, **headers)
        turn = served.journal.turns[1]
        assert (turn.link, turn.break_kind, turn.parent_turn_id) == ("break", "other", None)
        assert "Goodbye." in qwen3.tokenizer.decode(turn.prompt_ids)


async def test_interleaved_subagents_of_one_session_each_extend_their_own_line(qwen3: Renderer) -> None:
    """Case 017: calls of a main agent and a subagent arrive in turn."""
    async with serve(qwen3, replies(qwen3, f"Hello.{END}")) as served:
        lines: dict[str, list[Any]] = {
            name: [{"role": "system", "content": name}, {"role": "user", "content": "Go."}] for name in ("main", "sub")
        }
        for _ in range(2):
            for messages in lines.values():
                await post(
                    served, "/v1/chat/completions", {"model": "model", "messages": messages}, **{"x-session-id": "s"}
                )
                messages += [{"role": "assistant", "content": "Hello."}, {"role": "user", "content": "On."}]
        turns = served.journal.turns
        parents = [turn.parent_turn_id for turn in turns]
        assert parents == [None, None, turns[0].turn_id, turns[1].turn_id]
        assert [turn.link for turn in turns] == ["root", "root", "extends", "extends"]


async def test_keys_tell_tenants_apart_and_nothing_of_them_is_kept(qwen3: Renderer) -> None:
    keys = {sha256_of("key-a"): "a", sha256_of("key-b"): "b"}
    async with serve(qwen3, replies(qwen3, f"Hello.{END}"), config=CollectorConfig(keys=keys)) as served:
        request = {"model": "model", "messages": HI}
        for key in ("wrong", ""):
            status, _, answer = await post(served, "/v1/chat/completions", request, authorization=f"Bearer {key}")
            assert (status, answer["error"]["code"]) == (401, "invalid_api_key")
        following = {"model": "model", "messages": [*HI, {"role": "assistant", "content": "Hello."}, *HI]}
        for body, key in ((request, "key-a"), (following, "key-b"), (following, "key-a")):
            status, _, _ = await post(served, "/v1/chat/completions", body, authorization=f"Bearer {key}")
            assert status == 200
        turns = served.journal.turns
        assert [turn.tenant for turn in turns] == ["a", "b", "a"]
        assert turns[0].session_id == turns[2].session_id != turns[1].session_id
        assert "key-a" not in repr(served.journal.records)


async def test_the_same_session_name_of_two_tenants_is_two_sessions(qwen3: Renderer) -> None:
    keys = {sha256_of("key-a"): "a", sha256_of("key-b"): "b"}
    async with serve(qwen3, replies(qwen3, f"Hello.{END}"), config=CollectorConfig(keys=keys)) as served:
        for key in ("key-a", "key-b"):
            headers = {"authorization": f"Bearer {key}", "x-session-id": "one"}
            await post(served, "/v1/chat/completions", {"model": "model", "messages": HI}, **headers)
        assert [(turn.session_id, turn.turn) for turn in served.journal.turns] == [("a/one", 1), ("b/one", 1)]
