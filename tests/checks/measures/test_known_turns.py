"""Parents found by digests: the deepest prefix, bounded memory, and what is then no longer claimed."""

import numpy as np

from checks.measures.known_turns import KnownTurns
from checks.ragged import Array


def ids(*values: int) -> Array:
    return np.array(values, dtype=np.int32)


def remember(known: KnownTurns, session: str, prompt: Array, completion: Array, thinking: str | None = None) -> None:
    known.add(session, prompt, completion, 1, None, thinking)


def test_the_deepest_prefix_is_the_parent() -> None:
    known = KnownTurns()
    remember(known, "s", ids(1, 2), ids(3))
    remember(known, "s", ids(1, 2, 3, 4), ids(5))
    remember(known, "s", ids(1, 2, 3, 9), ids(5))
    remember(known, "other", ids(1, 2, 3, 4, 5), ids(6))
    for prompt, length in ((ids(1, 2, 3, 4, 5, 6), 5), (ids(1, 2, 3, 9), 3), (ids(1, 2, 3), 3)):
        parent = known.past("s", 4, prompt).parent
        assert parent is not None
        assert parent.length == length
        assert parent.last_id == int(prompt[length - 1])
    assert known.past("s", 4, ids(1, 2)).parent is None
    assert known.past("s", 4, ids(7, 2, 3, 4, 5)).parent is None


def test_a_turn_that_sampled_nothing_is_known_and_no_parent() -> None:
    known = KnownTurns()
    remember(known, "s", ids(1, 2), ids())
    past = known.past("s", 2, ids(1, 2, 3))
    assert (past.parent, past.whole) == (None, True)
    assert not known.past("s", 3, ids(1, 2, 3)).whole


def test_sessions_not_seen_for_longest_are_forgotten_and_then_not_whole() -> None:
    known = KnownTurns(kept_turns=3)
    remember(known, "a", ids(1), ids(2))
    remember(known, "b", ids(1), ids(2))
    remember(known, "a", ids(1, 2), ids(3))
    remember(known, "c", ids(1), ids(2))
    assert known.past("b", 2, ids(1, 2)) == (None, False, {})
    assert known.past("a", 3, ids(1, 2, 3)).parent is not None
    # Thinking counts by its length.
    remember(known, "d", ids(1), ids(2), "x" * 2500)
    assert not known.past("a", 3, ids(1, 2, 3)).whole
    assert known.past("d", 2, ids(1, 2)).thoughts == {1: "x" * 2500}
