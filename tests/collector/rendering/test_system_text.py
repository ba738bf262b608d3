"""System messages for templates that take one only: all of them reach the model, and prompts still extend."""

from itertools import pairwise
from typing import Any

import pytest

from collector.fakes import ScriptedEngine, deltas
from collector.rendering.renderer import Renderer
from collector.rendering.system_text import one_system_message
from collector.rendering.template import ChatTemplate
from collector.rendering.tokenizer import ChatTokenizer
from tests.collector.loopback import post, serve
from tests.collector.published import small_backend, template_source

FIRST: list[dict[str, Any]] = [
    {"role": "system", "content": "Help."},
    {"role": "developer", "content": "Be brief."},
    {"role": "user", "content": "Hi"},
    {"role": "system", "content": "Be slow."},
]


def renderer(name: str) -> Renderer:
    tokenizer = ChatTokenizer(small_backend(), names={"eos_token": "<|im_end|>", "bos_token": "<s>"})
    return Renderer(tokenizer, ChatTemplate(template_source(name), names=tokenizer.names))


def test_the_first_ones_are_one_and_later_ones_are_said_by_the_user() -> None:
    system, user = {"role": "system", "content": "A"}, {"role": "user", "content": "U"}
    late = {"role": "user", "content": "<system-reminder>\nA\n</system-reminder>"}
    assert one_system_message([system, system, user, system]) == [{**system, "content": "A\n\nA"}, user, late]
    assert one_system_message([user, system]) == [user, late]
    assert one_system_message([]) == []


@pytest.mark.parametrize(
    ("name", "takes"),
    [
        ("Qwen-Qwen3-0.6B.jinja", True),
        ("unsloth-gpt-oss-20b.jinja", False),
        ("MiniMax-M2.jinja", False),
        ("HuggingFaceTB-SmolLM3-3B.jinja", False),
        ("Qwen3.5-4B.jinja", False),
    ],
)
def test_every_system_message_reaches_the_model(name: str, takes: bool) -> None:
    """Of these, gpt-oss, MiniMax-M2 and SmolLM3 would drop later ones without a word, and Qwen3.5 refuses them."""
    made = renderer(name)
    assert made.template.abilities.late_system is takes
    assert ("later system messages" in made.template.abilities.ignored()) is not takes
    text = made.text(FIRST, tools=None)
    places = [text.index(words) for words in ("Help.", "Be brief.", "Hi", "Be slow.")]
    assert places == sorted(places)


async def test_a_conversation_with_later_system_messages_extends_token_by_token() -> None:
    made = renderer("Qwen3.5-4B.jinja")
    ids = made.tokenizer.encode("So.</think>\n\nYes.<|im_end|>")
    async with serve(made, ScriptedEngine(lambda _: deltas(ids))) as served:
        messages = list(FIRST)
        for words in ("Go on.", "Thanks."):
            await post(served, "/v1/chat/completions", {"model": "model", "messages": messages})
            said = served.journal.turns[-1].response
            messages += [said, {"role": "system", "content": "Later still."}, {"role": "user", "content": words}]
        await post(served, "/v1/chat/completions", {"model": "model", "messages": messages})
        turns = served.journal.turns
    assert [turn.link for turn in turns] == ["root", "extends", "extends"]
    for earlier, later in pairwise(turns):
        before = earlier.prompt_ids + earlier.completion_ids
        assert later.prompt_ids[: len(before)] == before
    assert made.tokenizer.decode(turns[-1].prompt_ids).count("Later still.") == 2
