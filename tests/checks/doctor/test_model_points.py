"""What tokenizer, template and generation config have to agree on."""

from tokenizers import normalizers, processors

from checks.doctor.model_points import (
    SAMPLE_TEXTS,
    ability_points,
    argument_point,
    bos_point,
    stop_points,
    tokenizer_points,
)
from collector.rendering.renderer import Renderer
from collector.rendering.template import ChatTemplate
from collector.rendering.tokenizer import ChatTokenizer
from tests.collector.published import small_backend, small_renderer, template_source

CHATML = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant"


def renderer(source: str = CHATML, **names: str) -> Renderer:
    tokenizer = ChatTokenizer(small_backend(), names={"eos_token": "<|im_end|>", **names})
    return Renderer(tokenizer, ChatTemplate(source, names=tokenizer.names))


def test_bytes_keep_every_sample_text() -> None:
    assert [point.status for point in tokenizer_points(small_renderer().tokenizer)] == ["ok", "ok"]


def test_a_normaliser_changes_text_but_not_its_ids() -> None:
    backend = small_backend()
    backend.normalizer = normalizers.NFC()
    ids, text = tokenizer_points(ChatTokenizer(backend))
    assert ids.status == "ok"
    assert (text.status, text.said) == ("info", "other text comes back for: accents apart")
    assert "accents apart" in SAMPLE_TEXTS


def test_ids_that_do_not_come_back_are_named() -> None:
    backend = small_backend()
    backend.normalizer = normalizers.Replace("fox", "foxfox")
    ids, _ = tokenizer_points(ChatTokenizer(backend))
    assert (ids.status, ids.said) == ("fail", "other ids come back for: plain words")


def test_the_end_of_turn_has_to_be_a_stop_token() -> None:
    good = renderer()
    end = good.tokenizer.backend.token_to_id("<|im_end|>")
    assert [(point.status, point.said) for point in stop_points(good, None)] == [("ok", "both are '<|im_end|>'")]
    assert [point.status for point in stop_points(good, {"eos_token_id": [1, end]})] == ["ok"]
    other = stop_points(good, {"eos_token_id": 7})
    assert [point.status for point in other] == ["ok", "warn"]
    assert f"[7], without {end}" in other[1].said

    wrong = renderer(eos_token="<|endoftext|>")
    (point,) = stop_points(wrong, None)
    assert (point.status, point.said) == (
        "fail",
        "the template ends a reply with '<|im_end|>', the engine stops at '<|endoftext|>'",
    )
    (point,) = stop_points(renderer(CHATML.replace("<|im_end|>", "[end]")), None)
    assert (point.status, point.said) == (
        "warn",
        "the template ends a reply with no special token; the engine stops at '<|im_end|>'",
    )


def test_bos_added_by_template_and_tokenizer_is_noted() -> None:
    assert bos_point(renderer()) is None
    once = renderer("{{ bos_token }}" + CHATML, bos_token="<|endoftext|>")
    point = bos_point(once)
    assert point is not None
    assert point.status == "ok"
    bos = once.tokenizer.backend.token_to_id("<|endoftext|>")
    once.tokenizer.backend.post_processor = processors.TemplateProcessing(
        single="<|endoftext|> $A", special_tokens=[("<|endoftext|>", bos)]
    )
    point = bos_point(once)
    assert point is not None
    assert (point.status, point.said) == ("info", "the template and the tokenizer both add '<|endoftext|>'")


def test_a_template_that_sorts_arguments_is_told_from_one_that_does_not() -> None:
    qwen = renderer(template_source("Qwen-Qwen3-0.6B.jinja"))
    point = argument_point(qwen)
    assert point is not None
    assert point.status == "ok"
    assert ability_points(qwen)[0].status == "ok"
    calls = "{% for c in m.tool_calls or [] %}{{ c.function.arguments | tojson(sort_keys=true) }}{% endfor %}"
    point = argument_point(renderer(CHATML.replace("{{ m.content }}", "{{ m.content }}" + calls)))
    assert point is not None
    assert point.status == "warn"


def test_what_a_template_leaves_out_is_noted() -> None:
    (point,) = ability_points(renderer(template_source("HuggingFaceTB-SmolLM2-135M-Instruct.jinja")))
    assert (point.status, point.said.startswith("it ignores tools")) == ("info", True)
