"""The last result of a slow function, kept while its frames are the very same ones."""

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

Result = TypeVar("Result")


class _Made(NamedTuple, Generic[Result]):
    inputs: tuple[object, ...]
    result: Result


class Kept(Generic[Result]):
    """One slot: the inputs, compared by identity, and what came of them."""

    def __init__(self) -> None:
        self._made: _Made[Result] | None = None

    def of(self, inputs: tuple[object, ...], make: Callable[[], Result]) -> Result:
        """What `make` gives, or gave for these inputs."""
        made = self._made
        if made is not None and _same(made.inputs, inputs):
            return made.result
        result = make()
        self._made = _Made(inputs, result)
        return result


def _same(before: tuple[object, ...], now: tuple[object, ...]) -> bool:
    """Numbers and texts by value, everything else by identity: comparing frames would cost as much as the work."""
    plain = (int, str, float, type(None))
    return len(before) == len(now) and all(
        one is other or (isinstance(one, plain) and isinstance(other, plain) and one == other)
        for one, other in zip(before, now, strict=True)
    )
