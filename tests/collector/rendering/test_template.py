"""Chat templates: rendered as transformers renders them, and probed for what they can express."""

from pathlib import Path

import pytest
from transformers.utils.chat_template_utils import render_jinja_template

from collector.errors import UserError
from collector.rendering.template import Abilities, ChatTemplate, RenderError
from tests.collector.published import template_source

NAMES = {"bos_token": "<s>", "eos_token": "</s>"}
PLAIN = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Hi <é> & 'x'"},
    {"role": "assistant", "content": "Hello\n"},
    {"role": "user", "content": "Weather?"},
]
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "Weather of a <city>",
            "parameters": {"type": "object", "properties": {"city": {"type": "string", "description": "Its name"}}},
        },
    }
]
CALL = {
    "id": "abcdefghi",
    "type": "function",
    "function": {"name": "get_weather", "arguments": {"city": "Oslo", "days": 2}},
}
LOOP = [
    *PLAIN,
    {"role": "assistant", "content": "", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "abcdefghi", "name": "get_weather", "content": "rain"},
]
TEMPLATES = [
    "Qwen-Qwen3-0.6B.jinja",
    "Qwen-Qwen3-4B-Instruct-2507.jinja",
    "Qwen-Qwen3-Coder-30B-A3B-Instruct.jinja",
    "Qwen-Qwen3.5-0.8B.jinja",
    "HuggingFaceTB-SmolLM2-135M-Instruct.jinja",
    "HuggingFaceTB-SmolLM3-3B.jinja",
    "NousResearch-Hermes-4-14B.jinja",
    "NousResearch-Meta-Llama-3.1-8B-Instruct.jinja",
]


@pytest.mark.parametrize("name", TEMPLATES)
@pytest.mark.parametrize(("messages", "tools"), [(PLAIN, None), (LOOP, TOOLS), (PLAIN[1:2], None)])
def test_the_text_is_the_one_transformers_renders(name: str, messages: list, tools: list | None) -> None:
    source = template_source(name)
    expected = render_jinja_template(
        conversations=[messages], tools=tools, chat_template=source, add_generation_prompt=True, **NAMES
    )[0][0]
    assert ChatTemplate(source, names=NAMES).render(messages, tools=tools) == expected


def test_what_a_template_cannot_express_is_found_out() -> None:
    chatml = ChatTemplate(template_source("HuggingFaceTB-SmolLM2-135M-Instruct.jinja"))
    assert chatml.abilities.ignored() == ("tools", "tool_calls")
    qwen = ChatTemplate(template_source("Qwen-Qwen3-0.6B.jinja"))
    assert qwen.abilities == Abilities(tools=True, tool_calls=True, tool_results=True, content_parts=False)


def test_client_variables_cannot_replace_the_conversation() -> None:
    template = ChatTemplate("{{ messages[0].content }}{{ extra }}")
    assert template.render([{"role": "user", "content": "real"}], variables={"messages": [], "extra": "!"}) == "real!"


def test_a_template_that_raises_says_why() -> None:
    template = ChatTemplate("{{ raise_exception('roles must alternate') }}")
    with pytest.raises(RenderError, match="roles must alternate"):
        template.render([{"role": "user", "content": "x"}])


def test_a_folder_without_a_template_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"expected chat_template\.jinja"):
        ChatTemplate.from_folder(tmp_path, names={})


def test_the_default_of_several_templates_is_taken(tmp_path: Path) -> None:
    (tmp_path / "tokenizer_config.json").write_text(
        '{"chat_template": [{"name": "rag", "template": "no"}, {"name": "default", "template": "yes"}]}'
    )
    assert ChatTemplate.from_folder(tmp_path, names={}).render([]) == "yes"


def test_named_templates_without_a_default_are_refused_by_their_names(tmp_path: Path) -> None:
    (tmp_path / "tokenizer_config.json").write_text(
        '{"chat_template": [{"name": "rag", "template": "a"}, {"name": "tool_use", "template": "b"}]}'
    )
    with pytest.raises(UserError, match=r"named rag, tool_use, expected one named default; .* chat_template\.jinja"):
        ChatTemplate.from_folder(tmp_path, names={})
