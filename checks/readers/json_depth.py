"""How deep a JSON text is nested."""

import re

import numpy as np

DEPTH_LIMIT = 200
"""Deepest nesting that is read: Python gives up at about a thousand, in whichever place comes upon it."""
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


def is_deeper(text: bytes, limit: int = DEPTH_LIMIT) -> bool:
    """Whether a JSON text is nested deeper than the limit."""
    if text.count(b"[") + text.count(b"{") <= limit:
        return False
    brackets = np.frombuffer(_STRING.sub(b"", text).translate(None, _NOT_BRACKETS), dtype=np.uint8)
    opened = (brackets == ord("[")) | (brackets == ord("{"))
    return int(np.cumsum(np.where(opened, 1, -1)).max(initial=0)) > limit
