"""What a model folder's tokenizer, template and generation config have to agree on."""

import secrets
from collections.abc import Iterable, Mapping
from typing import Any, cast

from checks.doctor.point import Point
from checks.measures.reencoding import Reencoder
from collector.rendering.renderer import Renderer
from collector.rendering.template import RenderError
from collector.rendering.tokenizer import ChatTokenizer

SAMPLE_TEXTS = {
    "plain words": "The quick brown fox jumps over the lazy dog.",
    "spaces and tabs": "  two  spaces\tand a tab  ",
    "line ends": "one\n\ntwo\r\nthree\n",
    "code": "def f(x):\n    return {'a': x ** 2}\n",
    "JSON": '{"name": "get_weather", "arguments": {"city": "Oslo", "days": [1, 2]}}',
    "digits": "3.14159 and 1,000,000 and 2026-11-29",
    "accents composed": "Zo\u00eb ate a cr\u00eape",
    "accents apart": "Zoe\u0308 ate a cre\u0302pe",
    "Chinese": "\u4eca\u5929\u5929\u6c14\u5f88\u597d\u3002",
    "Arabic": "\u0645\u0631\u062d\u0628\u0627 \u0628\u0643",
    "emoji joined": "\U0001f469\u200d\U0001f680 \U0001f9d1\U0001f3fd",
    "odd characters": "\u00a0\u2028\ufeff\ufffd\u00ad",
}
"""Text that tokenizers are known to trip over."""


def tokenizer_points(tokenizer: ChatTokenizer) -> list[Point]:
    """Whether sample texts come back, as ids and as text."""
    ids = {name: tokenizer.encode(text) for name, text in SAMPLE_TEXTS.items()}
    found = Reencoder(tokenizer).differences(list(ids.values()), [None] * len(ids))
    unstable = [name for name, difference in zip(ids, found, strict=True) if difference is not None]
    lossy = [name for name, text in SAMPLE_TEXTS.items() if tokenizer.decode(ids[name]) != text]
    return [
        Point(
            name="ids survive decode and encode",
            status="fail" if unstable else "ok",
            said=f"other ids come back for: {', '.join(unstable)}" if unstable else f"{len(ids)} sample texts do",
            advice="keep sampled ids, never their text" if unstable else None,
        ),
        Point(
            name="text survives encode and decode",
            status="info" if lossy else "ok",
            said=f"other text comes back for: {', '.join(lossy)}" if lossy else f"{len(ids)} sample texts do",
            advice="a normaliser changes the text; compare ids, not text" if lossy else None,
        ),
    ]


def stop_points(renderer: Renderer, generation_config: Mapping[str, Any] | None) -> list[Point]:
    """Whether what ends a turn in the template ends a reply in the engine. None: there is no generation config."""
    tokenizer, name = renderer.tokenizer, "the template's end of turn stops the engine"
    try:
        end = _end_of_turn(renderer)
    except RenderError as error:
        return [Point(name=name, status="no_data", said=f"the template refuses three plain messages: {error}")]
    stops = ", ".join(sorted(repr(tokenizer.text_of(each)) for each in tokenizer.stop_ids)) or "none"
    if end is None:
        said = f"the template ends a reply with no special token; the engine stops at {stops}"
        return [Point(name=name, status="warn", said=said, advice="replies end by length, and turns cannot be spliced")]
    word = tokenizer.text_of(end)
    if end not in tokenizer.stop_ids:
        said = f"the template ends a reply with {word!r}, the engine stops at {stops}"
        return [
            Point(name=name, status="fail", said=said, advice=f"add {end} to eos_token_id of generation_config.json")
        ]
    points = [Point(name=name, status="ok", said=f"both are {word!r}", detail={"end_id": end})]
    stated = _stated_stops(generation_config)
    if stated is not None and end not in stated:
        points.append(
            Point(
                name="generation_config.json names it too",
                status="warn",
                said=f"its eos_token_id is {sorted(stated)}, without {end} ({word!r}), the tokenizer's",
                advice="engines that read only the generation config do not stop: add it",
            )
        )
    return points


def bos_point(renderer: Renderer) -> Point | None:
    """Whether rendering and encoding both add BOS; None where the tokenizer has none."""
    tokenizer = renderer.tokenizer
    bos = tokenizer.names.get("bos_token")
    bos_id = None if bos is None else tokenizer.backend.token_to_id(bos)
    if bos_id is None:
        return None
    try:
        text = renderer.text([{"role": "user", "content": "Hi."}], tools=None)
    except RenderError:
        return None
    twice = tokenizer.backend.encode(text, add_special_tokens=True).ids[:2] == [bos_id, bos_id]
    return Point(
        name="BOS is added once",
        status="info" if twice else "ok",
        said=f"the template and the tokenizer both add {bos!r}" if twice else "by the template or by the tokenizer",
        advice="encode rendered text with add_special_tokens=False" if twice else None,
    )


def ability_points(renderer: Renderer) -> list[Point]:
    """What the template leaves out, which the collector then spells out in words of its own."""
    ignored = renderer.template.abilities.ignored()
    if not ignored:
        return [Point(name="the template writes tools, calls and results", status="ok", said="it does")]
    said = f"it ignores {', '.join(ignored)}; the collector writes them into the text"
    return [Point(name="the template writes tools, calls and results", status="info", said=said)]


def argument_point(renderer: Renderer) -> Point | None:
    """Whether a tool call's arguments stay in the order they were sampled in; None where no call is written."""
    first, second = (f"{letter}{secrets.token_hex(6)}" for letter in "za")
    function = {"name": "probe", "arguments": {first: "1", second: "2"}}
    messages = [
        {"role": "user", "content": "Hi."},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "call00000", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": "call00000", "name": "probe", "content": "done"},
    ]
    try:
        text = renderer.text(messages, tools=None)
    except RenderError:
        return None
    if first not in text or second not in text:
        return None
    kept = text.index(first) < text.index(second)
    return Point(
        name="arguments of calls keep their order",
        status="ok" if kept else "warn",
        said="they do" if kept else "the template sorts them: a rendered call is not the sampled one",
        advice=None if kept else "splice sampled ids; re-rendering breaks with tool_call_reserialized",
    )


def _end_of_turn(renderer: Renderer) -> int | None:
    """The added token that follows a reply."""
    word = f"REPLY{secrets.token_hex(6)}"
    messages = [
        {"role": "user", "content": "Hi."},
        {"role": "assistant", "content": word},
        {"role": "user", "content": "More?"},
    ]
    _, _, rest = renderer.text(messages, tools=None).partition(word)
    for token_id in renderer.tokenizer.encode(rest):
        if token_id in renderer.tokenizer.added:
            return token_id
        if renderer.tokenizer.decode([token_id]).strip():
            return None
    return None


def _stated_stops(generation_config: Mapping[str, Any] | None) -> set[int] | None:
    eos = None if generation_config is None else generation_config.get("eos_token_id")
    if eos is None:
        return None
    listed = cast(Iterable[Any], eos if isinstance(eos, list) else [eos])
    return {each for each in listed if isinstance(each, int)}
