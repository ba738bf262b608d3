"""Sampled ids to text, one id at a time, never half a character."""

import codecs
import contextlib
from collections.abc import Collection, Sequence
from weakref import WeakKeyDictionary

from collector.rendering.tokenizer import ChatTokenizer


def _byte_alphabet() -> dict[str, int]:
    """The printable stand-ins that byte-level vocabularies use for the 256 bytes."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    shifted = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(0x100 + n): byte for n, byte in enumerate(shifted)}


BYTE_ALPHABET = _byte_alphabet()
"""Character to byte."""


class _Spelling:
    """The tokens met so far of one byte-level vocabulary."""

    def __init__(self) -> None:
        self.data: dict[int, bytes] = {}
        """Id to bytes."""
        self.texts: dict[int, str] = {}
        """Id to text, of those that are whole characters."""


_SPELLINGS: WeakKeyDictionary[ChatTokenizer, dict[frozenset[int], _Spelling]] = WeakKeyDictionary()


class Detokenizer:
    """The text of a growing list of ids; the pieces do not depend on how the ids arrive."""

    def __init__(self, tokenizer: ChatTokenizer, *, hidden_ids: Collection[int] = ()) -> None:
        self._tokenizer = tokenizer
        self._hidden_ids = frozenset(hidden_ids)
        self._spelling = _SPELLINGS.setdefault(tokenizer, {}).setdefault(self._hidden_ids, _Spelling())
        self._utf8 = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._in_character = False
        """Whether bytes of an unfinished character are held."""
        self._ids: list[int] = []
        self._shown = 0
        self._settled = 0

    def add(self, ids: Sequence[int]) -> str:
        """The characters that these ids completed."""
        return "".join(self.pieces(ids))

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The same, of each id."""
        if not self._tokenizer.is_byte_level:
            return ["" if index in self._hidden_ids else self._add_by_decoding(index) for index in ids]
        if not self._in_character:
            try:
                texts = self._spelling.texts
                return [texts[index] for index in ids]
            # One that is not met yet, or is no whole character.
            except KeyError:
                pass
        return [self._read_bytes(index) for index in ids]

    def finish(self) -> str:
        """What was held back as an unfinished character."""
        if self._tokenizer.is_byte_level:
            return self._utf8.decode(b"", final=True)
        before = self._tokenizer.decode(self._ids[self._shown : self._settled])
        return self._tokenizer.decode(self._ids[self._shown :])[len(before) :]

    def _read_bytes(self, index: int) -> str:
        data = self._spelling.data.get(index)
        if data is None:
            data = self._learn(index)
        text = self._utf8.decode(data)
        self._in_character = bool(self._utf8.getstate()[0])
        return text

    def _learn(self, index: int) -> bytes:
        token = "" if index in self._hidden_ids else self._tokenizer.backend.id_to_token(index) or ""
        values = [BYTE_ALPHABET.get(char) for char in token]
        data = token.encode() if None in values else bytes(value for value in values if value is not None)
        self._spelling.data[index] = data
        with contextlib.suppress(UnicodeDecodeError):
            self._spelling.texts[index] = data.decode()
        return data

    def _add_by_decoding(self, index: int) -> str:
        # Other decoders look at neighbours (SentencePiece drops a leading space, byte fallback joins bytes), so a
        # token's text is what it adds to the decoding of a window that starts at a settled place.
        self._ids.append(index)
        before = self._tokenizer.decode(self._ids[self._shown : self._settled])
        now = self._tokenizer.decode(self._ids[self._shown :])
        if len(now) <= len(before) or now.endswith("\ufffd"):
            return ""
        self._shown, self._settled = self._settled, len(self._ids)
        return now[len(before) :]
