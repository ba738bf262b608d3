"""Which keys a JSON value has, told from its first bytes alone, however large the whole is."""

import re
from collections.abc import Collection
from weakref import WeakKeyDictionary

from checks.readers.file_head import FileHead

_DEPTH = 5
"""Keys are told apart down to this depth."""
_END = ""
"""Stands among the keys when the value ends in the head; no key that is looked for is empty."""
_SEEN: WeakKeyDictionary[FileHead, frozenset[str]] = WeakKeyDictionary()
"""Every format asks, and each would look anew."""
# A string may be cut by the end of the head; were that no match, each quote in it would be tried in its turn.
_PIECES = re.compile(rb'"((?:[^"\\]++|\\.)*+)(?:"(\s*+:)?|\\?\Z)|[{}\[\]]', re.DOTALL)


def outline(head: FileHead) -> frozenset[str]:
    """The keys of the first JSON value of a file, as dotted paths; an element of a list is `[]`.

    `{"a": {"b": 1}, "c": [{"d": 2}]}` gives `a`, `a.b`, `c`, `c.[]`, `c.[].d`. Only what is in the head is seen, and
    whether the value ends in it: `is_cut`.
    """
    found = _SEEN.get(head)
    if found is None:
        start = head.start.removeprefix(b"\xef\xbb\xbf").lstrip()
        found = frozenset(_paths(start)) if start[:1] in (b"{", b"[") else frozenset[str]()
        _SEEN[head] = found
    return found


def tells(head: FileHead, keys: Collection[str], *, early: Collection[str]) -> bool:
    """Whether the first value of a file has some keys; of a value that the head cuts, the early ones are enough."""
    found = outline(head)
    return found.issuperset(keys) or (is_cut(head) and found.issuperset(early))


def is_cut(head: FileHead) -> bool:
    """Whether the first value goes on beyond the head."""
    return _END not in outline(head) and bool(outline(head))


def _paths(start: bytes) -> set[str]:
    found: set[str] = set()
    path: list[str] = []
    name = ""
    for piece in _PIECES.finditer(start):
        mark = piece[0][:1]
        if mark == b'"':
            if piece[2] is not None:
                name = piece[1].decode("utf-8", "replace")
                if len(path) <= _DEPTH:
                    found.add(".".join([*path[1:], name]))
        elif mark in b"{[":
            path.append(name)
            name = "[]" if mark == b"[" else ""
            if mark == b"[" and len(path) <= _DEPTH:
                found.add(".".join([*path[1:], name]))
        else:
            name = path.pop() if path else ""
            if not path:
                return found | {_END}
    return found
