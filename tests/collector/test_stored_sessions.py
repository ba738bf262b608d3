"""The set of all stored sessions: exact as a set of their names, and small."""

import random
import tracemalloc

from uuid_utils import uuid7

from collector.stored_sessions import (
    StoredSessions,
    _place,  # pyright: ignore[reportPrivateUsage]
)


def test_it_knows_what_was_added_and_not_discarded_and_nothing_else() -> None:
    stored, known = StoredSessions(), set[str]()
    source = random.Random(3)
    names = [f"acme/auto-{n:04}" for n in range(4000)]
    for _ in range(20_000):
        name = source.choice(names)
        if source.random() < 0.6:
            stored.add(name)
            known.add(name)
        else:
            stored.discard(name)
            known.discard(name)
    assert {name for name in names if name in stored} == known
    assert len(stored) == len(known)


def test_a_digest_that_lies_across_two_others_is_not_among_them() -> None:
    first, second = bytes(range(16)), bytes(range(16, 32))
    across = bytes(range(8, 24))
    part = bytearray(first + second)
    assert _place(part, across) is None
    assert _place(part + across, across) == 32
    assert (_place(part, first), _place(part, second)) == (0, 16)


def test_names_of_any_text_are_told_apart() -> None:
    stored = StoredSessions()
    stored.add("ä")
    assert "ä" in stored
    assert "a" not in stored
    stored.add("\ud800")
    assert "\ud800" in stored
    assert "" not in stored


def test_a_session_takes_a_few_bytes_however_long_its_name() -> None:
    stored = StoredSessions()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(50_000):
            stored.add(f"acme/auto-0123456789ab-{uuid7()}")
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(stored) == 50_000
    # 16 bytes of digest each, and what 4096 byte arrays have in reserve.
    assert (after - before) / 50_000 < 32
