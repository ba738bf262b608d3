"""What kind of difference there is between a template's tokens and the logged ones."""

from collections.abc import Sequence
from typing import Literal

from collector.rendering.tokenizer import ChatTokenizer

MismatchKind = Literal["separator_missing", "other"]

_LONGEST_GAP = 16
_AGREEING_TOKENS = 8


def classify(tokenizer: ChatTokenizer, expected: Sequence[int], logged: Sequence[int]) -> tuple[MismatchKind, int]:
    """Kind, and how many of the template's tokens are missing: 0 where it is not that tokens are left out.

    A separator is what stands between messages: white space and special tokens.
    """
    missing = _gap(expected, logged)
    if missing:
        separates = all(each in tokenizer.added or not tokenizer.decode([each]).strip() for each in expected[:missing])
        return ("separator_missing" if separates else "other"), missing
    return ("separator_missing" if _white_space_is_missing(tokenizer, expected, logged) else "other"), 0


def _gap(expected: Sequence[int], logged: Sequence[int]) -> int:
    """How many tokens have to be put in before the logged ones agree again; 0 where none of a few do."""
    for missing in range(1, min(_LONGEST_GAP, len(expected)) + 1):
        rest = list(expected[missing : missing + _AGREEING_TOKENS])
        if rest == list(logged[: len(rest)]) and (rest or not logged):
            return missing
    return 0


def _white_space_is_missing(tokenizer: ChatTokenizer, expected: Sequence[int], logged: Sequence[int]) -> bool:
    """Whether the texts agree but for white space left out: part of a token, as of two newlines that are one."""
    if any(each < 0 for each in logged[:_LONGEST_GAP]):
        return False
    whole, other = (tokenizer.decode(list(ids[:_LONGEST_GAP])) for ids in (expected, logged))
    same = next((n for n, (a, b) in enumerate(zip(whole, other, strict=False)) if a != b), min(len(whole), len(other)))
    rest = whole[same:]
    kept = rest.lstrip()
    for gap in range(1, len(rest) - len(kept) + 1):
        agreeing = min(len(rest) - gap, len(other) - same, 2 * _AGREEING_TOKENS)
        if agreeing > 0 and rest[gap : gap + agreeing] == other[same : same + agreeing]:
            return True
    return False
