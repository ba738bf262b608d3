"""A pickle read as data: every operation is carried out here, and nothing that a pickle names is imported or called.

Only the builders and inert stand-ins of `pickle_globals` can appear where a pickle asks for a class or a function.
Work, memory and nesting are bounded by the size of the file and by `OPERATION_LIMIT`.
"""

import struct
from collections.abc import Callable
from typing import Any

from checks.readers.pickle_stack import PickleStack, hashable
from checks.readers.pickle_values import RefusedPickle

OPERATION_LIMIT = 20_000_000
"""Operations of one pickle; a run of numbers in a list is one."""
Operation = Callable[[PickleStack], None]
_U1, _U2, _U4, _U8 = (struct.Struct(form) for form in ("<B", "<H", "<I", "<Q"))
_I4, _F8 = struct.Struct("<i"), struct.Struct(">d")


def _pushes(make: Callable[[PickleStack], object]) -> Operation:
    return lambda on: on.stack.append(make(on))


def _text(form: struct.Struct, encoding: str = "utf-8") -> Operation:
    return _pushes(lambda on: str(on.take(on.number(form)), encoding, "replace"))


def _raw(form: struct.Struct) -> Operation:
    return _pushes(lambda on: bytes(on.take(on.number(form))))


def _long(form: struct.Struct) -> Operation:
    return _pushes(lambda on: int.from_bytes(on.take(on.number(form)), "little", signed=True))


def _tuple(count: int) -> Operation:
    def operation(on: PickleStack) -> None:
        items = tuple(on.stack[-count:])
        if len(items) != count:
            raise RefusedPickle("a tuple of more items than there are")
        on.stack[-count:] = [items]

    return operation


# Any: as above.
def _of_group(make: Callable[[list[Any]], object]) -> Operation:
    return _pushes(lambda on: make(on.since_mark()))


# Any: as above.
def _table(items: list[Any]) -> dict[Any, Any]:
    return {hashable(key): value for key, value in zip(items[::2], items[1::2], strict=True)}


def _skip(count: int) -> Operation:
    def operation(on: PickleStack) -> None:
        on.take(count)

    return operation


def _remember(form: struct.Struct) -> Operation:
    return lambda on: on.memoize(on.number(form))


def _recall(form: struct.Struct) -> Operation:
    return _pushes(lambda on: on.memo[on.number(form)])


_BY_CODE: dict[str, Operation] = {
    "\x80": _skip(1),
    "\x95": _skip(8),
    "(": PickleStack.mark,
    "0": PickleStack.pop,
    "1": PickleStack.pop_group,
    "2": _pushes(lambda on: on.stack[-1]),
    "N": _pushes(lambda _: None),
    "\x88": _pushes(lambda _: True),
    "\x89": _pushes(lambda _: False),
    "K": _pushes(lambda on: on.number(_U1)),
    "M": _pushes(lambda on: on.number(_U2)),
    "J": _pushes(lambda on: on.number(_I4)),
    "G": _pushes(lambda on: on.number(_F8)),
    "\x8a": _long(_U1),
    "\x8b": _long(_I4),
    "X": _text(_U4),
    "\x8c": _text(_U1),
    "\x8d": _text(_U8),
    "T": _text(_I4, "latin-1"),
    "U": _text(_U1, "latin-1"),
    "B": _raw(_U4),
    "C": _raw(_U1),
    "\x8e": _raw(_U8),
    "\x96": _raw(_U8),
    "]": _pushes(lambda _: []),
    "}": _pushes(lambda _: {}),
    ")": _pushes(lambda _: ()),
    "\x8f": _pushes(lambda _: set[Any]()),
    "a": PickleStack.append,
    "e": lambda on: on.extend(on.since_mark()),
    "s": PickleStack.set_item,
    "u": lambda on: on.set_items(on.since_mark()),
    "\x90": PickleStack.add_items,
    "l": _of_group(list),
    "t": _of_group(tuple),
    "d": _of_group(_table),
    "\x91": _of_group(lambda items: frozenset(map(hashable, items))),
    "\x85": _tuple(1),
    "\x86": _tuple(2),
    "\x87": _tuple(3),
    "q": _remember(_U1),
    "r": _remember(_U4),
    "\x94": lambda on: on.memoize(len(on.memo)),
    "h": _recall(_U1),
    "j": _recall(_U4),
    "c": PickleStack.named,
    "\x93": PickleStack.stack_global,
    "R": PickleStack.call,
    "\x81": PickleStack.call,
    "\x92": lambda on: on.call(keywords=True),
    "b": PickleStack.build,
    "Q": PickleStack.persistent_id,
}
_OPERATIONS = {ord(code): operation for code, operation in _BY_CODE.items()}


class PickleMachine(PickleStack):
    """Reads one pickle after the other from a buffer."""

    # Any: as above.
    def load(self) -> Any:
        """The object of the next pickle; RefusedPickle says in one line why there is none."""
        self.stack, self.memo = [], {}
        try:
            self._run()
            return self.stack.pop()
        except (IndexError, struct.error):
            raise RefusedPickle(f"the pickle is broken or cut off at byte {self.position}") from None
        except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as error:
            raise RefusedPickle(f"the pickle is broken at byte {self.position}: {error}") from None

    def _run(self) -> None:
        buffer = self.buffer
        for _ in range(OPERATION_LIMIT):
            code = buffer[self.position]
            self.position += 1
            if code == 0x2E:
                return
            operation = _OPERATIONS.get(code)
            if operation is None:
                raise RefusedPickle(f"byte {self.position - 1} is {bytes([code])!r}, no operation of protocols 2 to 5")
            operation(self)
        raise RefusedPickle(f"more than {OPERATION_LIMIT:,} operations")
