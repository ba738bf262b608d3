"""How chat templates mark messages, thinking and tool calls in a prompt's text.

The spellings are those of published templates: ChatML, Llama, Gemma, Mistral, DeepSeek, GLM, Kimi, MiniMax, Seed,
Cohere, Granite, LFM, LongCat, Harmony (gpt-oss) and those that follow them.
"""

import re
from typing import NamedTuple

_BAR = "[|｜]"
_NAMES = r"user|human|assistant|model|chatbot|ai|system|developer|tool|observation|ipython|function|environment"
_HEADER = re.compile(
    r"<\|im_start\|>\s*(?P<a>\w+)"
    r"|<\|(?:start_header_id|header_start|start_of_role|role_start|startofturn|begin_of_role)\|>\s*(?P<b>\w+)"
    r"|<start_of_turn>\s*(?P<c>\w+)|<\|turn>\s*(?P<d>\w+)|<\|start\|>\s*(?P<e>\w+)|<seed:bos>\s*(?P<f>\w+)"
    r"|\]~b\]\s*(?P<g>\w+)|<role>\s*(?P<h>\w+)"
    rf"|<{_BAR}(?:im_|hy_|begin_)?(?P<i>{_NAMES})(?:_TOKEN|_start)?{_BAR}>|<longcat_(?P<j>{_NAMES})>"
    r"|\[(?P<k>/?INST|SYSTEM_PROMPT)\]",
    re.IGNORECASE,
)
_ROLES = {
    "human": "user",
    "inst": "user",
    "/inst": "assistant",
    "model": "assistant",
    "chatbot": "assistant",
    "ai": "assistant",
    "developer": "system",
    "system_prompt": "system",
}
END_OF_MESSAGE = re.compile(
    r"<\|(?:im_end|endoftext|end_of_text|eot_id|eom_id|eot|eos|end|return|call|endofturn|role_end|END_OF_TURN_TOKEN)\|>"
    r"|<end_of_turn>|<turn\|>|<eos>|</s>|<seed:eos>|\[e~\[|<｜end▁of▁sentence｜>|<｜hy_eos｜>|\[EOS\]"
)
_PREFIXED = r"(?:seed:|mm:|minimax:|longcat_|zyphra_|steptml:)?"
_THINK = r"(?:think(?:ing)?|thought|reasoning)"
THINKING: tuple[tuple[re.Pattern[str], re.Pattern[str]], ...] = tuple(
    (re.compile(opening), re.compile(closing))
    for opening, closing in (
        (rf"<{_PREFIXED}{_THINK}>", rf"</{_PREFIXED}{_THINK}>"),
        (r"\[THINK\]", r"\[/THINK\]"),
        ("◁think▷", "◁/think▷"),
        (r"<\|START_THINKING\|>", r"<\|END_THINKING\|>"),
        (r"<\|think:start\|>", r"<\|think:end\|>"),
        (r"<\|start_think\|>", r"<\|end_think\|>"),
        (r"<\|thought_start\|>", r"<\|thought_end\|>"),
        (r"<\|begin_of_thought\|>", r"<\|end_of_thought\|>"),
        (r"<\|reasoning\|>", r"<\|end_reasoning\|>"),
        (r"<\|think\|>", r"(?=<\|content\|>)|<\|/think\|>"),
        (r"<\|inner_prefix\|>", r"<\|inner_suffix\|>"),
        (r"Here are my reasoning steps:", r"\[BEGIN FINAL RESPONSE\]"),
        (r"<\|channel>thought", r"<channel\|>"),
        (r"<\|channel\|>analysis(?! to=)[^<]*<\|message\|>", r"<\|end\|>"),
    )
)
"""Opening and closing of thinking."""
CALLS: tuple[tuple[re.Pattern[str], re.Pattern[str]], ...] = tuple(
    (re.compile(opening), re.compile(closing))
    for opening, closing in (
        (rf"<{_PREFIXED}(?:tool_?calls?|TOOLCALL)>", rf"</{_PREFIXED}(?:tool_?calls?|TOOLCALL)>"),
        (r"<(?:function_calls?|functioncall)>", r"</(?:function_calls?|functioncall)>"),
        (r"<function=", r"</function>"),
        (r"<start_function_call>", r"<end_function_call>"),
        (
            rf"<{_BAR}tool[▁_]calls?[▁_](?:section_)?(?:begin|start){_BAR}>",
            rf"<{_BAR}tool[▁_]calls?[▁_](?:section_)?end{_BAR}>",
        ),
        (r"<\|tool_call:(?:begin|start)\|>", r"<\|tool_call:end\|>"),
        (r"<\|start_tool_call\|>", r"<\|end_tool_call\|>"),
        (r"<\|START_ACTION\|>", r"<\|END_ACTION\|>"),
        (r"<\|tool_call>", r"<tool_call\|>"),
        (r"<｜DSML｜\w+>", r"</｜DSML｜(?:function_calls|tool_calls)>"),
        (r"\[TOOL_CALLS\]|<\|python_tag\|>|<\|(?:tool_calls?|function_call)\|>", r"(?!)"),
        (r"<\|channel\|>commentary to=| to=functions\.", r"<\|call\|>"),
    )
)
"""Opening and closing of tool calls; one that nothing closes goes on to the end of its message."""
_NAME_OF_CALL = re.compile(
    r'"name"\s*:\s*"(?P<a>[^"]+)"|<function=(?P<b>[^>\s]+)>|functions\.(?P<c>[\w.-]+)|<invoke name="(?P<d>[^"]+)"'
    r"|<tool_call>\s*(?P<e>[\w.-]+)"
)


class Span(NamedTuple):
    """A stretch of text between marks."""

    start: int
    end: int
    """Exclusive; where the closing mark ends, or the message."""
    content: str
    """What is between the marks."""

    def covers(self, text: str, place: int) -> bool:
        """Whether a place is in it, or only white space is between."""
        if self.start <= place < self.end:
            return True
        return place < self.start and not text[place : self.start].strip()


def role_at(text: str) -> str | None:
    """The role that a message header at the start of a text names: system, user, assistant, or another word."""
    match = _HEADER.match(text)
    if match is None:
        return None
    name = next(word for word in match.groups() if word is not None).lower()
    return _ROLES.get(name, name)


def ends_message(text: str) -> bool:
    """Whether a text is, and is nothing but, the mark that ends a message."""
    return END_OF_MESSAGE.fullmatch(text) is not None


def span_covering(text: str, place: int, marks: tuple[tuple[re.Pattern[str], re.Pattern[str]], ...]) -> Span | None:
    """The outermost stretch between marks that a place is in."""
    covering = [
        span for opening, closing in marks for span in _spans(text, opening, closing) if span.covers(text, place)
    ]
    return min(covering, key=lambda span: span.start, default=None)


def unopened_thinking(text: str, place: int) -> Span | None:
    """From a place to the closing of thinking that nothing opened: some templates and models leave the opening out."""
    for opening, closing in THINKING[:2]:
        closed, cut = closing.search(text, place), END_OF_MESSAGE.search(text, place)
        if closed is None or (cut is not None and cut.start() < closed.start()):
            continue
        if opening.search(text, 0, closed.start()) is None:
            return Span(place, closed.end(), text[place : closed.start()])
    return None


def _spans(text: str, opening: re.Pattern[str], closing: re.Pattern[str]) -> list[Span]:
    spans: list[Span] = []
    place = 0
    while (begun := opening.search(text, place)) is not None:
        closed = closing.search(text, begun.end())
        cut = END_OF_MESSAGE.search(text, begun.end())
        if closed is not None and (cut is None or closed.start() <= cut.start()):
            end, inner = closed.end(), closed.start()
        else:
            end = inner = cut.start() if cut is not None else len(text)
        spans.append(Span(begun.start(), end, text[begun.end() : inner]))
        place = max(end, begun.end())
    return spans


def name_of_call(text: str) -> str | None:
    """The name of the first function that a tool call names."""
    match = _NAME_OF_CALL.search(text)
    return None if match is None else next(word for word in match.groups() if word is not None)
