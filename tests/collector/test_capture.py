"""Which earlier turn a call goes on from, and which weights it gets, seen from a client."""

from pathlib import Path
from typing import Any

from collector.fakes import Script, ScriptedEngine, deltas
from collector.rendering.renderer import Renderer
from collector.routes import RegistryRoutes
from collector.store.registry import Registry
from tests.collector.loopback import Served, post, serve

END = "<|im_end|>"
CALL = f'<tool_call>\n{{"name": "ls", "arguments": {{}}}}\n</tool_call>{END}'
TOOLS = [{"type": "function", "function": {"name": "ls", "parameters": {"type": "object", "properties": {}}}}]


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def sampling(renderer: Renderer, *texts: str) -> ScriptedEngine:
    def script(text: str) -> Script:
        ids = renderer.tokenizer.encode(text)
        return lambda _: deltas(ids, size=64)

    return ScriptedEngine(*map(script, texts))


async def say(served: Served, messages: list[dict[str, Any]], *, session: str | None = None, **more: Any) -> Any:
    headers = {"x-session-id": session} if session is not None else {}
    status, _, answer = await post(
        served, "/v1/chat/completions", {"model": "model", "messages": messages, **more}, **headers
    )
    assert status == 200, answer
    return answer["choices"][0]["message"]


async def test_runs_without_a_name_that_sampled_the_same_call_stay_apart(small: Renderer) -> None:
    async with serve(small, sampling(small, CALL, CALL, CALL, f"Done.{END}")) as served:
        calls = [await say(served, [user("task")], tools=TOOLS) for _ in range(3)]
        for run in (0, 1, 2):
            result = {"role": "tool", "tool_call_id": calls[run]["tool_calls"][0]["id"], "content": f"run {run}"}
            await say(served, [user("task"), calls[run], result], tools=TOOLS)
        turns = served.journal.turns
    assert len({turn.session_id for turn in turns[:3]}) == 3
    for before, after in zip(turns[:3], turns[3:], strict=True):
        assert (after.session_id, after.parent_turn_id) == (before.session_id, before.turn_id)


async def test_the_sample_whose_thinking_comes_back_is_extended(small: Renderer) -> None:
    thoughts = [f"<think>\n{plan}\n</think>\n\nyes{END}" for plan in ("A", "B")]
    async with serve(small, sampling(small, *thoughts, f"end{END}")) as served:
        samples = [await say(served, [user("w")], session="s") for _ in range(2)]
        for number, sample in enumerate(samples):
            await say(served, [user("w"), sample, user(f"on {number}")], session="s")
        turns = served.journal.turns
    for before, after in zip(turns[:2], turns[2:], strict=True):
        assert (after.link, after.parent_turn_id) == ("extends", before.turn_id)
        whole = [*before.prompt_ids, *before.completion_ids]
        assert after.prompt_ids[: len(whole)] == whole


async def test_a_message_that_spells_a_whole_history_can_be_gone_on_from(small: Renderer) -> None:
    async with serve(small, sampling(small, f"a1{END}", f"a2{END}", f"a3{END}", f"ok{END}")) as served:
        history: list[dict[str, Any]] = []
        for number in (1, 2, 3):
            history.append(user(f"u{number}"))
            history.append(await say(served, history, session="s"))
        spelled = served.journal.turns[-1]
        text = small.tokenizer.decode([*spelled.prompt_ids, *spelled.completion_ids])
        flat = text.removeprefix("<|im_start|>user\n") + "\n<|im_start|>user\nmore"
        reply = await say(served, [user(flat)], session="s")
        await say(served, [user(flat), reply, user("next")], session="s")
        turns = served.journal.turns
    # By its ids it extends the third turn, though nothing was said before it.
    assert turns[3].parent_turn_id == turns[2].turn_id
    assert turns[4].parent_turn_id == turns[3].turn_id


async def test_a_model_asked_for_by_name_is_what_serves_and_only_its_own_version_sticks(
    small: Renderer, tmp_path: Path
) -> None:
    registry = Registry(tmp_path)
    who = {"actor": "test", "reason": "test"}
    registry.register_adapter("ad", tenant="dev", base_model="model", **who)

    def publish(version: int) -> None:
        (tmp_path / f"v{version}").mkdir()
        registry.register_version(
            "ad", version, parent=0, optimizer_step=1, folder=f"v{version}", sha256="0" * 64, trained_on=[], **who
        )
        registry.change_state("ad", version, expected="candidate", to="live", **who)

    publish(1)
    routes = RegistryRoutes(["model"], registry.snapshot())
    async with serve(small, sampling(small, f"ok{END}"), routes=routes) as served:
        for model in ("ad", "model", "ad"):
            await say(served, [user("q")], session="s", model=model)
        publish(2)
        routes.snapshot = registry.snapshot()
        for model in ("ad", "model", "ad@2", "ad"):
            await say(served, [user("q")], session="s", model=model)
        await say(served, [user("q")], session="other", model="ad")
        asked = [request.lora_path for request in served.engine.requests]
    assert asked == ["ad@1", None, "ad@1", "ad@1", None, "ad@2", "ad@1", "ad@2"]
