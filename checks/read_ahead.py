"""An iterator that works a little ahead of whoever takes from it, in a thread of its own."""

from collections import deque
from collections.abc import Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

T = TypeVar("T")


class _End:
    """What comes after the last value."""


_END: Final = _End()


def read_ahead(values: Iterable[T], *, ahead: int = 1) -> Generator[T]:
    """The values in their order, at most `ahead` of them made before they are asked for.

    An error is raised where its value would have come. Closed early, it closes the iterator in its own thread.
    """
    iterator = iter(values)
    with ThreadPoolExecutor(1, "read-ahead") as thread:
        making = deque(thread.submit(next, iterator, _END) for _ in range(ahead))
        try:
            while not isinstance(value := making.popleft().result(), _End):
                making.append(thread.submit(next, iterator, _END))
                yield value
        finally:
            for future in making:
                future.cancel()
            if isinstance(iterator, Generator):
                thread.submit(iterator.close).result()
