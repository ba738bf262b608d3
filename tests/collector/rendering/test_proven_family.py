"""Families of the `renderers` package: used where they go on exactly as the model's own template does, else not."""

import json
import random
import sys
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers.utils.chat_template_utils import render_jinja_template

from collector.conversation import Reply
from collector.errors import UserError
from collector.parsing.reply import ReplyParser
from collector.records import ChatRequest
from collector.rendering.family import Family
from collector.rendering.proven_family import NAMES, ProvenFamily, choose
from collector.rendering.renderer import Renderer
from collector.rendering.splice import Ancestor
from tests.collector.published import template_source
from tests.collector.rendering.dialogue import CALL, TOOLS, Played, extends, play, result, user
from tests.collector.rendering.families import KNOWN, READING, Known, named
from tests.test_architecture import loaded_by

END = "<|im_end|>"
_ready = cache(Known.renderer)


class Counted(ProvenFamily):
    """Remembers whether it went on, each time it was asked."""

    def __init__(self, renderer: Renderer, name: str) -> None:
        super().__init__(renderer, name)
        self.went_on: list[bool] = []

    def following(self, chat: ChatRequest, ancestor: Ancestor, ids: Sequence[int]) -> list[int] | None:
        found = super().following(chat, ancestor, ids)
        self.went_on.append(found is not None)
        return found


@cache
def family_of(known: Known) -> Counted:
    return Counted(_ready(known), known.family)


def written_calls(known: Known, arguments: Sequence[dict[str, Any]]) -> str:
    """Calls as the template itself writes them after a text."""
    renderer = _ready(known)
    calls = [
        {"id": f"functions.get_weather:{n}", "type": "function", "function": {"name": "get_weather", "arguments": one}}
        for n, one in enumerate(arguments)
    ]
    reply = {"role": "assistant", "content": "MARK", "tool_calls": calls}
    text = renderer.text([user("Hi"), reply, result("rain")], tools=TOOLS)
    after = text.rpartition("MARK")[2]
    closing = family_of(known).syntax(TOOLS).closing
    return after[: after.rindex(closing) + len(closing)]


@pytest.mark.parametrize("known", KNOWN, ids=named)
def test_what_follows_a_reply_is_what_the_template_writes_there(known: Known) -> None:
    proof = family_of(known).proof
    assert proof.next_turns is None
    assert {role for _, role in proof.endings} == {"user", "tool"}


@pytest.mark.parametrize("known", READING, ids=named)
def test_calls_that_the_template_writes_are_read_back(known: Known) -> None:
    assert family_of(known).proof.calls is None


@pytest.mark.parametrize("known", KNOWN, ids=named)
@pytest.mark.parametrize("thinks", [False, True])
def test_a_dialogue_with_the_family_is_the_one_that_the_splice_makes_of_the_template(
    known: Known, thinks: bool
) -> None:
    renderer, family, stop = _ready(known), family_of(known), known.stops[0]
    asked = written_calls(known, [{"city": "Oslo"}]) if known in READING else f"\n{CALL}"

    def said(text: str) -> str:
        opened = renderer.text([user("Hi")], tools=TOOLS).rstrip().endswith("<think>")
        thinking = ("" if opened else "<think>\n") + "Hm.\n</think>\n\n"
        return (thinking if thinks or opened else "") + text + stop

    steps = [
        (said(f"I look.{asked}"), [result(" rain\n")]),
        (said("It rains – ünï. "), [user("  And\nnow?")]),
        (said("No."), [user("So."), user("Well?")]),
        (said("Yes."), []),
    ]
    family.went_on.clear()
    plain = play(renderer, [user("Hi")], steps, tools=TOOLS, stop=stop, family=family, follows=False)
    used = play(renderer, [user("Hi")], steps, tools=TOOLS, stop=stop, family=family)
    assert all(extends(earlier, later) for earlier, later in pairwise(used))
    if [turn.prompt.break_kind for turn in plain] == [None] * len(steps):
        assert [turn.prompt for turn in used] == [turn.prompt for turn in plain]
    assert [turn.prompt.break_kind for turn in used] == [None] * len(steps)
    # GLM-4.5's bridge leaves a question after a reply without thinking to the splice.
    wary = known.family == "glm-4.5" and not thinks
    assert family.went_on == [True, not wary, not wary]


WORDS = st.text(alphabet="ab <>/{}\"\\'\n🙂ü日", max_size=12)
ARGUMENTS = st.dictionaries(st.sampled_from(["city", "n", "x y"]), WORDS | st.integers() | st.booleans() | st.none())


def json_call(arguments: dict[str, Any]) -> str:
    body = json.dumps({"name": "get_weather", "arguments": arguments}, ensure_ascii=False)
    return f"<tool_call>\n{body}\n</tool_call>"


@st.composite
def exchanges(draw: st.DrawFn, kind: str) -> tuple[str, list[dict[str, Any]]]:
    """What is sampled in one turn, and what is said next. A Thinking reply always thinks, as its prompt has begun."""
    thinking = draw(WORDS) if kind == "thinking" or draw(st.booleans()) else None
    said = "" if thinking is None else f"<think>\n{thinking}\n</think>\n\n"
    said += draw(WORDS)
    calls = draw(st.lists(ARGUMENTS, max_size=3))
    if calls:
        said += "\n" + "\n".join(json_call(arguments) for arguments in calls)
        following = [result(draw(WORDS)) for _ in calls]
        following += [user(draw(WORDS))] if draw(st.booleans()) else []
    else:
        following = [user(text) for text in draw(st.lists(WORDS, min_size=1, max_size=2))]
    ending = draw(st.sampled_from([END, END, END, "<|endoftext|>", ""]))
    return said + ending, following


def oddly(renderer: Renderer, seed: int) -> Callable[[str], list[int]]:
    """Ids that decode to a text and are not those that the encoder gives: cut anywhere, and encoded in pieces."""
    chance = random.Random(seed)

    def spell(text: str) -> list[int]:
        ids: list[int] = []
        place = 0
        while place < len(text):
            special = next((word for word in (END, "<|endoftext|>") if text.startswith(word, place)), None)
            size = len(special) if special is not None else chance.randint(1, 3)
            piece = text[place : place + size]
            cut = min((n for word in (END, "<|endoftext|>") if (n := piece.find(word[0])) > 0), default=size)
            ids += renderer.tokenizer.encode(piece if special is not None else piece[:cut])
            place += size if special is not None else cut
        return ids

    return spell


@pytest.fixture(scope="session")
def real_families(renderer_for: Callable[[str], Renderer]) -> dict[str, tuple[Renderer, Counted]]:
    """Families with Qwen's own vocabulary."""
    pairs = {"qwen3": "Qwen-Qwen3-0.6B.jinja", "qwen3 instruct": "Qwen-Qwen3-4B-Instruct-2507.jinja"}
    made = {name: renderer_for(template) for name, template in pairs.items()}
    return {name: (renderer, Counted(renderer, "qwen3")) for name, renderer in made.items()}


@pytest.mark.parametrize("name", ["qwen3", "qwen3 instruct"])
@settings(max_examples=60, deadline=None)
@given(drawn=st.data(), seed=st.integers(0, 2**32))
def test_no_id_of_an_earlier_turn_is_ever_encoded_again(
    real_families: dict[str, tuple[Renderer, Counted]], name: str, drawn: st.DataObject, seed: int
) -> None:
    """Whatever is said, thought and called, in whatever ids it was sampled, the family goes on as the splice does."""
    renderer, family = real_families[name]
    steps = [*drawn.draw(st.lists(exchanges("any"), min_size=1, max_size=4)), (f"Bye.{END}", [])]

    def dialogue(follows: bool) -> list[Played]:
        spell = oddly(renderer, seed)
        return play(renderer, [user("Hi")], steps, tools=TOOLS, family=family, follows=follows, spell=spell)

    used, plain = dialogue(True), dialogue(False)
    for earlier, later in pairwise(used):
        assert later.prompt.break_kind is not None or extends(earlier, later)
    assert [turn.prompt for turn in used] == [turn.prompt for turn in plain]


@pytest.mark.parametrize("known", [KNOWN[1], *READING[2:9]], ids=named)
def test_prompts_are_those_of_transformers_for_the_whole_conversation(known: Known) -> None:
    """Replies are sampled just as the template writes them, so that the oracle, which knows no ids, has them alike."""
    renderer, family, stop = _ready(known), family_of(known), known.stops[0]
    call = written_calls(known, [{"city": "Oslo"}]) if known in READING else f"\n{CALL}"
    if known.family.startswith(("glm", "kimi-k2.5")):
        pytest.skip("the template writes a reply in the history otherwise than the prompt had it begun")
    opened = renderer.text([user("Hi")], tools=TOOLS).rstrip().endswith("<think>")
    thought = "Hm.\n</think>\n\n" if opened else ""
    steps = [(f"{thought}I look.{call}{stop}", [result("rain")]), (f"{thought}Rain.{stop}", [])]
    used = play(renderer, [user("Hi")], steps, tools=TOOLS, stop=stop, family=family, client_keeps_thinking=True)
    for turn in used:
        messages = [with_arguments(message) for message in turn.chat.messages]
        (text,), _ = render_jinja_template(
            conversations=[messages],
            tools=TOOLS,
            chat_template=template_source(known.template),
            add_generation_prompt=True,
            **renderer.tokenizer.names,
        )
        assert renderer.tokenizer.decode(turn.prompt.ids) == text


def with_arguments(message: dict[str, Any]) -> dict[str, Any]:
    calls = [
        {**call, "function": {**call["function"], "arguments": json.loads(call["function"]["arguments"])}}
        for call in message.get("tool_calls") or ()
    ]
    return {**message, **({"tool_calls": calls} if calls else {})}


@pytest.mark.parametrize("known", READING, ids=named)
@pytest.mark.parametrize("arguments", [[{"city": "Tromsø"}], [{"city": "a\nb"}, {"city": 'x "y" <z> & {0}'}]], ids=len)
def test_calls_are_read_as_the_package_reads_them_however_the_text_is_cut(
    known: Known, arguments: list[dict[str, Any]]
) -> None:
    family, renderer = family_of(known), _ready(known)
    text = f"I look.{written_calls(known, arguments)}"
    ids = renderer.tokenizer.encode(text)
    package = Family(known.family, renderer.tokenizer).calls(ids, TOOLS)
    assert package is not None
    assert [(call.name, call.arguments) for call in package] == [("get_weather", one) for one in arguments]
    whole = read(family, text, [len(text)])
    assert whole.content == "I look."
    assert [(call.name, json.loads(call.arguments)) for call in whole.tool_calls] == [
        ("get_weather", one) for one in arguments
    ]
    for place in range(1, len(text)):
        assert read(family, text, [place, len(text)]) == whole


def read(family: ProvenFamily, text: str, ends: Sequence[int]) -> Reply:
    parser = ReplyParser(seed="s", thinking_open=False, parse_tools=True, syntax=family.syntax(TOOLS))
    for start, end in pairwise([0, *ends]):
        parser.add(text[start:end])
    parser.finish()
    return parser.reply()


@pytest.mark.parametrize("known", READING, ids=named)
@pytest.mark.parametrize("body", ["", "{broken", "\n{}\n"])
def test_a_block_without_calls_is_text(known: Known, body: str) -> None:
    syntax = family_of(known).syntax(TOOLS)
    text = f"{syntax.opening}{body}{syntax.closing}"
    assert (read(family_of(known), text, [len(text)]).content, syntax.read(body)) == (text, None)


def test_ids_that_a_model_gives_its_calls_go_to_the_client() -> None:
    known = next(known for known in KNOWN if known.family == "kimi-k2")
    text = written_calls(known, [{"city": "Oslo"}])
    assert [call.id for call in read(family_of(known), text, [len(text)]).tool_calls] == ["functions.get_weather:0"]


def folder_of(tmp_path: Path, model_type: str) -> Path:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": model_type}))
    return tmp_path


def test_the_family_is_chosen_by_what_is_proved_of_the_model(tmp_path: Path, qwen3: Renderer) -> None:
    choice = choose(qwen3, folder_of(tmp_path, "qwen3"), "auto")
    assert choice.family is not None
    assert (choice.family.name, choice.reason) == ("qwen3", None)
    alike = dict.fromkeys(("first_turns", "next_turns", "calls"), "as the template")
    assert choice.describe() == {"family": "qwen3", **alike}


@pytest.mark.parametrize(
    ("template", "name"),
    [("PrimeIntellect-Qwen3-0.6B.jinja", "prime-qwen3"), ("Qwen-Qwen3-0.6B.jinja", "qwen3")],
)
def test_the_template_decides_between_families_of_one_type(
    tmp_path: Path, renderer_for: Callable[[str], Renderer], template: str, name: str
) -> None:
    choice = choose(renderer_for(template), folder_of(tmp_path, "qwen3"), "auto")
    assert choice.family is not None
    assert choice.family.name == name


def test_a_template_that_differs_is_used_with_the_reason(
    tmp_path: Path, renderer_for: Callable[[str], Renderer]
) -> None:
    """A Thinking model's prompts end with an opened block, which the family does not write."""
    renderer = renderer_for("Qwen-Qwen3-4B-Thinking-2507.jinja")
    choice = choose(renderer, folder_of(tmp_path, "qwen3"), "auto")
    assert choice.family is None
    assert "'|>assistant\\n<think>\\n'" in str(choice.describe()["reason"])
    with pytest.raises(UserError, match=r"renderer is 'qwen3', expected the family of the served model: it writes"):
        choose(renderer, folder_of(tmp_path, "qwen3"), "qwen3")


@pytest.mark.parametrize("kind", ["llama", "glm4_moe", "kimi_k2", "deepseek_v3", "minimax_m2"])
def test_a_model_without_a_familys_tokens_does_not_even_load_the_package(
    tmp_path: Path, qwen3: Renderer, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """SmolLM2 is of the type `llama` and has ChatML's tokens."""
    monkeypatch.setitem(sys.modules, "renderers", None)
    choice = choose(qwen3, folder_of(tmp_path, kind), "auto")
    assert choice.family is None
    assert "does not take this tokenizer: it has no token" in str(choice.reason)


def test_a_model_of_no_known_family_has_its_template(tmp_path: Path, qwen3: Renderer) -> None:
    choice = choose(qwen3, folder_of(tmp_path, "smollm3"), "auto")
    assert choice == (None, "no family is known for models of type 'smollm3'")


def test_the_template_alone_is_used_where_that_is_configured(tmp_path: Path, qwen3: Renderer) -> None:
    assert choose(qwen3, folder_of(tmp_path, "qwen3"), "template").family is None


@pytest.mark.parametrize("name", ["qwen4", "", "default"])
def test_a_renderer_that_is_none_is_refused_and_the_known_ones_are_named(qwen3: Renderer, name: str) -> None:
    with pytest.raises(UserError, match=f"expected auto, template or one of .*{NAMES[0]}"):
        choose(qwen3, Path(), name)


def test_a_family_whose_tokens_the_model_lacks_is_refused(qwen3: Renderer) -> None:
    with pytest.raises(UserError, match=r"which cannot serve this model: kimi-k2 does not take this tokenizer"):
        choose(qwen3, Path(), "kimi-k2")


def test_without_the_package_the_template_is_used_and_a_named_family_refused(
    tmp_path: Path, qwen3: Renderer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "renderers", None)
    choice = choose(qwen3, folder_of(tmp_path, "qwen3"), "auto")
    assert choice.family is None
    assert str(choice.reason).startswith("the renderers package cannot be used")
    with pytest.raises(UserError, match="the renderers package cannot be used"):
        choose(qwen3, tmp_path, "qwen3")


def test_the_package_is_loaded_for_models_of_known_families_only() -> None:
    loading = "import collector.server, collector.rendering.proven_family"
    assert not {"renderers", "openai", "pydantic"} & loaded_by(loading)


def test_variables_that_the_family_does_not_know_are_proved_like_any(qwen3: Renderer) -> None:
    family = Counted(qwen3, "qwen3")
    for variables in ({"enable_thinking": False, "thinking": False}, {"reasoning_effort": "low"}):
        steps = [(f"Hello.{END}", [user("More?")]), (f"Yes.{END}", [])]
        family.went_on.clear()
        used = play(qwen3, [user("Hi")], steps, variables=variables, family=family)
        plain = play(qwen3, [user("Hi")], steps, variables=variables, family=family, follows=False)
        assert [turn.prompt for turn in used] == [turn.prompt for turn in plain]
        assert family.went_on == [True]


def test_a_client_cannot_have_a_family_proved_without_end(qwen3: Renderer) -> None:
    family = Counted(qwen3, "qwen3")
    steps = [(f"Hello.{END}", [user("More?")]), (f"Yes.{END}", [])]
    for number in range(12):
        used = play(qwen3, [user("Hi")], steps, variables={"x": number}, family=family)
        assert extends(*used)
    # The kind without variables is the first of eight.
    assert family.went_on == [True] * 7 + [False] * 5


def test_where_the_template_decides_about_thinking_the_family_does_not_go_on(qwen3: Renderer) -> None:
    family = Counted(qwen3, "qwen3")
    steps = [(f"<think>\nHm.\n</think>\n\nHello.{END}", [user("More?")]), (f"Yes.{END}", [])]
    played = play(qwen3, [user("Hi")], steps, family=family, history_reasoning="template", client_keeps_thinking=True)
    assert (played[1].prompt.break_kind, family.went_on) == ("reasoning_stripped", [])
