"""A session that goes on after a restart, with the real store: it is still spliced onto what was sampled."""

from itertools import pairwise
from pathlib import Path
from typing import Any

from collector.config import CollectorConfig
from collector.fakes import ScriptedEngine, deltas
from collector.past import StoredPast
from collector.ports import PastTurn
from collector.rendering.renderer import Renderer
from collector.store.reader import Reader
from collector.store.writer import Writer
from tests.collector.loopback import post, serve

END = "<|im_end|>"
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}]
CALL = f'<think>\nLook.\n</think>\n\n<tool_call>\n{{"name": "f", "arguments": {{}}}}\n</tool_call>{END}'


async def one_turn(
    renderer: Renderer, store: Path, messages: list[dict[str, Any]], sampled: str, **headers: str
) -> Any:
    ids = renderer.tokenizer.encode(sampled)
    with Writer(store, "collector") as writer:
        engine = ScriptedEngine(lambda _: deltas(ids))
        async with serve(renderer, engine, journal=writer, past=StoredPast(store)) as served:
            request = {"model": "model", "messages": messages, "tools": TOOLS}
            status, _, answer = await post(served, "/v1/chat/completions", request, **headers)
            assert status == 200
            return answer["choices"][0]["message"]


async def test_a_session_goes_on_after_a_restart_token_by_token(qwen3: Renderer, tmp_path: Path) -> None:
    for headers in ({"x-session-id": "named"}, {}):
        store = tmp_path / (headers.get("x-session-id") or "unnamed")
        messages: list[dict[str, Any]] = [{"role": "user", "content": "Hi"}]
        for sampled, following in (
            (CALL, {"role": "tool", "content": "ok"}),
            (f"<think>\nDone.\n</think>\n\nThere.{END}", {"role": "user", "content": "Thanks."}),
            (f"Gladly.{END}", {"role": "user", "content": "Bye."}),
        ):
            message = await one_turn(qwen3, store, messages, sampled, **headers)
            message.pop("reasoning_content", None)
            messages = [*messages, message, following]
        with Reader(store).snapshot() as snapshot:
            turns = snapshot.frame("turns").to_dicts()
        assert [turn["turn"] for turn in turns] == [1, 2, 3]
        assert len({turn["session_id"] for turn in turns}) == 1
        assert [turn["link"] for turn in turns] == ["root", "extends", "extends"]
        for earlier, later in pairwise(turns):
            before = [*earlier["prompt_ids"], *earlier["completion_ids"]]
            assert list(later["prompt_ids"])[: len(before)] == before
            assert later["parent_turn_id"] == earlier["turn_id"]


async def test_a_session_that_was_evicted_is_read_back(qwen3: Renderer, tmp_path: Path) -> None:
    ids = qwen3.tokenizer.encode(f"Hello.{END}")
    config = CollectorConfig(index_sessions=1)
    hi = [{"role": "user", "content": "Hi"}]
    with Writer(tmp_path, "collector") as writer:
        engine = ScriptedEngine(lambda _: deltas(ids))
        async with serve(qwen3, engine, journal=writer, past=StoredPast(tmp_path), config=config) as served:
            for name in ("a", "b"):
                await post(served, "/v1/chat/completions", {"model": "model", "messages": hi}, **{"x-session-id": name})
            assert len(served.collector.sessions) == 1
            more = {"model": "model", "messages": [*hi, {"role": "assistant", "content": "Hello."}, *hi]}
            await post(served, "/v1/chat/completions", more, **{"x-session-id": "a"})
    turns = StoredPast(tmp_path).session_turns("a")
    assert [turn.turn for turn in turns] == [1, 2]
    assert turns[1].prompt_ids[: len(turns[0].prompt_ids) + len(ids)] == turns[0].prompt_ids + ids


async def test_stored_sessions_are_listed_by_their_last_activity(qwen3: Renderer, tmp_path: Path) -> None:
    ids = qwen3.tokenizer.encode(f"Hello.{END}")
    with Writer(tmp_path, "collector") as writer:
        engine = ScriptedEngine(lambda _: deltas(ids))
        async with serve(qwen3, engine, journal=writer, past=StoredPast(tmp_path)) as served:
            for name in ("a", "c", "b", "a"):
                request = {"model": "model", "messages": [{"role": "user", "content": "Hi"}]}
                await post(served, "/v1/chat/completions", request, **{"x-session-id": name})
    assert StoredPast(tmp_path).session_ids() == ["c", "b", "a"]


class LostPrompts(StoredPast):
    """A store whose prompts are lost to damage."""

    def session_turns(self, session_id: str) -> list[PastTurn]:
        return [turn._replace(prompt_ids=None, chat=None) for turn in super().session_turns(session_id)]


async def test_a_session_whose_prompts_are_lost_goes_on_with_a_new_root(qwen3: Renderer, tmp_path: Path) -> None:
    hi = [{"role": "user", "content": "Hi"}]
    await one_turn(qwen3, tmp_path, hi, f"Hello.{END}", **{"x-session-id": "s"})
    ids = qwen3.tokenizer.encode(f"Again.{END}")
    with Writer(tmp_path, "collector") as writer:
        engine = ScriptedEngine(lambda _: deltas(ids))
        async with serve(qwen3, engine, journal=writer, past=LostPrompts(tmp_path)) as served:
            request = {"model": "model", "messages": hi}
            assert (await post(served, "/v1/chat/completions", request, **{"x-session-id": "s"}))[0] == 200
    with Reader(tmp_path).snapshot() as snapshot:
        turns = snapshot.frame("turns", columns=["turn", "link", "parent_turn_id"]).rows()
    assert turns == [(1, "root", None), (2, "root", None)]
