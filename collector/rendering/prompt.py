"""The prompt of one call: spliced onto an earlier turn where that is exact, rendered whole otherwise."""

from collections.abc import Sequence
from typing import NamedTuple

from collector.conversation import HistoryReasoning
from collector.records import ChatRequest
from collector.rendering.proven_family import ProvenFamily
from collector.rendering.renderer import Renderer
from collector.rendering.splice import Ancestor, Break, extend

_END_TOKENS = 16
"""As many as show whether thinking has been opened."""


class Prompt(NamedTuple):
    """Exact ids for the engine, and how they came about."""

    ids: list[int]
    thinking_open: bool
    """Whether the prompt ends inside a thinking block that the reply continues."""
    break_kind: str | None = None
    """Why the matched earlier turn was not extended; None when it was, or when there was none."""


def build_prompt(
    renderer: Renderer,
    chat: ChatRequest,
    *,
    ancestor: Ancestor | None,
    ancestor_ids: Sequence[int],
    history_reasoning: HistoryReasoning,
    family: ProvenFamily | None = None,
) -> Prompt:
    """Appends to the ancestor's ids if it can be proved exact; RenderError when the messages cannot be rendered.

    What follows them comes from the family, where that was proved for the model, and else from the splice. A whole
    prompt is always the template's: where a family writes the same nothing is gained by it, and otherwise it is wrong.
    """
    kind = None
    if ancestor is not None and family is not None and history_reasoning == "keep":
        following = family.following(chat, ancestor, ancestor_ids)
        if following is not None:
            end = renderer.tokenizer.decode(following[-_END_TOKENS:])
            return Prompt([*ancestor_ids, *following], _opens_thinking(end))
    if ancestor is not None:
        step = extend(renderer, chat, ancestor, history_reasoning)
        if not isinstance(step, Break):
            return Prompt([*ancestor_ids, *step.new_ids], _opens_thinking(step.text_end))
        kind = step.kind
    text = renderer.text(chat.messages, tools=chat.tools, variables=chat.chat_template_kwargs)
    return Prompt(renderer.tokenizer.encode(text), _opens_thinking(text[-64:]), kind)


def _opens_thinking(end: str) -> bool:
    return end.rstrip().endswith("<think>")
