"""The line of versions: what training continues from, how stale its turns are, and what it was trained on."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.errors import UserError
from collector.records import Version
from tests.trainer.batch.captured import registry, version
from trainer.batch.lineage import Lineage, continued_from


def test_training_continues_from_the_newest_live_version() -> None:
    known = [
        version(0, state="retired"),
        version(1, parent=0, step=5),
        version(2, parent=1, step=9),
        version(3, parent=2, step=12, state="rejected"),
        version(4, parent=2, step=12, state="candidate"),
    ]
    assert [each.version for each in Lineage(registry(*known), "a").versions] == [2, 1, 0]
    known[2] = version(2, parent=1, step=9, state="retired")
    assert continued_from(registry(*known), "a") == known[1], "rolled back"
    assert continued_from(registry(*known), "b") is None


def test_an_adapter_nobody_registered_is_the_base_model() -> None:
    line = Lineage(registry(), "new")
    assert (line.versions, line.step, line.knows(0), line.holds(0), line.staleness(0)) == ((), 0, True, True, 0)
    assert not line.knows(1)


def test_staleness_counts_the_steps_from_a_version_of_the_line() -> None:
    known = registry(version(0), version(1, parent=0, step=5), version(2, parent=0, step=9, state="rejected"))
    line = Lineage(known, "a", step=7)
    assert (line.staleness(0), line.staleness(1)) == (7, 2)
    assert (line.holds(2), line.knows(2), line.knows(3)) == (False, True, False)
    assert Lineage(known, "a").step == 5, "a version's own step unless told otherwise"


def test_a_version_without_a_step_is_not_known() -> None:
    line = Lineage(registry(version(0), version(1, parent=0, step=None)), "a")
    assert (line.knows(1), line.holds(1), line.knows(0)) == (False, False, True)


def test_weights_behind_a_version_of_the_line_are_refused() -> None:
    known = registry(version(0), version(1, parent=0, step=9), version(2, parent=1, step=5))
    with pytest.raises(UserError, match=r"a@1 was saved at optimizer step 9, .* stand at 5"):
        Lineage(known, "a")


def test_a_line_that_is_broken_is_refused() -> None:
    with pytest.raises(UserError, match="no a@1, the parent of version 2"):
        Lineage(registry(version(0), version(2, parent=1)), "a")


ranges = st.lists(st.tuples(st.sampled_from("vw"), st.integers(1, 30), st.integers(0, 5)), max_size=5)


@given(st.lists(st.tuples(ranges, st.integers(0, 5)), max_size=6), st.integers(0, 6))
def test_what_was_trained_on_is_that_of_the_ancestry_alone(
    made: list[tuple[list[tuple[str, int, int]], int]], start: int
) -> None:
    """Against sets of records, version by version."""
    known: list[Version] = [version(0)]
    for number, (its, parent) in enumerate(made, start=1):
        trained = [(writer, first, first + more) for writer, first, more in its]
        known.append(version(number, parent=min(parent, number - 1), trained_on=trained))
    at: int | None = min(start, len(made))
    line = Lineage(registry(*known), "a", parent=known[at])
    expected: set[tuple[str, int]] = set()
    while at is not None:
        expected |= {(writer, seq) for writer, first, last in known[at].trained_on for seq in range(first, last + 1)}
        at = known[at].parent
    found = {(writer, seq) for writer in "vwx" for seq in range(40) if line.was_trained_on(writer, seq)}
    assert found == expected
