"""Kinds of breaks, told from renderings by real templates, for the ways in which public reports say that they break."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from checks.measures.break_kind import KindTeller
from checks.measures.held_turn import common_prefix
from collector.parsing.detokenizer import BYTE_ALPHABET
from collector.rendering.renderer import Renderer
from collector.rendering.template import ChatTemplate
from collector.rendering.tokenizer import ChatTokenizer
from tests.collector.published import template_source

Message = Mapping[str, Any]

SYSTEM: Message = {"role": "system", "content": "You are terse."}
ASK: Message = {"role": "user", "content": "What is 17 + 25?"}
AGAIN: Message = {"role": "user", "content": "Double it."}
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Weather of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}},
    },
}
RESULT: Message = {"role": "tool", "tool_call_id": "call_1", "name": "get_weather", "content": '{"rain_mm": 3.2}'}
THOUGHT: Message = {"role": "assistant", "content": "It is 42.", "reasoning_content": "17 and 25."}
SAID: Message = {"role": "assistant", "content": "It is 42."}


def calling(**more: Any) -> Message:
    function = {"name": "get_weather", "arguments": {"city": "Oslo", "days": 2}}
    calls = [{"id": more.pop("id", "call_1"), "type": "function", "function": function}]
    return {"role": "assistant", "content": "", "tool_calls": calls, **more}


class Family(NamedTuple):
    template: str
    words: str
    """Added tokens, the one that begins a text first."""
    eos: str


QWEN_WORDS = (
    "<|endoftext|> <|im_start|> <|im_end|> <think> </think> <tool_call> </tool_call> <tool_response> </tool_response>"
    " <|vision_start|> <|image_pad|> <|vision_end|>"
)
QWEN3 = Family("Qwen-Qwen3-0.6B.jinja", QWEN_WORDS, "<|im_end|>")
QWEN3_INSTRUCT = Family("Qwen-Qwen3-4B-Instruct-2507.jinja", QWEN_WORDS, "<|im_end|>")
QWEN3_THINKING = Family("Qwen-Qwen3-4B-Thinking-2507.jinja", QWEN_WORDS, "<|im_end|>")
QWEN3_CODER = Family("Qwen-Qwen3-Coder-30B-A3B-Instruct.jinja", QWEN_WORDS, "<|im_end|>")
NEMOTRON = Family("NVIDIA-Nemotron-3-Nano-30B-A3B-BF16.jinja", QWEN_WORDS, "<|im_end|>")
GLM = Family(
    "GLM-4.6.jinja",
    "[gMASK] <sop> <|system|> <|user|> <|assistant|> <|observation|> <|endoftext|> <think> </think> <tool_call>"
    " </tool_call> <arg_key> </arg_key> <arg_value> </arg_value>",
    "<|endoftext|>",
)
KIMI = Family(
    "Kimi-K2-Thinking.jinja",
    "[BOS] [EOS] <|im_system|> <|im_user|> <|im_assistant|> <|im_middle|> <|im_end|> <think> </think>",
    "<|im_end|>",
)
DEEPSEEK = Family(
    "tencent-DeepSeek-V3.1-Terminus-W4AFP8.jinja",
    "<｜begin▁of▁sentence｜> <｜end▁of▁sentence｜> <｜User｜> <｜Assistant｜> <think> </think>",
    "<｜end▁of▁sentence｜>",
)
HARMONY = Family(
    "openai-gpt-oss-120b.jinja",
    "<|startoftext|> <|start|> <|end|> <|message|> <|channel|> <|return|> <|call|> <|constrain|>",
    "<|return|>",
)
MINIMAX = Family(
    "MiniMax-M2.jinja", "]~!b[ ]~b] [e~[ <think> </think> <minimax:tool_call> </minimax:tool_call>", "[e~["
)
LLAMA = Family(
    "NousResearch-Meta-Llama-3.1-8B-Instruct.jinja",
    "<|begin_of_text|> <|eot_id|> <|start_header_id|> <|end_header_id|> <|eom_id|> <|python_tag|>",
    "<|eot_id|>",
)
GEMMA = Family("unsloth-gemma-3-270m-it.jinja", "<bos> <eos> <start_of_turn> <end_of_turn>", "<eos>")
APRIEL = Family(
    "unsloth-Apriel-1.5.jinja", "<s> <|begin_system|> <|begin_user|> <|begin_assistant|> <|end|>", "<|end|>"
)


def renderer_of(family: Family) -> Renderer:
    """The family's published template over a tokenizer of bytes with the family's added tokens."""
    backend = Tokenizer(models.BPE(vocab=dict(BYTE_ALPHABET), merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    words = family.words.split()
    backend.add_tokens([AddedToken(word, special=True, normalized=False) for word in words])
    tokenizer = ChatTokenizer(backend, names={"eos_token": family.eos, "bos_token": words[0]})
    return Renderer(tokenizer, ChatTemplate(template_source(family.template), names=tokenizer.names))


def kind_between(renderer: Renderer, prompt: str, completion: str, now: str) -> str:
    encode = renderer.tokenizer.encode
    before, after = (np.array(ids, np.int32) for ids in (encode(prompt) + encode(completion), encode(now)))
    index = common_prefix(before, after)
    assert index < len(before), "the next prompt extends the turn"
    return KindTeller(renderer.tokenizer).kind(before, after, index, len(encode(prompt)))


def kind_of_next_turn(
    family: Family,
    completion: str,
    reply: Message,
    *,
    tools: Sequence[Any] | None = None,
    after: Sequence[Message] = (AGAIN,),
    **variables: Any,
) -> str:
    """Asks, samples the completion, sends the reply back with more, and renders the next prompt anew."""
    renderer = renderer_of(family)
    prompt = renderer.text([SYSTEM, ASK], tools=tools, variables=variables)
    return kind_between(
        renderer, prompt, completion, renderer.text([SYSTEM, ASK, reply, *after], tools=tools, variables=variables)
    )


@pytest.mark.parametrize(
    ("family", "completion", "variables"),
    [
        (QWEN3, "<think>\n17 and 25.\n</think>\n\nIt is 42.<|im_end|>", {}),
        (QWEN3_THINKING, "17 and 25.\n</think>\n\nIt is 42.<|im_end|>", {}),
        (NEMOTRON, "17 and 25.\n</think>\nIt is 42.<|im_end|>", {}),
        (GLM, "\n<think>17 and 25.</think>\nIt is 42.<|user|>", {}),
        (KIMI, "<think>17 and 25.</think>It is 42.<|im_end|>", {}),
        (DEEPSEEK, "17 and 25.</think>It is 42.<｜end▁of▁sentence｜>", {"thinking": True}),
        (MINIMAX, "17 and 25.\n</think>\n\nIt is 42.[e~[", {}),
        (APRIEL, "Here are my reasoning steps:\n17 and 25.\n[BEGIN FINAL RESPONSE]\nIt is 42.\n<|end|>", {}),
        (
            HARMONY,
            "<|channel|>analysis<|message|>17 and 25.<|end|>"
            "<|start|>assistant<|channel|>final<|message|>It is 42.<|return|>",
            {},
        ),
    ],
    ids=lambda value: value.template if isinstance(value, Family) else "",
)
def test_thinking_that_the_template_drops_from_history(family: Family, completion: str, variables: Any) -> None:
    assert kind_of_next_turn(family, completion, THOUGHT, **variables) == "reasoning_stripped"


def test_thinking_cut_by_the_length_limit_before_it_closed_is_stripped_too() -> None:
    cut = "<think>\n17 and 25, so that"
    assert kind_of_next_turn(QWEN3, cut, {"role": "assistant", "content": "", "reasoning_content": cut}) == (
        "reasoning_stripped"
    )


def test_thinking_of_a_tool_loop_is_dropped_inside_the_prompt_once_the_user_speaks() -> None:
    renderer = renderer_of(QWEN3)
    loop = [SYSTEM, ASK, calling(reasoning_content="I need the forecast."), RESULT]
    prompt = renderer.text(loop, tools=[TOOL])
    assert "I need the forecast." in prompt
    now = renderer.text([*loop, SAID, AGAIN], tools=[TOOL])
    assert kind_between(renderer, prompt, "<think>\nDry.\n</think>\n\nIt is 42.<|im_end|>", now) == "reasoning_stripped"


def test_thinking_whose_opening_was_never_sampled_is_stripped() -> None:
    renderer = renderer_of(QWEN3)
    prompt = renderer.text([SYSTEM, ASK], tools=None)
    now = renderer.text([SYSTEM, ASK, SAID, AGAIN], tools=None)
    assert kind_between(renderer, prompt, "17 and 25.\n</think>\n\nIt is 42.<|im_end|>", now) == "reasoning_stripped"


def test_an_empty_think_block_of_the_generation_prompt_is_missing_from_history() -> None:
    assert kind_of_next_turn(QWEN3, "It is 42.<|im_end|>", SAID, enable_thinking=False) == "empty_think_block"


def test_an_empty_think_block_that_history_puts_before_an_answer_without_thinking() -> None:
    renderer = renderer_of(QWEN3)
    prompt = renderer.text([SYSTEM, ASK], tools=None)
    now = prompt + "<think>\n\n</think>\n\nIt is 42.<|im_end|>\n<|im_start|>user\nDouble it.<|im_end|>\n"
    assert kind_between(renderer, prompt, "It is 42.<|im_end|>", now) == "empty_think_block"
    # A call where the block is put: both sides go on with an added token.
    assert kind_between(renderer, prompt, '<tool_call>\n{"name": "f"}\n</tool_call><|im_end|>', now) == (
        "empty_think_block"
    )


@pytest.mark.parametrize(
    ("family", "completion", "reply"),
    [
        (
            QWEN3_INSTRUCT,
            '<tool_call>\n{"name": "get_weather", "arguments": {"days": 2, "city": "Oslo"}}\n</tool_call><|im_end|>',
            calling(),
        ),
        (
            QWEN3_INSTRUCT,
            '<tool_call>\n{"name":"get_weather","arguments":{"city":"Oslo","days":2}}\n</tool_call><|im_end|>',
            calling(),
        ),
        (
            QWEN3_INSTRUCT,
            '<tool_call>\n{"name": "get_weather", "arguments": {"city": "\\u004fslo", "days": 2}}\n'
            "</tool_call><|im_end|>",
            calling(),
        ),
        (
            QWEN3_INSTRUCT,
            '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo", "days": 2}}</tool_call><|im_end|>',
            calling(),
        ),
        (
            QWEN3_CODER,
            "<tool_call>\n<function=get_weather>\n<parameter=days>\n2\n</parameter>\n<parameter=city>\nOslo\n"
            "</parameter>\n</function>\n</tool_call><|im_end|>",
            calling(),
        ),
        (
            GLM,
            "\n<think>hm</think>\n<tool_call>get_weather\n<arg_key>days</arg_key>\n<arg_value>2</arg_value>\n"
            "<arg_key>city</arg_key>\n<arg_value>Oslo</arg_value>\n</tool_call><|observation|>",
            calling(reasoning_content="hm"),
        ),
        (
            MINIMAX,
            'hm\n</think>\n\n<minimax:tool_call>\n<invoke name="get_weather">\n<parameter name="days">2</parameter>\n'
            '<parameter name="city">Oslo</parameter>\n</invoke>\n</minimax:tool_call>[e~[',
            calling(reasoning_content="hm"),
        ),
        (
            HARMONY,
            "<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>"
            '{"city":"Oslo","days":2}<|call|>',
            calling(),
        ),
        (LLAMA, '{"name": "get_weather", "parameters": {"days": 2, "city": "Oslo"}}<|eot_id|>', calling()),
    ],
    ids=["key order", "spaces", "unicode escape", "newline", "coder", "glm", "minimax", "harmony", "bare json"],
)
def test_a_tool_call_that_history_spells_otherwise(family: Family, completion: str, reply: Message) -> None:
    assert kind_of_next_turn(family, completion, reply, tools=[TOOL], after=(RESULT,)) == "tool_call_reserialized"


def test_a_call_of_another_function_is_not_a_spelling() -> None:
    completion = '<tool_call>\n{"name": "get_time", "arguments": {"city": "Oslo"}}\n</tool_call><|im_end|>'
    assert kind_of_next_turn(QWEN3_INSTRUCT, completion, calling(), tools=[TOOL], after=(RESULT,)) == "other"


@pytest.mark.parametrize(
    ("family", "completion"),
    [
        (QWEN3_INSTRUCT, "It is 42.<|endoftext|>"),
        (QWEN3_INSTRUCT, "It is 42.<|im_end|><|endoftext|>"),
        (GLM, "\n<think></think>\nIt is 42.<|endoftext|>"),
        (HARMONY, "<|channel|>final<|message|>It is 42.<|return|>"),
        (LLAMA, "It is 42.<|eom_id|>"),
        (GEMMA, "It is 42.<eos>"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_stop_token_that_history_has_another_for(family: Family, completion: str) -> None:
    assert kind_of_next_turn(family, completion, SAID) == "stop_token_replaced"


def test_a_reply_that_is_gone_on_with_lost_its_stop_token_to_text() -> None:
    renderer = renderer_of(QWEN3_INSTRUCT)
    prompt = renderer.text([SYSTEM, ASK], tools=None)
    assert kind_between(renderer, prompt, "It is<|im_end|>", f"{prompt}It is 42.<|im_end|>\n") == "other"


@pytest.mark.parametrize("family", [QWEN3_INSTRUCT, LLAMA, DEEPSEEK, KIMI, GLM, HARMONY], ids=lambda f: f.template)
def test_a_date_in_the_system_prompt(family: Family) -> None:
    renderer = renderer_of(family)
    at_first, later = (
        [{"role": "system", "content": f"You are terse. Today is {day}."}, ASK] for day in ("Monday", "Tuesday")
    )
    now = renderer.text([*later, SAID, AGAIN], tools=None)
    assert kind_between(renderer, renderer.text(at_first, tools=None), f"It is 42.{family.eos}", now) == (
        "system_prompt_changed"
    )


def test_a_system_prompt_that_comes_late_or_goes() -> None:
    renderer = renderer_of(QWEN3_INSTRUCT)
    without, with_one = [ASK], [SYSTEM, ASK]
    for one, other in ((without, with_one), (with_one, without)):
        now = renderer.text([*other, SAID, AGAIN], tools=None)
        assert kind_between(renderer, renderer.text(one, tools=None), "It is 42.<|im_end|>", now) == (
            "system_prompt_changed"
        )


def test_tools_that_were_added_change_the_system_prompt() -> None:
    renderer = renderer_of(QWEN3_INSTRUCT)
    more = {**TOOL, "function": {**TOOL["function"], "name": "get_time"}}
    prompt = renderer.text([SYSTEM, ASK], tools=[TOOL])
    now = renderer.text([SYSTEM, ASK, SAID, AGAIN], tools=[TOOL, more])
    assert kind_between(renderer, prompt, "It is 42.<|im_end|>", now) == "system_prompt_changed"


def test_another_question_than_was_asked_is_no_system_prompt() -> None:
    renderer = renderer_of(QWEN3_INSTRUCT)
    now = renderer.text([SYSTEM, {"role": "user", "content": "What is 18?"}, SAID, AGAIN], tools=None)
    assert kind_between(renderer, renderer.text([SYSTEM, ASK], tools=None), "It is 42.<|im_end|>", now) == "other"


def test_a_second_mark_of_beginning_is_no_system_prompt() -> None:
    renderer = renderer_of(LLAMA)
    prompt = renderer.text([SYSTEM, ASK], tools=None)
    now = "<|begin_of_text|>" + renderer.text([SYSTEM, ASK, SAID, AGAIN], tools=None)
    assert now.startswith("<|begin_of_text|>" * 2)
    assert kind_between(renderer, prompt, "It is 42.<|eot_id|>", now) == "other"


@pytest.mark.parametrize("family", [LLAMA, GEMMA, DEEPSEEK, GLM, APRIEL], ids=lambda family: family.template)
def test_a_mark_of_beginning_that_is_missing_is_no_system_prompt(family: Family) -> None:
    renderer = renderer_of(family)
    bos = family.words.split()[0]
    prompt, now = (renderer.text(asked, tools=None) for asked in ([SYSTEM, ASK], [SYSTEM, ASK, SAID, AGAIN]))
    assert prompt.startswith(bos)
    reply = f"It is 42.{family.eos}"
    assert kind_between(renderer, prompt, reply, now.removeprefix(bos)) == "other"
    assert kind_between(renderer, prompt.removeprefix(bos), reply, now) == "other"


def test_white_space_trimmed_from_a_reply_is_other() -> None:
    assert kind_of_next_turn(GEMMA, "It is 42. \n<end_of_turn>", SAID) == "other"
    assert kind_of_next_turn(QWEN3_INSTRUCT, "\nIt is 42.<|im_end|>", SAID) == "other"


def test_an_image_that_takes_another_number_of_places_is_other() -> None:
    renderer = renderer_of(QWEN3_INSTRUCT)

    def asked(places: int) -> str:
        return f"<|im_start|>user\n<|vision_start|>{'<|image_pad|>' * places}<|vision_end|>What?<|im_end|>\n"

    reply = "<|im_start|>assistant\n"
    now = f"{asked(9)}{reply}A cat.<|im_end|>\n<|im_start|>user\nSure?<|im_end|>\n{reply}"
    assert kind_between(renderer, asked(12) + reply, "A cat.<|im_end|>", now) == "other"


def test_messages_replaced_by_fewer_are_a_compaction() -> None:
    renderer = renderer_of(QWEN3_INSTRUCT)
    long = [SYSTEM, ASK, SAID, AGAIN, {"role": "assistant", "content": "84."}, {"role": "user", "content": "Again."}]
    short = [SYSTEM, {"role": "user", "content": "So far: 42, 84."}, {"role": "assistant", "content": "168."}, AGAIN]
    now = renderer.text(short, tools=None)
    assert kind_between(renderer, renderer.text(long, tools=None), "168.<|im_end|>", now) == "compaction"


def merging() -> ChatTokenizer:
    """Letters, and two ways to put three of them together."""
    vocab = {letter: n for n, letter in enumerate("abcdef")} | {"ab": 6, "bc": 7, "abc": 8}
    backend = Tokenizer(models.BPE(vocab=vocab, merges=[("a", "b"), ("b", "c"), ("ab", "c")]))
    backend.decoder = decoders.Fuse()
    backend.add_tokens([AddedToken("<|im_end|>", special=True)])
    return ChatTokenizer(backend, names={"eos_token": "<|im_end|>"})


@pytest.mark.parametrize(
    ("before", "now", "kind"),
    [
        ([3, 0, 7, 4], [3, 8, 4, 5], "retokenized"),
        ([3, 0, 7, 4], [3, 6, 2, 5], "retokenized"),
        ([3, 0, 7, 4], [3, 8], "retokenized"),
        ([3, 0, 1, 4], [3, 6, 2, 5], "retokenized"),
        # Alike as letters go, and no token ends where both are still alike.
        ([3, 0, 7, 4], [3, 6, 3, 5], "other"),
        ([3, 0, 1, 2], [3, 0, 3, 2], "other"),
        # Ids that the tokenizer does not have say nothing.
        ([3, 77, 78, 4], [3, 79, 80, 4], "other"),
        ([3, -1, 4], [3, 8, 4], "other"),
    ],
)
def test_the_same_text_in_other_tokens_is_retokenized(before: list[int], now: list[int], kind: str) -> None:
    one, other = np.array(before, np.int32), np.array(now, np.int32)
    assert KindTeller(merging()).kind(one, other, common_prefix(one, other), 1) == kind


def test_half_a_character_is_compared_with_its_other_half() -> None:
    renderer = renderer_of(QWEN3_INSTRUCT)
    e_acute, e_grave = renderer.tokenizer.encode("é"), renderer.tokenizer.encode("è")
    assert e_acute[0] == e_grave[0], "two bytes, the first one the same"
    one, other = np.array([40, *e_acute, 41], np.int32), np.array([40, *e_grave, 41], np.int32)
    assert KindTeller(renderer.tokenizer).kind(one, other, 2, 1) == "other"


def test_a_number_spelled_another_way_is_a_spelling() -> None:
    completion = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo", "days": 2.0}}\n</tool_call>'
    assert kind_of_next_turn(QWEN3_INSTRUCT, completion, calling(), tools=[TOOL], after=(RESULT,)) == (
        "tool_call_reserialized"
    )
