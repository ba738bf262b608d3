"""A reply sent whole says what the same reply says as a stream, in the same order, as the SDKs read it."""

import json
from typing import Any

import anthropic
import openai
import pytest

from collector.rendering.renderer import Renderer
from tests.collector.loopback import Served, serve
from tests.collector.sampled_text import replies

END = "<|im_end|>"
CALL = '<tool_call>\n{"name": "f", "arguments": {"a":  1}}\n</tool_call>'
TEXTS = {
    "text after a call": (f"See.\n{CALL}\nMore.{END}", ["text See.", "call", "text \nMore."]),
    "calls between texts": (
        f"<think>\nHm.\n</think>\n\nOne.\n{CALL}\n{CALL} two {CALL}\nthree{END}",
        ["thinking Hm.", "text One.", "call", "call", "text  two", "call", "text \nthree"],
    ),
    "a call first": (f"{CALL}Done.{END}", ["call", "text Done."]),
    "text only": (f"<think>\n\n</think>\n\nDone.{END}", ["text Done."]),
    "a call that is none": (f"<tool_call>{{}}</tool_call>\n{CALL}{END}", ["text <tool_call>{}</tool_call>", "call"]),
}
SIZES = [1, 1000]
SCHEMA: Any = {"type": "object", "properties": {}}


def anthropic_client(served: Served) -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(base_url=served.url, api_key="any", max_retries=0)


def openai_client(served: Served) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{served.url}/v1", api_key="any", max_retries=0)


async def messages_said(small: Renderer, text: str, stream: bool, size: int) -> list[str]:
    asked: Any = {"model": "model", "max_tokens": 999, "messages": [{"role": "user", "content": "Hi"}]}
    asked["tools"] = [{"name": "f", "input_schema": SCHEMA}]
    async with serve(small, replies(small, text, size=size)) as served, anthropic_client(served) as client:
        if stream:
            async with client.messages.stream(**asked) as events:
                message: Any = await events.get_final_message()
        else:
            message = await client.messages.create(**asked)
    said: list[str] = []
    for block in message.content:
        if block.type == "tool_use":
            assert (block.name, block.input) == ("f", {"a": 1})
        said.append({"thinking": "thinking ", "text": "text ", "tool_use": "call"}[block.type] + block_text(block))
    return said


def block_text(block: Any) -> str:
    return getattr(block, "thinking", None) or getattr(block, "text", None) or ""


async def responses_said(small: Renderer, text: str, stream: bool, size: int) -> list[str]:
    asked: Any = {"model": "model", "input": "Hi"}
    asked["tools"] = [{"type": "function", "name": "f", "parameters": SCHEMA, "strict": False}]
    async with serve(small, replies(small, text, size=size)) as served, openai_client(served) as client:
        if stream:
            async with client.responses.stream(**asked) as events:
                response: Any = await events.get_final_response()
        else:
            response = await client.responses.create(**asked)
    said: list[str] = []
    for item in response.output:
        if item.type == "function_call":
            assert (item.name, json.loads(item.arguments)) == ("f", {"a": 1})
            said.append("call")
        else:
            said.append({"reasoning": "thinking ", "message": "text "}[item.type] + item.content[0].text)
    return said


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("said", [messages_said, responses_said])
async def test_blocks_come_in_the_order_in_which_they_were_sampled(small: Renderer, said: Any, name: str) -> None:
    text, expected = TEXTS[name]
    assert await said(small, text, False, 1000) == expected
    for size in SIZES:
        assert await said(small, text, True, size) == expected


@pytest.mark.parametrize("name", TEXTS)
async def test_chat_which_has_no_order_says_the_same_whole_and_streamed(small: Renderer, name: str) -> None:
    text, expected = TEXTS[name]
    asked: Any = {"model": "model", "messages": [{"role": "user", "content": "Hi"}]}
    asked["tools"] = [{"type": "function", "function": {"name": "f", "parameters": SCHEMA}}]
    found: list[tuple[str, list[tuple[str, str]]]] = []
    for stream in (False, True):
        async with serve(small, replies(small, text)) as served, openai_client(served) as client:
            if stream:
                async with client.chat.completions.stream(**asked) as events:
                    message: Any = (await events.get_final_completion()).choices[0].message
            else:
                message = (await client.chat.completions.create(**asked)).choices[0].message
        calls = [(call.function.name, call.function.arguments) for call in message.tool_calls or ()]
        found.append((message.content or "", calls))
    texts = "".join(part.removeprefix("text ") for part in expected if part.startswith("text "))
    assert found == [(texts, [("f", '{"a":  1}')] * expected.count("call"))] * 2


@pytest.mark.parametrize("wire", ["messages", "responses"])
async def test_a_reply_with_text_after_its_calls_comes_back_and_is_extended(small: Renderer, wire: str) -> None:
    engine = replies(small, f"See.\n{CALL}\nMore.{END}", f"Done.{END}")
    async with serve(small, engine) as served:
        if wire == "messages":
            async with anthropic_client(served) as client:
                asked: Any = {"model": "model", "max_tokens": 99, "tools": [{"name": "f", "input_schema": SCHEMA}]}
                history: Any = [{"role": "user", "content": "Hi"}]
                said: Any = await client.messages.create(messages=history, **asked)
                result = {"type": "tool_result", "tool_use_id": said.content[1].id, "content": "rain"}
                history += [{"role": "assistant", "content": said.content}, {"role": "user", "content": [result]}]
                await client.messages.create(messages=history, **asked)
        else:
            async with openai_client(served) as client:
                tools: Any = [{"type": "function", "name": "f", "parameters": SCHEMA, "strict": False}]
                items: Any = [{"role": "user", "content": "Hi"}]
                response: Any = await client.responses.create(model="model", input=items, tools=tools)
                output = {"type": "function_call_output", "call_id": response.output[1].call_id, "output": "rain"}
                items += [*response.output, output]
                await client.responses.create(model="model", input=items, tools=tools)
        first, second = served.journal.turns
    ids = [*first.prompt_ids, *first.completion_ids]
    assert (second.link, second.parent_turn_id) == ("extends", first.turn_id)
    assert second.prompt_ids[: len(ids)] == ids
