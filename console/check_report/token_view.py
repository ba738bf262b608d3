"""The tokens around a fault, ready to be shown: the ids with their text, and the two ways on of a difference."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from checks.measure import Tools
from checks.token_context import Piece, Shown, TokenContext
from collector.rendering.template import RenderError
from collector.terminal_text import terminal_safe

LONGEST_CHARACTER = 4
"""Most tokens that one character takes: its bytes in UTF-8."""


class Token(NamedTuple):
    """One token of a piece."""

    number: int
    """0-based, in the sequence it is of."""
    id: int
    text: str | None
    """Escaped; None without a tokenizer."""


class Sampled(NamedTuple):
    """A sampled token with its log-probabilities; what was not observed is None."""

    token: Token
    log_mu: float | None
    log_pi: float | None
    at_fault: bool


class Difference(NamedTuple):
    """Two sequences that begin alike and then part."""

    common: list[Token]
    """The last tokens they share."""
    was: list[Token]
    was_about: str
    now: list[Token]
    now_about: str


class TokenView(NamedTuple):
    """Either a difference, or tokens with their numbers, or neither where the log has no tokens there."""

    difference: Difference | None = None
    sampled: Sequence[Sampled] = ()
    length: int = 0
    """Tokens of the whole sequence."""


def token_view(shown: Shown, context: TokenContext, tools: Tools, *, around: int) -> TokenView:
    """At most `around` tokens on either side of the fault."""
    if context.at is None or context.current is None:
        return TokenView()
    other = _other(shown, context, tools)
    if other is not None:
        return TokenView(_difference(context, other, tools, around))
    piece = context.current
    first, last = context.at - around, context.at + around
    rows = [
        Sampled(
            token,
            _at(context.sampled_logprobs, token.number - piece.start),
            _at(context.trainer_logprobs, token.number - piece.start),
            token.number == context.at,
        )
        for token in _tokens(piece, tools)
        if first <= token.number <= last
    ]
    return TokenView(None, rows, piece.length)


class _Other(NamedTuple):
    """What the current tokens are compared with."""

    piece: Piece
    about: str
    now_about: str


def _other(shown: Shown, context: TokenContext, tools: Tools) -> _Other | None:
    evidence = shown.evidence
    if context.previous is not None:
        return _Other(context.previous, f"turn {evidence.previous_turn} as it went on", f"turn {evidence.turn} as sent")
    if context.whole is None:
        return None
    if shown.check == "retokenization-drift":
        return _beside(context, _encoded_again(context, tools), "encoded again", "as sampled")
    return _beside(context, _rendered(context, tools), "by the template", "as logged")


def _beside(context: TokenContext, ids: list[int] | None, about: str, now_about: str) -> _Other | None:
    """The ids from the same place on, if they really part from the turn's there."""
    at, whole = context.at or 0, context.whole or ()
    if ids is None or tuple(ids[:at]) != whole[:at] or ids[at : at + 1] == list(whole[at : at + 1]):
        return None
    return _Other(Piece(tuple(ids[at:]), at, len(ids)), about, now_about)


def _encoded_again(context: TokenContext, tools: Tools) -> list[int] | None:
    if tools.tokenizer is None:
        return None
    ids = context.whole or ()
    if not all(0 <= each < 2**32 for each in ids):
        return None
    return tools.tokenizer.encode(tools.tokenizer.decode(list(ids)))


def _rendered(context: TokenContext, tools: Tools) -> list[int] | None:
    if tools.renderer is None or context.request is None:
        return None
    # Any: the request as the client wrote it.
    request = cast(dict[str, Any], json.loads(context.request))
    try:
        text = tools.renderer.text(
            request.get("messages") or [], tools=request.get("tools"), variables=request.get("chat_template_kwargs")
        )
    except (RenderError, AttributeError, TypeError):  # messages of another shape than a chat's
        return None
    return tools.renderer.tokenizer.encode(text)


def _difference(context: TokenContext, other: _Other, tools: Tools, around: int) -> Difference:
    at = context.at or 0
    assert context.current is not None
    now = _tokens(context.current, tools)
    return Difference(
        common=[token for token in now if at - around <= token.number < at],
        was=[token for token in _tokens(other.piece, tools) if at <= token.number < at + around],
        was_about=_ended(other.about, other.piece.length, at),
        now=[token for token in now if at <= token.number < at + around],
        now_about=_ended(other.now_about, context.current.length, at),
    )


def _ended(about: str, length: int, at: int) -> str:
    return f"{about}, ends here" if length <= at else about


def _tokens(piece: Piece, tools: Tools) -> list[Token]:
    texts = token_texts(piece.ids, tools)
    return [Token(piece.start + at, *each) for at, each in enumerate(zip(piece.ids, texts, strict=True))]


def token_texts(ids: Sequence[int], tools: Tools) -> list[str | None]:
    """How each token reads, control characters spelled out; None without a tokenizer.

    A character of several tokens stands with the last of them, as far as `LONGEST_CHARACTER` tokens reach.
    """
    if tools.tokenizer is None:
        return [None] * len(ids)
    texts: list[str | None] = []
    begun: list[int] = []
    for at, token_id in enumerate(ids):
        if not 0 <= token_id < 2**32:
            begun = []
            texts.append("(no such token)")
            continue
        begun.append(token_id)
        text = tools.tokenizer.decode(begun) if len(begun) > 1 else tools.tokenizer.text_of(token_id)
        if text.endswith("\ufffd") and len(begun) < LONGEST_CHARACTER and at + 1 < len(ids):
            texts.append("")
        else:
            texts.append(terminal_safe(text))
            begun = []
    return texts


def _at(values: tuple[float | None, ...], index: int) -> float | None:
    return values[index] if 0 <= index < len(values) else None
