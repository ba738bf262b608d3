"""Replies read from text: thinking, tool calls, what is malformed, and the same message however it is cut up."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.conversation import ReasoningDelta, Reply, TextDelta, ToolCallDelta
from collector.parsing.reply import ReplyParser

CALL = '<tool_call>\n{"name": "f", "arguments": {"b": 1,  "a": "</x>"}}\n</tool_call>'
TEXTS = [
    f"<think>\nLook\n twice \n</think>\n\nI will.\n{CALL}\n{CALL}",
    f"{CALL} and on\n",
    "<tool_call>{broken}</tool_call> stays",
    '<tool_call>\n{"name": "f", "arguments": {"a": 1}}',
    "  <think",
    "<think>never closed <",
    "<think></think>",
    "a < b </think> c <tool_calls>",
    f"x\n\n{CALL}\n\n",
]


def read(text: str, *sizes: int, thinking_open: bool = False, parse_tools: bool = True) -> tuple[Reply, list]:
    parser = ReplyParser(seed="turn", thinking_open=thinking_open, parse_tools=parse_tools)
    events, at = [], 0
    for size in sizes or (len(text),):
        events += parser.add(text[at : at + size])
        at += size
    events += parser.add(text[at:])
    events += parser.finish()
    return parser.reply(), events


def test_thinking_text_and_tool_calls_are_told_apart() -> None:
    reply, _ = read(TEXTS[0])
    assert reply.reasoning == "Look\n twice"
    assert reply.content == "I will."
    assert [(call.name, call.arguments) for call in reply.tool_calls] == [("f", '{"b": 1,  "a": "</x>"}')] * 2
    assert len({call.id for call in reply.tool_calls}) == 2


def test_thinking_that_the_prompt_opened_needs_no_opening_tag() -> None:
    reply, _ = read("\nHm.\n</think>\n\nYes.", thinking_open=True)
    assert (reply.reasoning, reply.content) == ("Hm.", "Yes.")


def test_thinking_that_never_ends_is_all_thinking() -> None:
    reply, _ = read("<think>\nHm. Then <")
    assert (reply.reasoning, reply.content) == ("Hm. Then <", "")


@pytest.mark.parametrize(
    "body",
    [
        "{broken}",
        '{"name": "f"',
        '{"arguments": {}}',
        '{"name": "", "arguments": {}}',
        '{"name": "f", "arguments": [1]}',
        '{"name": "f", "arguments": "no object"}',
        '{"name": "f", "arguments": {}} trailing',
        '{"name": 3, "arguments": {}}',
        "",
        f'{{"name": "f", "arguments": {{"a": {"[" * 20_000}{"]" * 20_000}}}}}',
    ],
    ids=range(10),
)
def test_a_malformed_tool_call_stays_text(body: str) -> None:
    text = f"before <tool_call>{body}</tool_call> after"
    reply, _ = read(text)
    assert (reply.content, reply.tool_calls) == (text, ())


def test_a_tool_call_that_is_never_closed_stays_text() -> None:
    text = '<tool_call>\n{"name": "f", "arguments": {}}'
    assert read(text)[0].content == text


def test_arguments_that_were_sampled_as_a_string_of_json_are_that_json() -> None:
    reply, _ = read('<tool_call>{"name": "f", "arguments": "{\\"a\\": 1}"}</tool_call>')
    assert reply.tool_calls[0].arguments == '{"a": 1}'


def test_without_tools_a_tool_call_is_text() -> None:
    assert read(CALL, parse_tools=False)[0].content == CALL


@pytest.mark.parametrize("text", TEXTS)
def test_a_cut_at_any_one_place_changes_nothing(text: str) -> None:
    expected, _ = read(text)
    for at in range(len(text)):
        reply, events = read(text, at)
        assert reply == expected
        assert _sum(events) == (expected.reasoning or "", expected.content, list(expected.tool_calls))


@settings(max_examples=200, deadline=None)
@given(text=st.sampled_from(TEXTS), sizes=st.lists(st.integers(1, 9), max_size=40), thinking_open=st.booleans())
def test_cuts_at_many_places_change_nothing(text: str, sizes: list[int], thinking_open: bool) -> None:
    expected, _ = read(text, thinking_open=thinking_open)
    reply, events = read(text, *sizes, thinking_open=thinking_open)
    assert reply == expected
    assert _sum(events) == (expected.reasoning or "", expected.content, list(expected.tool_calls))


@given(text=st.text(st.sampled_from('<>/think_toolcall{}":, \n'), max_size=60), parse_tools=st.booleans())
def test_no_text_is_lost_that_is_not_structure(text: str, parse_tools: bool) -> None:
    if "<think>" not in text and "</tool_call>" not in text:
        assert read(text, *[1] * len(text), parse_tools=parse_tools)[0].content == text


def _sum(events: list) -> tuple[str, str, list]:
    return (
        "".join(event.text for event in events if isinstance(event, ReasoningDelta)),
        "".join(event.text for event in events if isinstance(event, TextDelta)),
        [event.call for event in events if isinstance(event, ToolCallDelta)],
    )


def test_arguments_are_read_up_to_the_depth_that_a_client_may_send_back() -> None:
    for levels, calls in ((64, 1), (65, 0), (975, 0), (982, 0), (100_000, 0)):
        deep = f'{{"a":{"[" * (levels - 1)}{"]" * (levels - 1)}}}'
        for arguments in (deep, json.dumps(deep)):
            text = f'<tool_call>{{"name":"f","arguments":{arguments}}}</tool_call>'
            reply, _ = read(text)
            assert len(reply.tool_calls) == calls
            assert reply.content == ("" if calls else text)
