"""A model of a known family behind the collector: its calls reach clients, and prompts go on without being rendered."""

import json
from itertools import pairwise
from typing import Any

import anthropic
import openai
import pytest

from collector.rendering.proven_family import Choice, ProvenFamily
from tests.collector.loopback import Served, serve
from tests.collector.rendering.dialogue import TOOLS
from tests.collector.rendering.families import KNOWN, Known
from tests.collector.sampled_text import replies

CALL = (
    "<tool_call>\n<function=get_weather>\n<parameter=city>\nTromsø\n</parameter>\n</function>\n</tool_call>\n"
    "<tool_call>\n<function=get_weather>\n<parameter=city>\n42\n</parameter>\n</function>\n</tool_call>"
)
REPLIES = [f"Look.\n</think>\n\nI look.\n\n{CALL}<|im_end|>", "Hm.\n</think>\n\nIt rains.<|im_end|>", "Bye.<|im_end|>"]
KIMI = (
    "I look.<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>"
    '{"city":  "Tromsø"}<|tool_call_end|><|tool_calls_section_end|><|im_end|>'
)


def known(family: str, template: str) -> Known:
    return next(each for each in KNOWN if (each.family, each.template) == (family, template))


async def chat_answer(served: Served, history: list[Any], stream: bool) -> Any:
    asked: Any = {"model": "model", "messages": history, "tools": TOOLS}
    async with openai.AsyncOpenAI(base_url=f"{served.url}/v1", api_key="any", max_retries=0) as client:
        if not stream:
            return (await client.chat.completions.create(**asked)).choices[0].message
        async with client.chat.completions.stream(**asked) as events:
            return (await events.get_final_completion()).choices[0].message


@pytest.mark.parametrize("stream", [False, True])
async def test_calls_in_a_familys_own_words_are_calls_and_the_next_prompt_extends(stream: bool) -> None:
    model = known("qwen3.5", "Qwen3.5-4B.jinja")
    renderer = model.renderer()
    choice = Choice(ProvenFamily(renderer, model.family), None)
    async with serve(renderer, replies(renderer, *REPLIES), choice=choice) as served:
        history: list[Any] = [{"role": "user", "content": "Weather?"}]
        message = await chat_answer(served, history, stream)
        calls = [(call.function.name, json.loads(call.function.arguments)) for call in message.tool_calls]
        # A value of a parameter that is declared a string stays one.
        assert calls == [("get_weather", {"city": "Tromsø"}), ("get_weather", {"city": "42"})]
        assert (message.content, message.reasoning_content) == ("I look.", "Look.")
        history += [{"role": "assistant", "content": message.content, "tool_calls": given(message)}]
        history += [{"role": "tool", "tool_call_id": call.id, "content": "rain"} for call in message.tool_calls]
        message = await chat_answer(served, history, stream)
        history += [{"role": "assistant", "content": message.content}, {"role": "user", "content": "Thanks."}]
        await chat_answer(served, history, stream)
        turns = served.journal.turns
    for earlier, later in pairwise(turns):
        ids = [*earlier.prompt_ids, *earlier.completion_ids]
        assert (later.link, later.prompt_ids[: len(ids)]) == ("extends", ids)
    assert [turn.trainable for turn in turns] == [True] * 3
    said = renderer.tokenizer.decode(turns[2].prompt_ids[len(turns[1].prompt_ids) + len(turns[1].completion_ids) :])
    assert said == "\n<|im_start|>user\nThanks.<|im_end|>\n<|im_start|>assistant\n<think>\n"


def given(message: Any) -> list[dict[str, Any]]:
    return [call.model_dump(include={"id", "type", "function"}) for call in message.tool_calls]


async def test_special_tokens_that_structure_a_call_are_read_and_not_shown_and_its_id_is_the_models() -> None:
    model = known("kimi-k2", "moonshotai-Kimi-K2-Instruct-0905.jinja")
    renderer = model.renderer()
    choice = Choice(ProvenFamily(renderer, model.family), None)
    async with serve(renderer, replies(renderer, KIMI, "Bye.<|im_end|>"), choice=choice) as served:
        async with anthropic.AsyncAnthropic(base_url=served.url, api_key="any", max_retries=0) as client:
            tools: Any = [{"name": "get_weather", "input_schema": TOOLS[0]["function"]["parameters"]}]
            history: Any = [{"role": "user", "content": "Weather?"}]
            first = await client.messages.create(model="model", max_tokens=99, messages=history, tools=tools)
            text, call = first.content
            assert text.type == "text"
            assert call.type == "tool_use"
            assert (text.text, call.id, call.input) == ("I look.", "functions.get_weather:0", {"city": "Tromsø"})
            result = {"type": "tool_result", "tool_use_id": call.id, "content": "rain"}
            history += [{"role": "assistant", "content": first.content}, {"role": "user", "content": [result]}]
            await client.messages.create(model="model", max_tokens=99, messages=history, tools=tools)
        earlier, later = served.journal.turns
    ids = [*earlier.prompt_ids, *earlier.completion_ids]
    assert later.prompt_ids[: len(ids)] == ids
    assert "## Return of functions.get_weather:0\nrain" in renderer.tokenizer.decode(later.prompt_ids[len(ids) :])


async def test_what_serves_the_model_is_told() -> None:
    model = known("kimi-k2", "moonshotai-Kimi-K2-Instruct-0905.jinja")
    renderer = model.renderer()
    async with serve(
        renderer, replies(renderer, KIMI), choice=Choice(ProvenFamily(renderer, "kimi-k2"), None)
    ) as served:
        told: Any = served.collector.health()["renderer"]
    assert (told["family"], told["next_turns"], told["calls"]) == ("kimi-k2", "as the template", "as the template")
    # The package writes the keys of tool definitions in another order than this template; the template is used.
    assert told["first_turns"].startswith("it writes ")
