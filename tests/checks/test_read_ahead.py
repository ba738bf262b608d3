"""Reading ahead keeps the order, the errors and the bounds, and ends when it is left."""

import threading
import time
from collections.abc import Iterator

import pytest

from checks.read_ahead import read_ahead


def test_the_values_come_in_their_order():
    assert list(read_ahead(range(100), ahead=3)) == list(range(100))
    assert list(read_ahead([])) == []


def test_it_works_in_another_thread_and_never_further_ahead_than_told():
    made: list[int] = []
    threads: set[str] = set()

    def values() -> Iterator[int]:
        for n in range(20):
            made.append(n)
            threads.add(threading.current_thread().name)
            yield n

    for n in read_ahead(values(), ahead=2):
        time.sleep(0.002)
        assert len(made) <= n + 3
    assert threads == {"read-ahead_0"}


def test_an_error_comes_after_the_values_before_it():
    def values() -> Iterator[int]:
        yield 1
        raise ValueError("broken")

    taken: list[int] = []
    with pytest.raises(ValueError, match="broken"):
        taken.extend(read_ahead(values(), ahead=4))
    assert taken == [1]


def test_leaving_early_closes_the_iterator_in_its_own_thread():
    closed_in: list[str] = []

    def values() -> Iterator[int]:
        try:
            while True:
                yield 1
        finally:
            closed_in.append(threading.current_thread().name)

    before = threading.active_count()
    ahead = read_ahead(values())
    assert next(ahead) == 1
    ahead.close()
    assert closed_in == ["read-ahead_0"]
    assert threading.active_count() == before
