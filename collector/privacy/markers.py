"""Puts a marker in the place of every secret in JSON values."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import cast


class Markers:
    """Secrets, and what stands for each of them."""

    def __init__(self, kinds: Mapping[str, str]) -> None:
        """`kinds` is secret to what it is."""
        self._kinds: dict[str, str] = {}
        for secret, kind in kinds.items():
            # Arguments of tool calls are JSON within a text: there a secret stands as JSON spells it.
            for spelled in (secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]):
                self._kinds.setdefault(spelled, kind)
        either = "|".join(re.escape(text) for text in sorted(self._kinds, key=len, reverse=True))
        self._pattern = re.compile(either) if either else None

    def text(self, text: str) -> str:
        """The text with markers."""
        if self._pattern is None:
            return text
        return self._pattern.sub(lambda found: f"[redacted:{self._kinds[found[0]]}]", text)

    def value(self, value: object) -> object:
        """A JSON value with markers in every text of it, keys included."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.text(key): self.value(each) for key, each in cast("dict[str, object]", value).items()}
        if isinstance(value, (list, tuple)):
            return [self.value(each) for each in cast("Sequence[object]", value)]
        return value


def texts_of(value: object) -> Iterable[str]:
    """Every text in a JSON value, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, each in cast("dict[str, object]", value).items():
            yield key
            yield from texts_of(each)
    elif isinstance(value, (list, tuple)):
        for each in cast("Sequence[object]", value):
            yield from texts_of(each)
