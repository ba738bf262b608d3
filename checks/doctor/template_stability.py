"""Whether the rendering of each turn of a dialogue extends that of the turn before and its reply."""

import secrets
from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from checks.doctor.dialogues import DIALOGUES, Dialogue, Message
from checks.finding import Status
from checks.measures.reencoding import first_difference
from collector.conversation import Reply, reasoning_of, tool_calls_of, visible_text
from collector.records import ChatRequest
from collector.rendering.renderer import Renderer
from collector.rendering.splice import Ancestor, Break, extend
from collector.rendering.template import RenderError

# A rendering is asked for on one day, so that only what is said can differ.
_CLOCK = datetime(2026, 1, 2, 3, 4, 5)
_NEXT_DAY = datetime(2026, 1, 3, 3, 4, 5)
_SHOWN_TOKENS = 12
_THINKING_ASKED: tuple[Mapping[str, object], ...] = ({}, {"thinking": True}, {"enable_thinking": True})
"""Variables by which published templates are asked for thinking; most need none."""


class TemplateBreak(msgspec.Struct, frozen=True, kw_only=True):
    """A turn whose rendering does not extend what came before."""

    turn: int
    """1-based."""
    token_index: int
    """0-based: length of the common prefix with the turn before and its reply."""
    kind: str
    """In the words of prefix-break."""
    before: str
    """The earlier turn's text around that place."""
    after: str
    """This turn's text around that place."""


class DialogueVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """What a template does with one dialogue."""

    dialogue: str
    about: str
    status: Status
    """ok; warn where it breaks or is refused; no_data where the template does not know what the dialogue is about."""
    prefix_stable: bool | None
    """None where that was not to be seen."""
    turns: int
    said: str
    breaks: tuple[TemplateBreak, ...] = ()


class TemplateStability:
    """Tries one template with every dialogue."""

    def __init__(self, renderer: Renderer) -> None:
        self._renderer = renderer
        self.thinking = next((asked for asked in _THINKING_ASKED if self._thinks(asked)), None)
        """The variables by which the template is asked for thinking; None where it knows of none."""
        self._unspliced = False
        """Whether a turn of the dialogue at hand extends the one before as text, and cannot be spliced all the same."""

    def verdicts(self) -> list[DialogueVerdict]:
        """One per dialogue, and one for the date."""
        return [*(self._verdict(dialogue) for dialogue in DIALOGUES), self._date()]

    def _verdict(self, dialogue: Dialogue) -> DialogueVerdict:
        turns = dialogue.turns()

        def verdict(status: Status, stable: bool | None, said: str, *breaks: TemplateBreak) -> DialogueVerdict:
            return DialogueVerdict(
                dialogue=dialogue.name,
                about=dialogue.about,
                status=status,
                prefix_stable=stable,
                turns=len(turns),
                said=said,
                breaks=breaks,
            )

        if dialogue.thinks and self.thinking is None:
            return verdict("no_data", None, "the template writes no thinking")
        try:
            texts = [self._text(dialogue, count) for count in turns]
        except RenderError as error:
            return verdict("warn", None, f"the template refuses it: {error}")
        self._unspliced = False
        found = [
            self._break(dialogue, number, turns[number - 2], texts[number - 2], texts[number - 1])
            for number in range(2, len(turns) + 1)
        ]
        breaks = [each for each in found if each is not None]
        asked = "".join(f" (asked with {name} = true)" for name in self._asked(dialogue))
        if not breaks and self._unspliced:
            said = "each turn's text extends the one before, but ends with no token that stops"
            return verdict("warn", True, said + asked)
        if not breaks:
            return verdict("ok", True, "each turn extends the one before" + asked)
        first = breaks[0]
        said = f"turn {first.turn} breaks at token {first.token_index}: {first.kind}{asked}"
        return verdict("warn", False, said, *breaks)

    def _break(self, dialogue: Dialogue, turn: int, count: int, earlier: str, later: str) -> TemplateBreak | None:
        said = dialogue.messages[count]
        following = next(place for place in dialogue.turns() if place > count)
        reply = Reply(content=visible_text(said), reasoning=reasoning_of(said))
        request = ChatRequest(
            messages=list(dialogue.messages[:following]),
            tools=list(dialogue.tools) if dialogue.tools else None,
            chat_template_kwargs=self._variables(dialogue),
        )
        # The template ends a reply with one of these; which one is another point's matter.
        last_id = next(iter(sorted(self._renderer.tokenizer.stop_ids)), -1)
        step = extend(self._renderer, request, Ancestor(last_id, count, reply, self._variables(dialogue)), "template")
        said_ways = [earlier + way for way in self._reply_texts(dialogue, count, earlier)]
        sampled = next((way for way in said_ways if later.startswith(way)), said_ways[0])
        if isinstance(step, Break):
            if step.kind == "other" and later.startswith(sampled):
                self._unspliced = True
                return None
            return self._located(turn, step.kind, sampled, later)
        # A splice puts a mark where the words were: what a template does to the words themselves shows in the text.
        spelled = reasoning_of(said) is None and not tool_calls_of(said)
        return self._located(turn, "other", sampled, later) if spelled and not later.startswith(sampled) else None

    def _reply_texts(self, dialogue: Dialogue, count: int, earlier: str) -> list[str]:
        """The reply as it may have been sampled: as it is said, or as the template writes it as the last message."""
        said = dialogue.messages[count]
        try:
            closed = self._closed(dialogue.messages[: count + 1], dialogue)
        except RenderError:
            closed = ""
        written = closed.removeprefix(earlier).rstrip() if closed.startswith(earlier) else ""
        plain, thought = visible_text(said), reasoning_of(said)
        if thought is not None and thought not in written and earlier.rstrip().endswith("<think>"):
            return [f"{thought}</think>{written.removeprefix('</think>') or plain}"]
        if thought is not None or tool_calls_of(said):
            return [written]
        # Some write a space first, which the model then samples too; what is not the words themselves is no reply.
        return [plain, written] if plain in written and "<think>" not in written else [plain]

    def _located(self, turn: int, kind: str, sampled: str, later: str) -> TemplateBreak:
        tokenizer = self._renderer.tokenizer
        before, after = tokenizer.encode(sampled), tokenizer.encode(later)
        place = first_difference(before, after)
        index = len(before) if place is None else place
        around = slice(max(0, index - _SHOWN_TOKENS // 2), index + _SHOWN_TOKENS)
        return TemplateBreak(
            turn=turn,
            token_index=index,
            kind=kind,
            before=tokenizer.decode(before[around]),
            after=tokenizer.decode(after[around]),
        )

    def _date(self) -> DialogueVerdict:
        """Whether a session that lasts past midnight is rendered anew from its first line on."""

        def verdict(status: Status, stable: bool | None, said: str, *breaks: TemplateBreak) -> DialogueVerdict:
            return DialogueVerdict(
                dialogue="system date",
                about="the same request a day later",
                status=status,
                prefix_stable=stable,
                turns=1,
                said=said,
                breaks=breaks,
            )

        try:
            today, tomorrow = self._two_days()
        except RenderError as error:
            return verdict("warn", None, f"the template refuses it: {error}")
        if today == tomorrow:
            return verdict("ok", True, "it writes no date")
        found = self._located(1, "system_prompt_changed", today, tomorrow)
        said = f"it writes the date at token {found.token_index}: sessions, and the prefix cache, break at midnight"
        return verdict("warn", False, said, found)

    def _two_days(self) -> tuple[str, str]:
        system = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi."}]

        def at(clock: datetime, messages: Sequence[Message]) -> str:
            return self._renderer.text(messages, tools=None, variables={"strftime_now": clock.strftime})

        try:
            return at(_CLOCK, system), at(_NEXT_DAY, system)
        except RenderError:
            # Some templates know no system message.
            return at(_CLOCK, system[1:]), at(_NEXT_DAY, system[1:])

    def _text(self, dialogue: Dialogue, count: int) -> str:
        return self._renderer.text(dialogue.messages[:count], tools=dialogue.tools, variables=self._variables(dialogue))

    def _closed(self, messages: Sequence[Message], dialogue: Dialogue) -> str:
        """A conversation that ends with its last message, with no invitation to reply."""
        return self._renderer.text(
            messages, tools=dialogue.tools, variables=self._variables(dialogue), add_generation_prompt=False
        )

    def _thinks(self, asked: Mapping[str, object]) -> bool:
        """Whether the template, so asked, writes a reply's thinking or begins it for the model."""
        word = f"THOUGHT{secrets.token_hex(4)}"
        question: Message = {"role": "user", "content": "Hi."}
        reply = {"role": "assistant", "content": "Hello.", "reasoning_content": word, "thinking": word}
        try:
            if word in self._renderer.template.render([question, reply], variables=asked):
                return True
            begun = self._renderer.text([question], tools=None, variables=asked)
        except RenderError:
            return False
        return begun.rstrip().endswith("<think>")

    def _variables(self, dialogue: Dialogue) -> dict[str, object]:
        return {"strftime_now": _CLOCK.strftime, **self._asked(dialogue), **(dialogue.variables or {})}

    def _asked(self, dialogue: Dialogue) -> Mapping[str, object]:
        """What has to be said to the template for a dialogue with thinking in it."""
        return (self.thinking or {}) if dialogue.thinks and dialogue.variables is None else {}
