"""Sampled ids to text, one id at a time, never half a character."""

import codecs
from collections.abc import Collection, Sequence

from collector.rendering.tokenizer import ChatTokenizer


def _byte_alphabet() -> dict[str, int]:
    """The printable stand-ins that byte-level vocabularies use for the 256 bytes."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    shifted = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(0x100 + n): byte for n, byte in enumerate(shifted)}


BYTE_ALPHABET = _byte_alphabet()
"""Character to byte."""


class Detokenizer:
    """The text of a growing list of ids; the pieces do not depend on how the ids arrive."""

    def __init__(self, tokenizer: ChatTokenizer, *, hidden_ids: Collection[int] = ()) -> None:
        self._tokenizer = tokenizer
        self._hidden_ids = hidden_ids
        self._utf8 = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._ids: list[int] = []
        self._shown = 0
        self._settled = 0

    def add(self, ids: Sequence[int]) -> str:
        """The characters that these ids completed."""
        shown = [index for index in ids if index not in self._hidden_ids]
        if self._tokenizer.is_byte_level:
            return self._utf8.decode(b"".join(self._bytes_of(index) for index in shown))
        return "".join(self._add_by_decoding(index) for index in shown)

    def finish(self) -> str:
        """What was held back as an unfinished character."""
        if self._tokenizer.is_byte_level:
            return self._utf8.decode(b"", final=True)
        before = self._tokenizer.decode(self._ids[self._shown : self._settled])
        return self._tokenizer.decode(self._ids[self._shown :])[len(before) :]

    def _bytes_of(self, index: int) -> bytes:
        token = self._tokenizer.backend.id_to_token(index)
        if token is None:
            return b""
        values = [BYTE_ALPHABET.get(char) for char in token]
        return token.encode() if None in values else bytes(value for value in values if value is not None)

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
