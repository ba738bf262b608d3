"""The handed cases, played as dialogues through the whole collector."""

import json
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, NamedTuple

import pytest

from collector.config import CollectorConfig
from collector.conversation import HistoryReasoning
from collector.engine.wire import GenerateRequest
from collector.fakes import ScriptedEngine, Step, deltas
from collector.records import Turn
from collector.rendering.renderer import Renderer
from tests.collector.loopback import post, serve
from tests.shared_folder import MISSING, find_shared

SHARED = find_shared()
pytestmark = pytest.mark.skipif(SHARED is None, reason=MISSING)

Sends = Literal["keeps thinking", "drops thinking"]
MODES: list[HistoryReasoning] = ["keep", "template"]
STOP = 151645
RendererFor = Callable[[str], Renderer]


class Played(NamedTuple):
    case: dict[str, Any]
    turns: list[Turn]

    @property
    def parents(self) -> list[int | None]:
        number = {turn.turn_id: turn.turn for turn in self.turns}
        return [turn.parent_turn_id and number[turn.parent_turn_id] for turn in self.turns]

    @property
    def links(self) -> list[tuple[str, str | None]]:
        return [(turn.link, turn.break_kind) for turn in self.turns]

    @property
    def segments(self) -> list[list[int]]:
        """Chains of turns, each a token prefix of the next."""
        chains: list[list[int]] = []
        for turn, parent in zip(self.turns, self.parents, strict=True):
            chain = next((chain for chain in chains if chain[-1] == parent), None)
            if chain is None:
                chains.append([turn.turn])
            else:
                chain.append(turn.turn)
        return chains

    @property
    def as_recorded(self) -> list[bool]:
        """Whether each prompt is the case's own, id by id."""
        return [
            turn.prompt_ids == told["prompt_ids"]
            for turn, told in zip(self.turns, self.case["input"]["turns"], strict=True)
        ]

    def common(self, earlier: int, later: int) -> int:
        """Ids that the later turn's prompt has in common with the earlier turn's prompt and completion."""
        before = [*self.turns[earlier - 1].prompt_ids, *self.turns[earlier - 1].completion_ids]
        pairs = zip(before, self.turns[later - 1].prompt_ids, strict=False)
        return next((place for place, (one, other) in enumerate(pairs) if one != other), len(before))


def as_sent(message: dict[str, Any], sends: Sends) -> dict[str, Any]:
    """The case's message in OpenAI's wire form: arguments as text."""
    sent = dict(message)
    if sent.get("tool_calls"):
        sent["tool_calls"] = [
            {**call, "function": {**call["function"], "arguments": json.dumps(call["function"]["arguments"])}}
            for call in sent["tool_calls"]
        ]
    if sends == "drops thinking" and sent["role"] == "assistant":
        sent.pop("reasoning_content", None)
        sent["content"] = sent["content"].rpartition("</think>")[2].lstrip()
    return sent


def sampling(ids: list[int], request: GenerateRequest) -> list[Step]:
    return [*deltas(ids, size=3, prompt_tokens=len(request.input_ids))]


def case_named(name: str) -> dict[str, Any]:
    assert SHARED is not None, "these tests are skipped without it"
    return json.loads((SHARED / "cases" / f"{name}.json").read_text(encoding="utf-8"))


def after_stop(ids: list[int], start: int) -> list[int]:
    """What follows the first stop token from a place on."""
    return ids[ids.index(STOP, start) + 1 :]


async def play(
    case: dict[str, Any],
    renderer_for: RendererFor,
    mode: HistoryReasoning,
    *,
    sends: Sends = "keeps thinking",
    session: str | None = "s",
    declares: bool = True,
) -> Played:
    told = case["input"]["turns"]
    engine = ScriptedEngine(*(partial(sampling, turn["completion_ids"]) for turn in told))
    config = CollectorConfig(history_reasoning=mode)
    headers = {"x-session-id": session} if session is not None else {}
    async with serve(renderer_for(case["template"]["name"]), engine, config=config) as served:
        for turn in told:
            if "event" in turn and declares:
                event = {"kind": turn["event"], "session_id": session, "turn": turn["turn"]}
                status, _, answer = await post(served, "/v1/events", event)
                assert status == 200, answer
            body = {"model": "model", "messages": [as_sent(message, sends) for message in turn["messages"]]}
            if "tools" in case["input"]:
                body["tools"] = case["input"]["tools"]
            status, _, answer = await post(served, "/v1/chat/completions", body, **headers)
            assert status == 200, answer
        turns: list[Turn] = served.journal.turns
    assert [request.input_ids for request in engine.requests] == [turn.prompt_ids for turn in turns]
    assert [turn.completion_ids for turn in turns] == [turn["completion_ids"] for turn in told]
    assert all(turn.trainable for turn in turns)
    return Played(case, turns)


async def test_001_thinking_stripped_by_the_template_breaks_where_the_case_says(renderer_for: RendererFor) -> None:
    """The client sends thinking back; the template drops it, and the collector is told to let it."""
    played = await play(case_named("001-qwen3-thinking-stripped"), renderer_for, "template")
    expected = played.case["expected"]["prefix_breaks"][0]
    assert played.as_recorded == [True, True]
    assert played.links == [("root", None), ("break", expected["kind"])]
    assert played.segments == played.case["expected"]["segments"]
    assert played.common(1, 2) == expected["token_index"]


async def test_001_a_client_that_leaves_thinking_out_gets_what_the_template_gives(renderer_for: RendererFor) -> None:
    played = await play(case_named("001-qwen3-thinking-stripped"), renderer_for, "template", sends="drops thinking")
    assert played.as_recorded == [True, True]
    assert played.links == [("root", None), ("break", "reasoning_stripped")]


@pytest.mark.parametrize("sends", ["keeps thinking", "drops thinking"])
async def test_001_kept_thinking_is_one_segment(renderer_for: RendererFor, sends: Sends) -> None:
    played = await play(case_named("001-qwen3-thinking-stripped"), renderer_for, "keep", sends=sends)
    first, second = played.turns
    told = played.case["input"]["turns"][1]["prompt_ids"]
    assert played.links == [("root", None), ("extends", None)]
    assert played.segments == [[1, 2]]
    # After what was sampled comes what the case has after the same answer without its thinking.
    rest = after_stop(told, played.case["expected"]["prefix_breaks"][0]["token_index"])
    assert second.prompt_ids == [*first.prompt_ids, *first.completion_ids, *rest]


@pytest.mark.parametrize("mode", MODES)
async def test_002_a_clean_tool_loop_extends_id_by_id(renderer_for: RendererFor, mode: HistoryReasoning) -> None:
    for sends in ("keeps thinking", "drops thinking"):
        played = await play(case_named("002-qwen3-tool-loop-clean"), renderer_for, mode, sends=sends)
        first, second = played.turns
        assert played.as_recorded == [True, True]
        assert played.links == [("root", None), ("extends", None)]
        assert played.segments == played.case["expected"]["segments"]
        before = len(first.prompt_ids) + len(first.completion_ids)
        added = played.case["expected"]["tokens_added_by_environment_before_turn_2"]
        assert len(second.prompt_ids) - before == added


@pytest.mark.parametrize("mode", MODES)
async def test_005_sorted_keys_are_no_break_here_since_what_was_sampled_is_spliced(
    renderer_for: RendererFor, mode: HistoryReasoning
) -> None:
    """Rendering again breaks at the case's index; the collector keeps the sampled ids and appends the case's rest."""
    played = await play(case_named("005-tool-call-key-order"), renderer_for, mode)
    first, second = played.turns
    told = played.case["input"]["turns"][1]["prompt_ids"]
    assert played.links == [("root", None), ("extends", None)]
    assert played.as_recorded == [True, False]
    expected = played.case["expected"]["prefix_breaks"][0]
    sampled = [*first.prompt_ids, *first.completion_ids]
    common = next(place for place, (one, other) in enumerate(zip(told, sampled, strict=False)) if one != other)
    assert common == expected["token_index"]
    assert second.prompt_ids == sampled + after_stop(told, common)


async def test_005_other_values_than_were_sampled_are_the_cases_break(renderer_for: RendererFor) -> None:
    """The same dialogue with an argument that the client rewrote, as a reserialiser that changes values would."""
    case = case_named("005-tool-call-key-order")
    case["input"]["turns"][1]["messages"][1]["tool_calls"][0]["function"]["arguments"]["days"] = "2"
    played = await play(case, renderer_for, "keep")
    expected = case["expected"]["prefix_breaks"][0]
    assert played.links == [("root", None), ("break", expected["kind"])]
    assert played.segments == case["expected"]["segments"]
    assert played.common(1, 2) == expected["token_index"]


@pytest.mark.parametrize("mode", MODES)
async def test_016_declared_compaction_is_a_link_and_two_segments(
    renderer_for: RendererFor, mode: HistoryReasoning
) -> None:
    played = await play(case_named("016-compaction-declared"), renderer_for, mode)
    expected = played.case["expected"]
    assert played.as_recorded == [True] * 4
    assert played.links == [("root", None), ("extends", None), ("compaction", None), ("extends", None)]
    assert played.segments == expected["segments"]
    assert played.common(2, 3) == expected["prefix_breaks"][0]["token_index"]


async def test_016_without_the_event_the_summary_is_a_new_root(renderer_for: RendererFor) -> None:
    played = await play(case_named("016-compaction-declared"), renderer_for, "keep", declares=False)
    assert played.case["expected"]["severity"]["without_event"] == "read as a new root: no finding"
    assert played.links == [("root", None), ("extends", None), ("root", None), ("extends", None)]
    assert played.segments == played.case["expected"]["segments"]


@pytest.mark.parametrize("mode", MODES)
async def test_017_interleaved_agents_each_continue_their_own_line(
    renderer_for: RendererFor, mode: HistoryReasoning
) -> None:
    played = await play(case_named("017-subagent-interleaved"), renderer_for, mode)
    expected = played.case["expected"]
    assert played.as_recorded == [True] * 4
    assert played.parents == expected["parent_of_turn"]
    assert played.segments == expected["segments"]
    assert [kind for _, kind in played.links] == [None] * 4


async def test_017_without_a_session_header_each_agent_is_a_session(renderer_for: RendererFor) -> None:
    played = await play(case_named("017-subagent-interleaved"), renderer_for, "keep", session=None)
    names = [turn.session_id for turn in played.turns]
    assert names[0] == names[2] != names[1] == names[3]
    assert [turn.turn for turn in played.turns] == [1, 1, 2, 2]
    assert [turn.link for turn in played.turns] == ["root", "root", "extends", "extends"]
