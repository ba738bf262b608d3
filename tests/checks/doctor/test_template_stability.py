"""Which templates keep the turns of a dialogue a prefix of each other, where they do not, and why."""

from collections.abc import Callable

import pytest

from checks.doctor.dialogues import DIALOGUES
from checks.doctor.template_stability import DialogueVerdict, TemplateStability
from collector.rendering.renderer import Renderer
from collector.rendering.template import ChatTemplate
from tests.collector.published import small_renderer, template_source

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ CONTENT }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant{{ '\\n' }}{% endif %}"
)


def verdicts(renderer: Renderer) -> dict[str, DialogueVerdict]:
    return {each.dialogue: each for each in TemplateStability(renderer).verdicts()}


def with_template(source: str) -> Renderer:
    small = small_renderer()
    return Renderer(small.tokenizer, ChatTemplate(source, names=small.tokenizer.names))


def published(name: str) -> Renderer:
    return with_template(template_source(name))


def broken(found: dict[str, DialogueVerdict]) -> dict[str, list[tuple[int, str]]]:
    return {
        name: [(each.turn, each.kind) for each in verdict.breaks] for name, verdict in found.items() if verdict.breaks
    }


def test_qwen3_drops_thinking_when_a_user_speaks_and_keeps_it_in_a_tool_loop() -> None:
    found = verdicts(published("Qwen-Qwen3-0.6B.jinja"))
    assert broken(found) == {
        "thinking": [(2, "reasoning_stripped"), (3, "reasoning_stripped")],
        "thinking then plain": [(2, "reasoning_stripped")],
        "thinking off": [(2, "empty_think_block")],
    }
    assert {name for name, each in found.items() if each.prefix_stable} == {
        "plain",
        "system",
        "tools",
        "tool loop",
        "thinking tool loop",
        "empty reply",
        "white space",
        "system date",
    }


def test_where_qwen3_breaks_is_told_to_the_token(qwen3: Renderer) -> None:
    found = verdicts(qwen3)["thinking"].breaks[0]
    encode = qwen3.tokenizer.encode
    # Turn 1 asks; what was sampled begins with <think>, and turn 2 has the visible words in its place.
    asked = encode("<|im_start|>user\nHi.<|im_end|>\n<|im_start|>assistant\n")
    assert found.token_index == len(asked)
    assert "<think>\nThey greet." in found.before
    assert found.after.startswith(".<|im_end|>\n<|im_start|>assistant\nHello.<|im_end|>\n<|im_start|>user\nMore?")
    off = verdicts(qwen3)["thinking off"].breaks[0]
    assert (off.token_index, off.kind) == (len(asked), "empty_think_block")


def test_a_template_that_has_to_be_asked_for_thinking_is_asked() -> None:
    found = verdicts(published("deepseek-ai-DeepSeek-V3.1.jinja"))
    thinking = found["thinking"]
    assert thinking.said.endswith("reasoning_stripped (asked with thinking = true)")
    first = thinking.breaks[0]
    # The generation prompt opens the thinking, so what was sampled goes on with the thought itself.
    asked = small_renderer().tokenizer.encode("<｜User｜>Hi.<｜Assistant｜><think>")
    assert (first.turn, first.token_index) == (2, len(asked))
    assert "They greet." in first.before
    assert "They greet." not in first.after
    assert found["plain"].breaks == ()
    kept = verdicts(published("deepseek-ai-DeepSeek-V4.jinja"))["thinking"]
    assert (kept.prefix_stable, kept.breaks) == (True, ())
    assert kept.said.endswith("(asked with thinking = true)")


def test_a_template_that_begins_the_thinking_and_drops_it_is_no_template_without_thinking() -> None:
    found = verdicts(published("deepseek-ai-DeepSeek-R1-Distill-Qwen-32B@56a144.jinja"))
    assert [(each.turn, each.kind) for each in found["thinking"].breaks] == [
        (2, "reasoning_stripped"),
        (3, "reasoning_stripped"),
    ]
    assert "asked" not in found["thinking"].said


def test_an_instruct_template_without_thinking_is_stable_in_all_that_it_knows() -> None:
    for name in ("Qwen-Qwen3-4B-Instruct-2507.jinja", "HuggingFaceTB-SmolLM2-135M-Instruct.jinja"):
        found = verdicts(published(name))
        assert broken(found) == {}
        thinking = [each for each in DIALOGUES if each.thinks]
        assert len(thinking) == 4
        assert len(found) == len(DIALOGUES) + 1


def test_a_template_that_trims_replies_breaks_where_the_white_space_was() -> None:
    found = verdicts(with_template(CHATML.replace("CONTENT", "m.content | trim")))
    assert broken(found) == {"white space": [(2, "other")]}
    assert found["white space"].breaks[0].token_index == 1 + len("user\nHi.") + 1 + len("\n") + 1 + len("assistant\n")
    assert broken(verdicts(with_template(CHATML.replace("CONTENT", "m.content")))) == {}


def test_a_template_that_leaves_empty_replies_out_breaks() -> None:
    source = CHATML.replace("<|im_start|>", "{% if m.content %}<|im_start|>", 1).replace(
        "<|im_end|>\n{% endfor %}", "<|im_end|>\n{% endif %}{% endfor %}"
    )
    found = verdicts(with_template(source.replace("CONTENT", "m.content")))
    assert broken(found)["empty reply"][0] == (2, "other")


def test_a_template_that_writes_the_date_breaks_at_midnight() -> None:
    source = "<|im_start|>system\nIt is {{ strftime_now('%Y-%m-%d') }}.<|im_end|>\n" + CHATML
    found = verdicts(with_template(source.replace("CONTENT", "m.content")))
    assert broken(found) == {"system date": [(1, "system_prompt_changed")]}
    # 2026-01-02 and 2026-01-03 differ in their last digit: 1 token for <|im_start|>, then bytes.
    assert found["system date"].breaks[0].token_index == 1 + len("system\nIt is 2026-01-0")


def test_what_a_template_refuses_is_said_in_its_words() -> None:
    source = "{% if messages[0].role == 'system' %}{{ raise_exception('no system here') }}{% endif %}" + CHATML
    found = verdicts(with_template(source.replace("CONTENT", "m.content")))
    assert (found["system"].status, found["system"].prefix_stable) == ("warn", None)
    assert "no system here" in found["system"].said
    assert found["system date"].status == "ok"
    assert found["plain"].breaks == ()


@pytest.mark.parametrize("name", ["Qwen-Qwen3-4B-Thinking-2507.jinja", "Qwen-Qwen3.5-0.8B.jinja"])
def test_a_template_that_opens_thinking_itself_keeps_no_reply_without_it(
    renderer_for: Callable[[str], Renderer], name: str
) -> None:
    found = verdicts(renderer_for(name))
    assert found["plain"].breaks[0].kind == "empty_think_block"
    assert found["thinking"].breaks[0].kind == "reasoning_stripped"


def test_text_that_extends_but_ends_with_no_stop_token_is_told_apart_from_a_break() -> None:
    found = verdicts(with_template(CHATML.replace("<|im_end|>", "[end]").replace("CONTENT", "m.content")))
    assert broken(found) == {}
    assert (found["plain"].status, found["plain"].prefix_stable) == ("warn", True)
    assert "no token that stops" in found["plain"].said


def test_a_space_that_the_template_writes_before_a_reply_is_the_models_to_sample() -> None:
    source = (
        "{% for m in messages %}{{ m.role }}:{{ ' ' + m.content }}<|im_end|>{% endfor %}"
        "{% if add_generation_prompt %}assistant:{% endif %}"
    )
    assert broken(verdicts(with_template(source))) == {}
