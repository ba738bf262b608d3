"""Cutting into update batches: groups stay whole, the oldest first, and what becomes of the rest."""

from hypothesis import given
from hypothesis import strategies as st

from tests.trainer.batch.captured import NOON
from trainer.batch.batch_config import BatchConfig
from trainer.batch.cutting import Cut, Unit, cut, units
from trainer.batch.tenant_capture import CapturedSession, TurnFacts


def session(name: str, group: str | None = None) -> CapturedSession:
    facts = (("w", 1), name, name, 1, None, "root", group, "acme", "a", 1, None, "traffic", NOON, None, "stop", 1.0)
    return CapturedSession(name, (TurnFacts(*facts, True, None, 2),))


def of_sizes(*sizes: int) -> list[Unit]:
    return [Unit(tuple(session(f"{place}.{n}") for n in range(size))) for place, size in enumerate(sizes)]


def sizes(made: Cut) -> list[list[int]]:
    return [[len(unit.sessions) for unit in batch] for batch in made.batches]


def whole(unit: Unit, batch: int) -> int:
    return len(unit.sessions)


def test_a_group_stands_where_its_first_session_does() -> None:
    made = units([session("a", "g"), session("b"), session("c", "g"), session("b2", "b")])
    assert [[each.session_id for each in unit.sessions] for unit in made] == [["a", "c"], ["b"], ["b2"]]


def test_a_batch_ends_before_it_would_be_too_large() -> None:
    made = cut(of_sizes(2, 2, 1, 4), BatchConfig(batch_sessions=4), whole)
    assert (sizes(made), made.waiting) == ([[2, 2], [1, 4]], ())
    assert sizes(cut(of_sizes(4, 3, 2), BatchConfig(batch_sessions=4), whole)) == [[4], [3], [2]]


def test_a_group_larger_than_a_batch_is_one_batch() -> None:
    assert sizes(cut(of_sizes(2, 9, 2), BatchConfig(batch_sessions=4), whole)) == [[2], [9], [2]]


def test_too_few_at_the_end_join_the_batch_before_and_without_one_wait() -> None:
    config = BatchConfig(batch_sessions=4, min_sessions=3)
    assert sizes(cut(of_sizes(1, 1, 1, 1, 1, 1), config, whole)) == [[1] * 6]
    made = cut(of_sizes(1, 1), config, whole)
    assert (sizes(made), len(made.waiting)) == ([], 2)


def test_what_a_batch_cannot_use_is_in_none() -> None:
    made = cut(of_sizes(1, 1, 1, 1, 1), BatchConfig(batch_sessions=2), lambda unit, batch: int(batch == 0))
    assert (sizes(made), made.waiting) == ([[1, 1]], ())


def test_nothing_makes_no_batch() -> None:
    assert cut([], BatchConfig(), whole) == Cut((), ())


@given(st.lists(st.integers(1, 5), max_size=20), st.integers(1, 6), st.integers(1, 6))
def test_every_unit_is_somewhere_once_and_in_order(counts: list[int], most: int, least: int) -> None:
    config = BatchConfig(batch_sessions=max(most, least), min_sessions=least)
    waiting = of_sizes(*counts)
    made = cut(waiting, config, whole)
    assert [unit for batch in made.batches for unit in batch] + list(made.waiting) == waiting
    totals = [sum(map(sum, [batch])) for batch in sizes(made)]
    assert all(total >= least for total in totals)
    assert not made.waiting or (not made.batches and sum(counts) < least)
    room = config.batch_sessions + max(counts, default=0) + least
    assert all(total < room for total in totals)
