"""Ids to text and back: the first place where that gives other ids, and why."""

from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Literal, NamedTuple

from collector.parsing.detokenizer import BYTE_ALPHABET
from collector.rendering.tokenizer import ChatTokenizer

DriftKind = Literal["drift", "invalid_utf8"]

_CHUNK_TOKENS = 200_000
_LONGEST_TAIL = 64
_SHORT_TAIL = 16
_SHOWN_TOKENS = 8


class Difference(NamedTuple):
    """Where a completion does not survive being written as text."""

    place: int
    """First differing place in the completion."""
    kind: DriftKind
    at_cut_end: bool
    """Whether the completion merely stops in the middle of its last character."""
    sampled: tuple[int, ...]
    """The ids that changed, a few at most."""
    encoded: tuple[int, ...]
    """The ids that came back in their place, a few at most."""


class _Recoded(NamedTuple):
    context: list[int]
    ids: list[int]
    """What the completion's text is encoded as, after that context."""
    place: int | None
    """First place where they differ from the sampled ones; None where they are the same."""


class Reencoder:
    """Decodes and encodes with one tokenizer."""

    def __init__(self, tokenizer: ChatTokenizer) -> None:
        self._tokenizer = tokenizer
        self._byte_level = "ByteLevel" in repr(tokenizer.backend.decoder)
        self._newline = tokenizer.encode("\n")
        letter, after_newline = tokenizer.encode("a"), tokenizer.encode("\na")
        self._place_matters = after_newline != [*self._newline, *letter]
        """Whether the start of a text is encoded otherwise than its middle."""

    def differences(
        self, completions: Sequence[list[int]], prompts: Sequence[list[int] | None]
    ) -> list[Difference | None]:
        """For each completion the first difference, None where there is none. A prompt may end with any number of ids.

        A completion is encoded alone. SentencePiece writes a text's first word with a space of its own, and so do
        byte-level tokenizers that add a prefix space: with these, one that differs alone is encoded after the prompt's
        end and after a newline too, and the place where it holds longest counts.
        """
        none: list[list[int]] = [[]] * len(completions)
        alone = self._recode(none, completions)
        found: list[Difference | None] = [None] * len(completions)
        odd = [number for number, each in enumerate(alone) if each is None or each.place is not None]
        if not self._place_matters:
            for number in odd:
                way = alone[number]
                assert way is not None, "the empty context always comes back"
                found[number] = self._explained(completions[number], way)
            return found
        tried = [completions[number] for number in odd]
        in_prompt = self._recode([self._tail(prompts[number]) for number in odd], tried)
        after_newline = self._recode([self._newline] * len(odd), tried)
        for number, *others in zip(odd, in_prompt, after_newline, strict=True):
            ways = [way for way in (alone[number], *others) if way is not None]
            if all(way.place is not None for way in ways):
                best = max(ways, key=lambda way: way.place or 0)
                found[number] = self._explained(completions[number], best)
        return found

    def again(self, completion: list[int], prompt: list[int] | None) -> list[int]:
        """What the completion's text is encoded as, in the way in which `differences` judges it."""
        ways = self._recode([[]], [completion])
        if self._place_matters and ways[0] is not None and ways[0].place is not None:
            ways += self._recode([self._tail(prompt), self._newline], [completion, completion])
        known = [way for way in ways if way is not None]
        return max(known, key=lambda way: len(completion) + 1 if way.place is None else way.place).ids

    def _recode(self, contexts: Sequence[list[int]], completions: Sequence[list[int]]) -> list[_Recoded | None]:
        """What comes back of each completion after its context; None where the context itself does not come back."""
        backend = self._tokenizer.backend
        recoded: list[_Recoded | None] = []
        for start, end in _chunks(completions):
            whole = [[*contexts[number], *completions[number]] for number in range(start, end)]
            usable = [ids if min(ids, default=0) >= 0 else list(takewhile(_is_id, ids)) for ids in whole]
            texts = backend.decode_batch(usable, skip_special_tokens=False)
            encodings = backend.encode_batch_fast(texts, add_special_tokens=False)
            for number, encoding in zip(range(start, end), encodings, strict=True):
                context, completion, ids = contexts[number], completions[number], encoding.ids
                if ids[: len(context)] != context:
                    recoded.append(None)
                    continue
                rest = ids[len(context) :] if context else ids
                recoded.append(_Recoded(context, rest, first_difference(completion, rest)))
        return recoded

    def _tail(self, prompt: list[int] | None) -> list[int]:
        """The prompt's end, from its last special token on where that is near."""
        if not prompt:
            return self._newline
        for back in range(1, min(_LONGEST_TAIL, len(prompt)) + 1):
            if prompt[-back] in self._tokenizer.added:
                return prompt[-back:]
        return prompt[-_SHORT_TAIL:]

    def _explained(self, completion: list[int], best: _Recoded) -> Difference:
        assert best.place is not None
        kind: DriftKind = "drift"
        place, ids, at_end = best.place, best.ids, False
        pieces = [self.bytes_of(each) for each in completion]
        written = b"".join(pieces)
        try:
            written.decode("utf-8")
        except UnicodeDecodeError as error:
            broken = _piece_at(pieces, error.start)
            begun = written[len(b"".join(pieces[:broken])) : error.start].decode("utf-8")
            text = self._tokenizer.decode([*best.context, *completion[:broken]]) + begun
            before = self._drift_before(completion[:broken], best.context, text + _made_whole(written[error.start :]))
            if before is None:
                kind, at_end = "invalid_utf8", error.reason == "unexpected end of data"
            else:
                place, ids = before
        sampled, encoded = _changed(completion, ids, place)
        return Difference(place, kind, at_end, sampled, encoded)

    def _drift_before(self, completion: list[int], context: list[int], text: str) -> tuple[int, list[int]] | None:
        """Place and ids of a difference in what precedes the token with the broken character, if there is one.

        In the text the character has been made whole: how what is before it is encoded may depend on there being one.
        """
        ids = self._tokenizer.encode(text)[len(context) :]
        place = first_difference(completion, ids[: len(completion)])
        return None if place is None else (place, ids)

    def bytes_of(self, token_id: int) -> bytes:
        """What a token stands for in the text; nothing for an id that the tokenizer does not have."""
        added = self._tokenizer.added.get(token_id)
        if added is not None:
            return added.content.encode()
        token = self._tokenizer.backend.id_to_token(token_id) if token_id >= 0 else None
        if token is None:
            return b""
        if self._byte_level:
            values = [BYTE_ALPHABET.get(letter) for letter in token]
            return token.encode() if None in values else bytes(value for value in values if value is not None)
        if len(token) == 6 and token.startswith("<0x") and token.endswith(">"):
            return bytes([int(token[3:5], 16)])
        return token.replace("\u2581", " ").encode()


def first_difference(left: Sequence[int], right: Sequence[int]) -> int | None:
    """The first place where two lists differ, the end of the shorter one included; None where they are the same."""
    if left == right:
        return None
    pairs = zip(left, right, strict=False)
    return next((place for place, (one, other) in enumerate(pairs) if one != other), min(len(left), len(right)))


def _is_id(number: int) -> bool:
    return number >= 0


def _chunks(completions: Sequence[list[int]]) -> Iterator[tuple[int, int]]:
    """Start and end of runs of bounded size: an encoding takes a hundred times the memory of its ids."""
    start, tokens = 0, 0
    for number, completion in enumerate(completions):
        tokens += len(completion)
        if tokens >= _CHUNK_TOKENS:
            yield start, number + 1
            start, tokens = number + 1, 0
    if start < len(completions):
        yield start, len(completions)


def _changed(completion: list[int], encoded: list[int], place: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The two sides of a difference, without what is the same at their ends."""
    same = 0
    for one, other in zip(reversed(completion[place:]), reversed(encoded[place:]), strict=False):
        if one != other:
            break
        same += 1
    ends = len(completion) - same, len(encoded) - same
    left, right = completion[place : ends[0]], encoded[place : ends[1]]
    return tuple(left[:_SHOWN_TOKENS]), tuple(right[:_SHOWN_TOKENS])


def _piece_at(pieces: Sequence[bytes], offset: int) -> int:
    for place, piece in enumerate(pieces):
        if offset < len(piece):
            return place
        offset -= len(piece)
    raise AssertionError("the offset lies in the pieces")


def _made_whole(rest: bytes) -> str:
    """The character that a broken sequence of bytes began, any such one; empty where it began none."""
    size = 2 if rest[0] < 0xE0 else 3 if rest[0] < 0xF0 else 4
    for kept in range(min(size, len(rest)), 0, -1):
        for filler in (0x80, 0x90, 0xA0):
            try:
                return (rest[:kept] + bytes([filler]) * (size - kept)).decode("utf-8")
            except UnicodeDecodeError:
                continue
    return ""
