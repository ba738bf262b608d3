"""Ids of texts that come again and again: system prompts, tools, the messages of a conversation rendered anew."""

import re
import sys
import threading
from array import array
from collections import OrderedDict
from collections.abc import Collection

from tokenizers import Tokenizer
from tokenizers.models import BPE

_SHORTEST_CHARS = 64
"""Below this the tokenizer is as fast as looking it up."""
_FEW = 4
_DEEPEST = 16
"""Groups of a pattern within each other: more than Python compiles are not needed to tell tokens apart."""


class PieceMemory:
    """Encodes a text piece by piece between its special tokens, and remembers the pieces."""

    def __init__(self, backend: Tokenizer, *, most_bytes: int = 16 * 2**20) -> None:
        self._backend = backend
        self._most_bytes = most_bytes
        self._special = _splitting_tokens(backend)
        self._split = re.compile(_longest_of(self._special))
        self._ids: OrderedDict[str, array[int]] = OrderedDict()
        self._bytes = 0
        # Prompts are rendered on several threads.
        self._lock = threading.Lock()

    def encode(self, text: str) -> list[int]:
        """What the tokenizer makes of the whole text, with no special tokens added."""
        if not self._special:
            return self._encoded(text)
        ids: list[int] = []
        place = 0
        for found in self._split.finditer(text):
            ids += self._piece(text[place : found.start()])
            ids.append(self._special[found.group()])
            place = found.end()
        ids += self._piece(text[place:])
        return ids

    def _piece(self, text: str) -> list[int]:
        if len(text) < _SHORTEST_CHARS:
            return self._encoded(text) if text else []
        with self._lock:
            known = self._ids.get(text)
            if known is not None:
                self._ids.move_to_end(text)
        if known is not None:
            return known.tolist()
        ids = self._encoded(text)
        self._remember(text, array("i", ids))
        return ids

    def _remember(self, text: str, ids: "array[int]") -> None:
        size = _size(text, ids)
        if size > self._most_bytes // 4:
            return
        with self._lock:
            if text in self._ids:
                return
            self._ids[text] = ids
            self._bytes += size
            while self._bytes > self._most_bytes:
                self._bytes -= _size(*self._ids.popitem(last=False))

    def _encoded(self, text: str) -> list[int]:
        return self._backend.encode(text, add_special_tokens=False).ids


def _size(text: str, ids: "array[int]") -> int:
    return sys.getsizeof(text) + sys.getsizeof(ids)


def _longest_of(texts: Collection[str], depth: int = 0) -> str:
    """A pattern of the longest that is there, in which one character after the other decides: of thousands that begin
    alike not each is tried."""
    plain = "|".join(map(re.escape, sorted(texts, key=len, reverse=True)))
    if len(texts) <= _FEW or depth == _DEEPEST:
        return plain
    alike = _alike(min(texts), max(texts))
    rests: dict[str, list[str]] = {}
    for text in texts:
        rests.setdefault(text[alike : alike + 1], []).append(text[alike:])
    # What ends here comes last.
    branches = "|".join(_longest_of(rests[first], depth + 1) for first in sorted(rests, reverse=True))
    return f"{re.escape(min(texts)[:alike])}(?:{branches})"


def _alike(one: str, other: str) -> int:
    """How many characters two texts begin with in common."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))


def _splitting_tokens(backend: Tokenizer) -> dict[str, int]:
    """Tokens at which the tokenizer itself cuts a text before anything else; none where pieces are not independent.

    It looks for the added tokens that it does not normalize, the longest at the leftmost place, and goes on with each
    rest as if it were alone: but for tokens that take white space with them or want a word's end beside them, for a
    prefix given to the first rest only, and for merges dropped at random (tokenizers, `AddedVocabulary` and
    `Metaspace`).
    """
    cutting = {index: token for index, token in backend.get_added_tokens_decoder().items() if not token.normalized}
    reaching = any(token.lstrip or token.rstrip or token.single_word for token in cutting.values())
    first_only = b'"first"' in _state_of(backend.pre_tokenizer)
    random = isinstance(backend.model, BPE) and bool(backend.model.dropout)
    if reaching or first_only or random:
        return {}
    return {token.content: index for index, token in cutting.items() if token.content}


def _state_of(part: object) -> bytes:
    """The part as JSON; empty where there is none."""
    if part is None:
        return b""
    state = part.__getstate__()
    assert isinstance(state, bytes)
    return state
