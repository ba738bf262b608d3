"""The stack machine that a pickle is a program for: what its operations do, and nothing that a pickle names is run."""

import pickle
import re
import struct
from collections.abc import Callable
from typing import Any, cast

import numpy as np

from checks.readers.pickle_values import Array, Builder, Inert, InertType, RefusedPickle, parts_of

_NUMBERS = re.compile(rb"(?:K.|M..|J....|G........|[\x88\x89]){1,65536}+", re.DOTALL)
_ONE_KIND: tuple[tuple[bytes, int, str], ...] = ((b"K", 2, "u1"), (b"M", 3, "<u2"), (b"J", 5, "<i4"), (b"G", 9, ">f8"))
NAME = re.compile(rb"([^\n]{1,400})\n([^\n]{1,400})\n")
_MARK = object()

Persistent = Callable[[object], object]


def _no_persistent(_: object) -> object:
    raise RefusedPickle("it refers to storages, which only a torch file has")


class PickleStack:
    """The stack and the memo of a pickle, and what its operations do to them."""

    def __init__(
        self,
        buffer: memoryview,
        find: Callable[[str, str], object],
        *,
        persistent: Persistent = _no_persistent,
        position: int = 0,
    ) -> None:
        self.position: int = position
        """Where the next pickle begins, after a load."""
        self.buffer = buffer
        self._find = find
        self._persistent = persistent
        # Any: what a pickle holds is known only when it is read.
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def take(self, count: int) -> memoryview:
        """The next bytes."""
        end = self.position + count
        if count < 0 or end > len(self.buffer):
            raise RefusedPickle(f"byte {self.position} begins a value of {count} bytes, beyond the end of the pickle")
        piece = self.buffer[self.position : end]
        self.position = end
        return piece

    def number(self, form: struct.Struct) -> int:
        """The next number."""
        return form.unpack(self.take(form.size))[0]

    # Any: a piece of the stack.
    def since_mark(self) -> list[Any]:
        """What is on the stack since the last mark, taken off with it."""
        stack = self.stack
        index = len(stack) - 1
        while index < 0 or stack[index] is not _MARK:
            index -= 1
            if index < 0:
                raise RefusedPickle(f"byte {self.position} closes what was never opened")
        items = stack[index + 1 :]
        del stack[index:]
        return items

    def mark(self) -> None:
        """Opens a group; numbers that fill a list are taken in one go and stay arrays."""
        runs: list[bytes] = []
        start = self.position
        while (match := _NUMBERS.match(self.buffer, start)) is not None:
            runs.append(match.group())
            start = match.end()
        stack = self.stack
        closes = runs and start < len(self.buffer) and self.buffer[start] == 0x65
        if closes and type(stack[-1]) is list:
            cast(list[Any], stack[-1]).extend(map(_decoded, runs))
            self.position = start + 1
        else:
            stack.append(_MARK)

    def memoize(self, index: int) -> None:
        """Remembers the top of the stack."""
        self.memo[index] = self.stack[-1]

    def pop(self) -> None:
        """Drops the top of the stack."""
        self.stack.pop()

    def pop_group(self) -> None:
        """Drops everything since the last mark."""
        self.since_mark()

    def append(self) -> None:
        """The top of the stack, into the list below it."""
        value = self.stack.pop()
        self.extend([value])

    # Any: as above.
    def extend(self, items: list[Any]) -> None:
        """Items into the list on the stack."""
        target = self.stack[-1]
        if type(target) is list:
            cast(list[Any], target).extend(items)
        elif isinstance(target, Inert):
            target.elements.extend(items)
        else:
            raise RefusedPickle(f"items are appended to a {type(target).__name__}, expected a list")

    def set_items(self, items: list[Any]) -> None:
        """Keys and values into the dict on the stack."""
        target = self.stack[-1]
        entries = target.entries if isinstance(target, Inert) else target
        if type(entries) is not dict:
            raise RefusedPickle(f"entries are set on a {type(target).__name__}, expected a dict")
        table = cast(dict[Any, Any], entries)
        for key, value in zip(items[::2], items[1::2], strict=True):
            table[hashable(key)] = value

    def set_item(self) -> None:
        """One key and value into the dict below them."""
        value = self.stack.pop()
        key = self.stack.pop()
        self.set_items([key, value])

    def add_items(self) -> None:
        """Everything since the last mark, into the set below it."""
        items = self.since_mark()
        target = self.stack[-1]
        if type(target) is not set:
            raise RefusedPickle(f"items are added to a {type(target).__name__}, expected a set")
        cast(set[Any], target).update(map(hashable, items))

    def named(self) -> None:
        """Pushes what stands for the name that follows."""
        match = NAME.match(self.buffer, self.position)
        if match is None:
            raise RefusedPickle(f"byte {self.position} begins a name that does not end")
        self.position = match.end()
        self.stack.append(self._find(match[1].decode("utf-8", "replace"), match[2].decode("utf-8", "replace")))

    def stack_global(self) -> None:
        """Pushes what stands for the name on the stack."""
        name, module = self.stack.pop(), self.stack.pop()
        if not isinstance(name, str) or not isinstance(module, str):
            raise RefusedPickle("a class or function is named by something that is no text")
        self.stack.append(self._find(module, name))

    def call(self, keywords: bool = False) -> None:
        """Makes an object: by a builder of ours, or an inert one."""
        named = self.stack.pop() if keywords else None
        arguments = self.stack.pop()
        function = self.stack.pop()
        if type(arguments) is not tuple:
            raise RefusedPickle(f"arguments are a {type(arguments).__name__}, expected a tuple")
        if isinstance(function, Builder):
            self.stack.append(function.build(*arguments))
        elif isinstance(function, InertType):
            made = Inert(function.name, cast(tuple[object, ...], arguments))
            if isinstance(named, dict):
                made.state = named
            self.stack.append(made)
        else:
            raise RefusedPickle(f"a {type(function).__name__} is called, which is no known class")

    def build(self) -> None:
        """Gives the object below its state."""
        state = self.stack.pop()
        target = self.stack[-1]
        if not isinstance(target, Inert):
            raise RefusedPickle(f"a state is set on a {type(target).__name__}, expected a known class")
        target.set_state(state)

    def persistent_id(self) -> None:
        """Pushes what the file keeps elsewhere."""
        self.stack.append(self._persistent(self.stack.pop()))


def _decoded(run: bytes) -> Array:
    """The numbers of a run of number operations."""
    for code, width, dtype in _ONE_KIND:
        if run[:1] == code and len(run) % width == 0 and run[::width] == code * (len(run) // width):
            record = np.dtype({"names": ["value"], "formats": [dtype], "offsets": [1], "itemsize": width})
            return np.frombuffer(run, dtype=record)["value"].astype(np.dtype(dtype).newbyteorder("="))
    # Safe: the run was matched to hold numbers and booleans only.
    return np.array(pickle.loads(b"\x80\x02](" + run + b"e."))


# Any: a key as it was read.
def hashable(key: Any) -> Any:
    """A key that is plain, or a flat tuple of plain ones: deeper ones are hashed recursively, without a limit."""
    parts = parts_of(key) or (key,)
    if any(type(part) not in (str, int, float, bool, bytes, type(None)) for part in parts):
        raise RefusedPickle(f"a key is a {type(key).__name__} of {type(parts[0]).__name__}, expected text or a number")
    return key
