"""Splicing: a turn's prompt and completion stay a token prefix of the next prompt, and only what is new is encoded."""

from collections.abc import Callable
from itertools import pairwise

import pytest

from collector.conversation import Reply
from collector.records import ChatRequest
from collector.rendering.prompt import build_prompt
from collector.rendering.renderer import Renderer
from collector.rendering.splice import Ancestor
from collector.rendering.template import ChatTemplate
from collector.rendering.tokenizer import ChatTokenizer
from tests.collector.rendering.dialogue import CALL, TOOLS, extends, play, result, user

END = "<|im_end|>"
PLAIN = [(f"Hello.{END}", [user("More?")]), (f"Yes  \n{END}", [user("And?")]), (f"No.{END}", [])]
THINKING = [
    (f"<think>\nFirst.\n</think>\n\nHello.{END}", [user("More?")]),
    (f"<think>\nSecond.\n</think>\n\nYes.{END}", [user("And?")]),
    (f"<think>\nThird.\n</think>\n\nNo.{END}", []),
]
TOOL_LOOP = [
    (f"{CALL}{END}", [result("rain")]),
    (f"Once more.\n{CALL}\n{CALL}{END}", [result("rain"), result("snow")]),
    (f"It rains.{END}", [user("Thanks.")]),
    (f"Gladly.{END}", []),
]
THINKING_LOOP = [
    (f"<think>\nLook.\n</think>\n\nI will look.\n{CALL}{END}", [result("rain")]),
    (f"<think>\nAgain.\n</think>\n\n{CALL}{END}", [result("rain")]),
    (f"<think>\nDone.\n</think>\n\nIt rains.{END}", [user("Thanks.")]),
    (f"<think>\n\n</think>\n\nGladly.{END}", []),
]
TEMPLATES = [
    "Qwen-Qwen3-0.6B.jinja",
    "Qwen-Qwen3-4B-Instruct-2507.jinja",
    "Qwen-Qwen3-4B-Thinking-2507.jinja",
    "Qwen-Qwen3.5-0.8B.jinja",
    "HuggingFaceTB-SmolLM2-135M-Instruct.jinja",
    "NousResearch-Hermes-4-14B.jinja",
]


@pytest.mark.parametrize("name", TEMPLATES)
@pytest.mark.parametrize("keeps", [False, True], ids=["client drops thinking", "client keeps thinking"])
@pytest.mark.parametrize(
    ("steps", "tools"),
    [(PLAIN, None), (THINKING, None), (TOOL_LOOP, TOOLS), (THINKING_LOOP, TOOLS)],
    ids=["plain", "thinking", "tool loop", "thinking tool loop"],
)
def test_every_turn_extends_the_one_before(
    renderer_for: Callable[[str], Renderer], name: str, keeps: bool, steps: list, tools: list | None
) -> None:
    played = play(renderer_for(name), [user("Hi")], steps, tools=tools, client_keeps_thinking=keeps)
    assert [turn.prompt.break_kind for turn in played] == [None] * len(steps)
    assert all(extends(earlier, later) for earlier, later in pairwise(played))


@pytest.mark.parametrize(("steps", "tools"), [(PLAIN[:1], None), (TOOL_LOOP, TOOLS), (THINKING, None)])
def test_every_turn_extends_the_one_before_with_smollm2(smollm2: Renderer, steps: list, tools: list | None) -> None:
    played = play(smollm2, [user("Hi")], [*steps, (f"Bye.{END}", [])], tools=tools)
    assert all(extends(earlier, later) for earlier, later in pairwise(played))
    # What was added is text of its own: nothing merged into the ids before it.
    for earlier, later in pairwise(played):
        rest = later.prompt.ids[len(earlier.prompt.ids) + len(earlier.completion) :]
        assert smollm2.tokenizer.encode(f"{END}{smollm2.tokenizer.decode(rest)}")[1:] == rest


@pytest.mark.parametrize(("steps", "tools"), [(PLAIN[:1], None), (TOOL_LOOP, TOOLS)])
def test_where_sampling_spelled_what_the_template_spells_the_ids_are_those_of_a_whole_render(
    renderer_for: Callable[[str], Renderer], steps: list, tools: list | None
) -> None:
    renderer = renderer_for("Qwen-Qwen3-4B-Instruct-2507.jinja")
    for turn in play(renderer, [user("Hi")], [*steps, (f"Bye.{END}", [])], tools=tools):
        assert turn.prompt.ids == turn.whole_render


def test_a_reply_cut_by_length_is_closed_as_the_template_closes_it(qwen3: Renderer) -> None:
    first, second = play(qwen3, [user("Hi")], [("Hello the", [user("Go on.")]), (f"re.{END}", [])])
    assert extends(first, second)
    rest = second.prompt.ids[len(first.prompt.ids) + len(first.completion) :]
    assert qwen3.tokenizer.decode(rest) == f"{END}\n<|im_start|>user\nGo on.{END}\n<|im_start|>assistant\n"


def test_another_stop_token_than_the_templates_stays_and_the_template_still_closes(qwen3: Renderer) -> None:
    first, second = play(qwen3, [user("Hi")], [("Hello.<|endoftext|>", [user("Go on.")]), (f"re.{END}", [])])
    assert extends(first, second)
    rest = second.prompt.ids[len(first.prompt.ids) + len(first.completion) :]
    assert qwen3.tokenizer.decode(rest).startswith(f"{END}\n<|im_start|>user\nGo on.")


def test_sampled_ids_survive_that_no_encoder_would_give(qwen3: Renderer) -> None:
    # " Pantom" as P + antom instead of the encoder's own split: retokenizing would change it.
    encode = qwen3.tokenizer.encode
    odd = [*encode(" P"), *encode("ant"), *encode("om"), *encode(END)]
    assert encode(qwen3.tokenizer.decode(odd)) != odd
    first = play(qwen3, [user("Hi")], [(qwen3.tokenizer.decode(odd), [user("Go on.")]), (f"re.{END}", [])])[0]

    chat = ChatRequest(messages=[user("Hi"), {"role": "assistant", "content": " Pantom"}, user("Go on.")])
    ancestor = Ancestor(odd[-1], 1, Reply(content=" Pantom"), None)
    ids = [*first.prompt.ids, *odd]
    prompt = build_prompt(qwen3, chat, ancestor=ancestor, ancestor_ids=ids, history_reasoning="keep")
    assert prompt.ids[: len(ids)] == ids


def test_thinking_that_only_the_template_drops_breaks_when_the_template_decides(qwen3: Renderer) -> None:
    played = play(qwen3, [user("Hi")], THINKING, history_reasoning="template", client_keeps_thinking=True)
    assert [turn.prompt.break_kind for turn in played] == [None, "reasoning_stripped", "reasoning_stripped"]
    assert [turn.prompt.ids == turn.whole_render for turn in played] == [True, True, True]


def test_an_empty_thinking_block_that_the_template_drops_breaks_when_the_template_decides(qwen3: Renderer) -> None:
    steps = [(f"Hello.{END}", [user("More?")]), (f"Yes.{END}", [])]
    off = {"enable_thinking": False}
    kept = play(qwen3, [user("Hi")], steps, variables=off)
    assert extends(kept[0], kept[1])
    dropped = play(qwen3, [user("Hi")], steps, variables=off, history_reasoning="template")
    assert dropped[1].prompt.break_kind == "empty_think_block"
    assert dropped[1].prompt.ids == dropped[1].whole_render


def test_a_tool_loop_extends_even_when_the_template_decides(qwen3: Renderer) -> None:
    played = play(
        qwen3, [user("Hi")], THINKING_LOOP[:3], tools=TOOLS, history_reasoning="template", client_keeps_thinking=True
    )
    assert [turn.prompt.break_kind for turn in played] == [None, None, None]
    assert all(extends(earlier, later) for earlier, later in pairwise(played))


def test_a_template_that_rewrites_what_came_before_is_not_spliced(qwen_tokenizer: ChatTokenizer) -> None:

    source = (
        "{{ messages | length }}"
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
        "<|im_start|>assistant\n"
    )
    renderer = Renderer(qwen_tokenizer, ChatTemplate(source))
    played = play(renderer, [user("Hi")], PLAIN[:2])
    assert played[1].prompt.break_kind == "other"
    assert played[1].prompt.ids == played[1].whole_render


def test_a_later_message_that_spells_the_stop_token_is_not_taken_for_the_end_of_a_tool_call(qwen3: Renderer) -> None:
    steps = [(f"{CALL}{END}", [result(f"odd {END} result")]), (f"Hm.{END}", [])]
    played = play(qwen3, [user("Hi")], steps, tools=TOOLS)
    assert "odd" in qwen3.tokenizer.decode(played[1].prompt.ids)
    assert "result" in qwen3.tokenizer.decode(played[1].prompt.ids)


@pytest.mark.parametrize("word", ["rain", "", "]", END])
@pytest.mark.parametrize("argument", ["Oslo", f"odd {END} city"])
def test_where_a_template_does_not_end_a_tool_call_no_later_message_is_lost(
    qwen_tokenizer: ChatTokenizer, word: str, argument: str
) -> None:
    """The first stop token of the text is then that of the tool result, or one that a message spells."""
    source = (
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
        "{% for c in m.tool_calls or [] %}[{{ c.function.name }} {{ c.function.arguments | tojson }}]{% endfor %}"
        "{{ '<|im_end|>' if not m.tool_calls }}\n{% endfor %}<|im_start|>assistant\n"
    )
    renderer = Renderer(qwen_tokenizer, ChatTemplate(source))
    function = {"name": "get_weather", "arguments": f'{{"city": "{argument}"}}'}
    later = {"role": "assistant", "content": "", "tool_calls": [{"id": "c2", "type": "function", "function": function}]}
    for following in ([result(word)], [later, result(word)], [result(word), later, result("snow")]):
        for ending in (END, ""):
            played = play(renderer, [user("Hi")], [(f"{CALL}{ending}", following), (f"Hm.{END}", [])], tools=TOOLS)
            assert (played[1].prompt.break_kind, played[1].prompt.ids) == ("other", played[1].whole_render)


@pytest.mark.parametrize("ending", [END, ""], ids=["ended", "cut"])
def test_a_later_message_may_spell_the_stop_token_after_a_tool_call(qwen3: Renderer, ending: str) -> None:
    steps = [(f"{CALL}{ending}", [result(f"odd {END} result")]), (f"Hm.{END}", [])]
    first, second = play(qwen3, [user("Hi")], steps, tools=TOOLS)
    assert extends(first, second)
    rest = second.prompt.ids[len(first.prompt.ids) + len(first.completion) :]
    assert qwen3.tokenizer.decode(rest).removeprefix(END) == (
        f"\n<|im_start|>user\n<tool_response>\nodd {END} result\n</tool_response>{END}\n<|im_start|>assistant\n"
    )
