"""One logged prompt against what the chat template makes of its request."""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

import msgspec

from checks.measures.known_turns import KnownTurn, Past
from checks.measures.reencoding import first_difference
from collector.conversation import Reply, content_text, reasoning_of, visible_text
from collector.records import ChatRequest
from collector.rendering.renderer import Renderer
from collector.rendering.splice import Ancestor, Break, extend
from collector.rendering.template import RenderError

Outcome = Literal["same", "differs", "dated", "unknown", "not_rendered"]
"""`dated`: the same but for a date the template writes. `unknown`: it may differ only in what was sampled earlier."""

_CLOCKS = (datetime(2001, 2, 3, 4, 5, 6), datetime(2018, 11, 27, 19, 46, 59))
"""Two times that no date format writes alike."""


class Comparison(NamedTuple):
    """What came of comparing."""

    outcome: Outcome
    place: int = 0
    """First differing place in the logged prompt."""
    expected: tuple[int, ...] = ()
    """What the template has from there on."""


class TemplateComparison:
    """Compares prompts with the renderings of one template. Requests hold at least one message.

    A captured session keeps what was sampled, where a rendering of its messages would drop thinking or spell a tool
    call anew. So a prompt that begins with an earlier turn's prompt and completion is compared in what follows these,
    by the rule the collector adds it by; any other prompt is compared whole.
    """

    def __init__(self, renderer: Renderer) -> None:
        self._renderer = renderer
        self._encode = renderer.tokenizer.encode

    def compare(self, prompt: list[int], chat: ChatRequest, past: Past, at: datetime | None) -> Comparison:
        """`at` is when the turn began, for templates that write the date."""
        parent = past.parent
        added = None if parent is None else self._added(chat, parent, at)
        if parent is not None and added is not None:
            place = first_difference(prompt[parent.length :], added)
            if place is None:
                return Comparison("same")
            found = Comparison("differs", parent.length + place, tuple(added[place:]))
            return Comparison("same") if self._is_a_rendering(prompt, chat, past, at) else found
        return self._compare_whole(prompt, chat, past, at)

    def _added(self, chat: ChatRequest, parent: KnownTurn, at: datetime | None) -> list[int] | None:
        """What the template puts after the parent's reply; None where that cannot be told."""
        count = parent.message_count
        if count is None or count >= len(chat.messages) or chat.messages[count].get("role") != "assistant":
            return None
        said = chat.messages[count]
        reply = Reply(content=visible_text(said), reasoning=reasoning_of(said))
        clock = at or _CLOCKS[0]
        timed = msgspec.structs.replace(chat, chat_template_kwargs=_with_clock(chat.chat_template_kwargs, clock))
        ancestor = Ancestor(parent.last_id, count, reply, _with_clock(parent.variables, clock))
        try:
            step = extend(self._renderer, timed, ancestor, "keep")
        except RenderError:
            return None
        return None if isinstance(step, Break) else step.new_ids

    def _compare_whole(self, prompt: list[int], chat: ChatRequest, past: Past, at: datetime | None) -> Comparison:
        best: Comparison | None = None
        for rendered in self._renderings(chat, past, at):
            place = first_difference(prompt, rendered)
            if place is None:
                return Comparison("same")
            if best is None or place > best.place:
                best = Comparison("differs", place, tuple(rendered[place:]))
        if best is None:
            return Comparison("not_rendered")
        if past.parent is not None:
            return best if best.place >= past.parent.length else Comparison("unknown")
        if not past.whole and best.place >= self._fresh_tokens(chat, at):
            return Comparison("unknown")
        return Comparison("dated") if self._only_the_date_differs(prompt, chat) else best

    def _is_a_rendering(self, prompt: list[int], chat: ChatRequest, past: Past, at: datetime | None) -> bool:
        return any(prompt == rendered for rendered in self._renderings(chat, past, at))

    def _renderings(self, chat: ChatRequest, past: Past, at: datetime | None) -> Iterator[list[int]]:
        """The request as the collector renders it, with thinking the client left out, and as the template alone does.

        The log's time is UTC and a template writes the date of where the engine ran: the days beside count too.
        """
        seen: set[str] = set()
        clock = at or _CLOCKS[0]
        for shift in (0, 1, -1) if at is not None else (0,):
            variables = _with_clock(chat.chat_template_kwargs, clock + timedelta(days=shift))
            for text in self._texts(chat, past.thoughts, variables):
                if text not in seen:
                    seen.add(text)
                    yield self._encode(text)

    def _texts(self, chat: ChatRequest, thoughts: Mapping[int, str], variables: Mapping[str, object]) -> Iterator[str]:
        text, tools = self._renderer.text, chat.tools
        ways: list[Callable[[], str]] = [lambda: text(chat.messages, tools=tools, variables=variables)]
        if thoughts:
            messages = [_with_thinking(message, thoughts.get(place)) for place, message in enumerate(chat.messages)]
            ways.append(lambda: text(messages, tools=tools, variables=variables))
        ways.append(lambda: self._renderer.template.render(chat.messages, tools=tools, variables=variables))
        if chat.messages[-1].get("role") == "assistant":
            ways.append(lambda: self._continued(chat, variables))
        for way in ways:
            try:
                yield way()
            except RenderError:
                continue

    def _continued(self, chat: ChatRequest, variables: Mapping[str, object]) -> str:
        """A prompt whose last message the model writes on: it ends where that message ends."""
        text = self._renderer.text(chat.messages, tools=chat.tools, variables=variables, add_generation_prompt=False)
        said = content_text(chat.messages[-1])
        place = text.rfind(said) if said.strip() else -1
        return text[: place + len(said)] if place >= 0 else text

    def _fresh_tokens(self, chat: ChatRequest, at: datetime | None) -> int:
        """How much of a rendering comes before anything sampled."""
        first = next((n for n, each in enumerate(chat.messages) if each.get("role") == "assistant"), None)
        if first is None:
            return 1 << 31
        begun = msgspec.structs.replace(chat, messages=chat.messages[:first])
        lengths = [len(ids) for ids in self._renderings(begun, Past(None, True, {}), at)]
        return min(lengths, default=0)

    def _only_the_date_differs(self, prompt: list[int], chat: ChatRequest) -> bool:
        """Whether the prompt has all that does not depend on the clock, at its start and at its end."""
        try:
            one, other = (
                self._encode(
                    self._renderer.text(
                        chat.messages, tools=chat.tools, variables=_with_clock(chat.chat_template_kwargs, clock)
                    )
                )
                for clock in _CLOCKS
            )
        except RenderError:
            return False
        head = first_difference(one, other)
        if head is None:
            return False
        tail = first_difference(one[::-1], other[::-1]) or 0
        fits = len(prompt) >= head + tail and prompt[:head] == one[:head]
        return fits and (not tail or prompt[-tail:] == one[-tail:])


def _with_clock(variables: Mapping[str, object] | None, clock: datetime) -> dict[str, object]:
    """The template's variables with a clock that stands still, in place of the one that tells today's date."""
    return {"strftime_now": clock.strftime, **(variables or {})}


def _with_thinking(message: dict[str, object], thinking: str | None) -> dict[str, object]:
    if thinking is None or message.get("role") != "assistant" or reasoning_of(message) is not None:
        return message
    return {**message, "reasoning_content": thinking}
