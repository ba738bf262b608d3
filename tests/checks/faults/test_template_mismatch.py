"""Template mismatch: prompts that the template would not have made, and none that a faithful capture makes."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pytest

from checks.finding import Finding
from checks.measure import Tools
from checks.suite import run, select_checks
from collector.conversation import HistoryReasoning
from collector.rendering.renderer import Renderer
from collector.rendering.template import ChatTemplate
from collector.rendering.tokenizer import ChatTokenizer
from tests.collector.published import small_backend, small_renderer
from tests.collector.rendering.dialogue import CALL, TOOLS, Played, play, result, user

END = "<|im_end|>"
TEMPLATES = [
    "Qwen-Qwen3-0.6B.jinja",
    "Qwen-Qwen3-4B-Instruct-2507.jinja",
    "Qwen-Qwen3.5-0.8B.jinja",
    "HuggingFaceTB-SmolLM2-135M-Instruct.jinja",
]
THINKING = [
    (f"<think>\nFirst.\n</think>\n\nHello.{END}", [user("More?")]),
    (f"<think>\nSecond.\n</think>\n\n{CALL}{END}", [result("rain")]),
    (f"<think>\nThird.\n</think>\n\nIt rains.{END}", [user("And?")]),
    ("<think>\nFourth", []),
]
NEWLINE = 198
Turn = dict[str, Any]


def check(tools: Tools | Renderer, turns: list[Turn], **thresholds: float) -> Finding:
    given = tools if isinstance(tools, Tools) else Tools(tools.tokenizer, tools)
    frame = pl.DataFrame([{"session_id": "s", **turn} for turn in turns], infer_schema_length=None)
    found = run(
        {"turns": frame},
        checks=select_checks(["template-mismatch"]),
        tools=given,
        thresholds={"template-mismatch": thresholds},
    )
    return found.finding("template-mismatch")


def places(found: Finding) -> list[tuple[int | None, int | None, str | None]]:
    return [(each.turn, each.token_index, each.kind) for each in found.evidence]


def log_of(played: list[Played]) -> list[Turn]:
    return [
        {
            "turn": number,
            "prompt_ids": turn.prompt.ids,
            "completion_ids": turn.completion,
            "request": msgspec.json.encode(turn.chat).decode(),
        }
        for number, turn in enumerate(played, start=1)
    ]


def asked(renderer: Renderer, text: str = "Hi", **more: Any) -> Turn:
    """A healthy first turn."""
    messages = [user(text)]
    ids = renderer.tokenizer.encode(renderer.text(messages, tools=None))
    return {"prompt_ids": ids, "request": json.dumps({"messages": messages}), **more}


def test_the_handed_cases_mismatch_where_they_say_and_nowhere_else(
    renderer_for: Callable[[str], Renderer], shared_folder: Path
) -> None:
    seen = 0
    for path in sorted((shared_folder / "cases").glob("*.json")):
        case = json.loads(path.read_text(encoding="utf-8"))
        turns = case["input"].get("turns")
        if not turns or "messages" not in turns[0]:
            continue
        log = [
            {name: turn[name] for name in ("turn", "prompt_ids", "completion_ids")}
            | {"request": json.dumps({"messages": turn["messages"], "tools": case["input"].get("tools")})}
            for turn in turns
        ]
        found = check(renderer_for(case["template"]["name"]), log)
        expected = case["expected"].get("template_mismatch")
        seen += expected is not None
        assert places(found) == ([(expected["turn"], expected["token_index"], expected["kind"])] if expected else []), (
            case["case"]
        )
        if expected:
            assert found.status == "fail"
            names = ("template_id", "logged_id", "tokens_missing")
            assert found.evidence[0].detail == {name: expected[name] for name in names}
    assert seen


@pytest.mark.parametrize("name", TEMPLATES)
@pytest.mark.parametrize("keeps", [False, True], ids=["client drops thinking", "client keeps thinking"])
@pytest.mark.parametrize("history", ["keep", "template"])
def test_a_captured_session_is_healthy(
    renderer_for: Callable[[str], Renderer], name: str, keeps: bool, history: HistoryReasoning
) -> None:
    renderer = renderer_for(name)
    played = play(renderer, [user("Hi")], THINKING, tools=TOOLS, history_reasoning=history, client_keeps_thinking=keeps)
    found = check(renderer, log_of(played))
    assert (found.status, found.evidence) == ("ok", ())
    assert found.summary == "0 faults in 4 prompts compared with the template"


def test_the_same_session_with_each_separator_left_out_fires_at_it(qwen3: Renderer) -> None:
    turns = log_of(play(qwen3, [user("Hi")], THINKING, tools=TOOLS))
    for number in (1, 2, 3):
        before = turns[number - 1]
        place = len(before["prompt_ids"]) + len(before["completion_ids"])
        ids = turns[number]["prompt_ids"]
        assert ids[place] == NEWLINE
        broken = {**turns[number], "prompt_ids": [*ids[:place], *ids[place + 1 :]]}
        found = check(qwen3, [*turns[:number], broken])
        assert places(found) == [(number + 1, place, "separator_missing")]
        assert found.evidence[0].detail["tokens_missing"] == 1


def test_a_fault_counts_in_the_turn_that_brings_it_in(qwen3: Renderer) -> None:
    def without_newline(ids: list[int], place: int) -> list[int]:
        return [*ids[:place], *ids[place + 1 :]]

    first, second, third, _ = log_of(play(qwen3, [user("Hi")], THINKING, tools=TOOLS))
    place = len(first["prompt_ids"]) + len(first["completion_ids"])
    second["prompt_ids"] = without_newline(second["prompt_ids"], place)
    third["prompt_ids"] = without_newline(third["prompt_ids"], place)
    assert places(check(qwen3, [first, second, third])) == [(2, place, "separator_missing")]


def test_another_user_message_than_the_request_says_is_other(qwen3: Renderer) -> None:
    turn = asked(qwen3)
    place = turn["prompt_ids"].index(qwen3.tokenizer.encode("Hi")[0])
    turn["prompt_ids"][place] = qwen3.tokenizer.encode("Ho")[0]
    assert places(check(qwen3, [turn])) == [(1, place, "other")]


def test_a_missing_generation_prompt_is_other_and_its_missing_newline_a_separator(qwen3: Renderer) -> None:
    turn = asked(qwen3)
    ids = turn["prompt_ids"]
    assert qwen3.tokenizer.decode(ids[-3:]) == "<|im_start|>assistant\n"
    without = check(qwen3, [{**turn, "prompt_ids": ids[:-3]}])
    assert (places(without), without.evidence[0].detail["tokens_missing"]) == ([(1, len(ids) - 3, "other")], 3)
    without = check(qwen3, [{**turn, "prompt_ids": ids[:-1]}])
    assert places(without) == [(1, len(ids) - 1, "separator_missing")]


def test_half_of_a_double_newline_left_out_is_a_separator(qwen3: Renderer) -> None:
    messages = [{"role": "system", "content": "Tools.\n\n# More"}, user("Hi")]
    text = qwen3.text(messages, tools=None)
    encode = qwen3.tokenizer.encode
    logged = encode(text.replace("Tools.\n\n#", "Tools.\n#"))
    found = check(qwen3, [{"prompt_ids": logged, "request": json.dumps({"messages": messages})}])
    place = next(n for n, (one, other) in enumerate(zip(encode(text), logged, strict=False)) if one != other)
    assert places(found) == [(1, place, "separator_missing")]


@pytest.fixture(scope="module")
def with_bos() -> Renderer:
    """A template that writes BOS itself."""
    tokenizer = ChatTokenizer(small_backend(), names={"bos_token": "<|endoftext|>", "eos_token": "<|im_end|>"})
    source = (
        "{{ bos_token }}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
        "<|im_start|>assistant{{ '\\n' }}"
    )
    return Renderer(tokenizer, ChatTemplate(source, names=tokenizer.names))


def test_a_doubled_bos_needs_neither_request_nor_template(with_bos: Renderer) -> None:
    healthy = asked(with_bos)
    bos = healthy["prompt_ids"][0]
    assert with_bos.tokenizer.text_of(bos) == "<|endoftext|>"
    doubled = [bos, *healthy["prompt_ids"]]
    only_ids = Tools(with_bos.tokenizer, None)
    assert places(check(only_ids, [{"prompt_ids": doubled}])) == [(1, 1, "duplicate_bos")]
    assert check(only_ids, [{"prompt_ids": healthy["prompt_ids"]}]).status == "ok"
    # With the request too it is one fault, and what follows is compared as if there were one BOS.
    assert places(check(with_bos, [{**healthy, "prompt_ids": doubled}])) == [(1, 1, "duplicate_bos")]
    both = [*doubled[:-1]]
    assert places(check(with_bos, [{**healthy, "prompt_ids": both}])) == [
        (1, 1, "duplicate_bos"),
        (1, len(both), "separator_missing"),
    ]


def test_a_prompt_that_inherits_a_doubled_bos_does_not_bring_it_in(with_bos: Renderer) -> None:
    first = asked(with_bos)
    first["prompt_ids"] = [first["prompt_ids"][0], *first["prompt_ids"]]
    first["completion_ids"] = with_bos.tokenizer.encode(f"Hello.{END}")
    second = {"prompt_ids": [*first["prompt_ids"], *first["completion_ids"], *with_bos.tokenizer.encode("\n")]}
    assert places(check(with_bos, [first, second])) == [(1, 1, "duplicate_bos")]


def dated() -> Renderer:
    small = small_renderer()
    source = (
        "<|im_start|>system\nToday is {{ strftime_now('%d %b %Y') }}.<|im_end|>\n"
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
        "<|im_start|>assistant{{ '\\n' }}"
    )
    return Renderer(small.tokenizer, ChatTemplate(source, names=small.tokenizer.names))


def test_a_date_that_the_template_writes_is_that_of_the_turn_or_no_fault() -> None:
    renderer = dated()

    def logged(day: str, ending: str = "assistant\n") -> Turn:
        text = f"<|im_start|>system\nToday is {day}.{END}\n<|im_start|>user\nHi{END}\n<|im_start|>{ending}"
        return {"prompt_ids": renderer.tokenizer.encode(text), "request": json.dumps({"messages": [user("Hi")]})}

    at = datetime(2026, 3, 9, 23, 30, tzinfo=UTC)
    for day in ("09 Mar 2026", "10 Mar 2026", "08 Mar 2026"):
        assert check(renderer, [{**logged(day), "started_at": at}]).summary.startswith("0 faults in 1 prompts")
        assert "date" not in check(renderer, [{**logged(day), "started_at": at}]).summary
    found = check(renderer, [logged("17 Jul 2020")])
    assert (found.status, found.evidence) == ("ok", ())
    assert "1 differ only in the date that the template writes" in found.summary
    # What does not depend on the date is still compared.
    assert check(renderer, [logged("17 Jul 2020", "assistant")]).status == "fail"
    broken = check(renderer, [{**logged("09 Mar 2026", "assistant"), "started_at": at}])
    assert [(each.turn, each.kind) for each in broken.evidence] == [(1, "separator_missing")]


def test_a_session_whose_beginning_is_not_in_the_log_is_not_guessed_at(qwen3: Renderer) -> None:
    turns = log_of(play(qwen3, [user("Hi")], THINKING, tools=TOOLS))
    found = check(qwen3, turns[2:])
    assert (found.status, found.evidence) == ("ok", ())
    assert "1 cannot be told apart from what was sampled" in found.summary
    # What comes before anything sampled is known all the same.
    ids = turns[2]["prompt_ids"]
    assert check(qwen3, [{**turns[2], "prompt_ids": [*ids[:1], *ids[2:]]}]).status == "fail"


def test_a_turn_that_sampled_nothing_is_no_parent(qwen3: Renderer) -> None:
    failed = {**asked(qwen3, completion_ids=[]), "turn": 1}
    messages = [user("Hi"), {"role": "assistant", "content": "I could not."}, user("Again.")]
    text = qwen3.text(messages, tools=None)
    again = {"turn": 2, "prompt_ids": qwen3.tokenizer.encode(text), "request": json.dumps({"messages": messages})}
    assert check(qwen3, [failed, {**again, "completion_ids": [1]}]).summary == (
        "0 faults in 2 prompts compared with the template"
    )


def test_tools_that_a_template_ignores_may_be_left_out_or_spelled_out(
    renderer_for: Callable[[str], Renderer],
) -> None:
    renderer = renderer_for("HuggingFaceTB-SmolLM2-135M-Instruct.jinja")
    assert not renderer.template.abilities.tools
    request = json.dumps({"messages": [user("Hi")], "tools": TOOLS})
    spelled = renderer.text([user("Hi")], tools=TOOLS)
    plain = renderer.template.render([user("Hi")])
    assert spelled != plain
    turns = [{"prompt_ids": renderer.tokenizer.encode(text), "request": request} for text in (spelled, plain)]
    assert check(renderer, [{"session_id": str(n), **turn} for n, turn in enumerate(turns)]).status == "ok"


def test_what_is_not_observed_is_no_data_and_what_cannot_be_read_is_counted(qwen3: Renderer) -> None:
    turn = asked(qwen3)
    assert check(qwen3, [{"prompt_ids": turn["prompt_ids"]}]).missing == ("turns.request",)
    no_template = check(Tools(qwen3.tokenizer, None), [turn])
    assert (no_template.status, no_template.summary) == (
        "no_data",
        "the folder of --tokenizer has no chat template",
    )
    odd = [{**turn, "session_id": "a", "request": '{"messages": 3}'}, {**turn, "session_id": "b"}]
    assert "1 have a request that is not of chat form" in check(qwen3, odd).summary


def test_a_missing_bos_is_no_separator(with_bos: Renderer) -> None:
    turn = asked(with_bos)
    found = check(with_bos, [{**turn, "prompt_ids": turn["prompt_ids"][1:]}])
    assert places(found) == [(1, 0, "other")]
    assert found.evidence[0].detail["tokens_missing"] == 1


def test_a_prompt_that_ends_in_a_begun_reply_is_what_the_template_makes_of_it(qwen3: Renderer) -> None:
    messages = [user("Hi"), {"role": "assistant", "content": "Hel"}]
    text = qwen3.text([user("Hi")], tools=None) + "<think>\n\n</think>\n\nHel"
    turn = {"prompt_ids": qwen3.tokenizer.encode(text), "request": json.dumps({"messages": messages})}
    assert check(qwen3, [turn]).status == "ok"


def test_images_are_not_compared(qwen3: Renderer) -> None:
    content = [{"type": "text", "text": "Hi"}, {"type": "image_url", "image_url": {"url": "data:"}}]
    turn = {"prompt_ids": [1, 2], "request": json.dumps({"messages": [{"role": "user", "content": content}]})}
    found = check(qwen3, [turn, {**asked(qwen3), "session_id": "t"}])
    assert (found.status, found.evidence) == ("ok", ())
    assert "1 have a request with more than text in it" in found.summary
