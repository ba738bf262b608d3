"""Scores find their turns in whatever order they come, read along or dealt out into files."""

from collections.abc import Collection, Iterator, Sequence

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checks.log import Unreadable
from checks.readers.score_join import ScoreJoin
from checks.readers.tables import Origin


class MemoryTables:
    """Turns and scores by turn_id, in batches of three."""

    def __init__(self, turns: Sequence[str | None], scores: Sequence[str | None]) -> None:
        ids = {"turns": turns, "scores": scores}
        self._tables = {
            table: pa.table({"turn_id": pa.array(names, pa.string()), "trainer_step": pa.array(range(len(names)))})
            for table, names in ids.items()
        }

    @property
    def origin(self) -> Origin:
        return Origin("memory", "a test", 0)

    def columns(self, table: str) -> Sequence[str]:
        return self._tables[table].schema.names

    def batches(
        self, table: str, columns: Sequence[str], *, sessions: Collection[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        yield from self._tables[table].select(columns).to_batches(max_chunksize=3)

    def rows(self, table: str) -> int | None:
        return self._tables[table].num_rows

    def unreadable(self) -> Sequence[Unreadable]:
        return ()


def joined(turns: Sequence[str | None], scores: Sequence[str | None], cuts: Sequence[int], **limits: int):
    """(row of turns, row of scores) for every score given, the turns taken in stretches that end at `cuts`."""
    join = ScoreJoin(MemoryTables(turns, scores), **limits)
    one_pass = join.pass_over(["trainer_step"])
    pairs: list[tuple[int, int]] = []
    start = 0
    for end in [*cuts, len(turns)]:
        found = one_pass.between(start, end) if end > start else None
        if found is not None:
            assert found["row"].dtype == pl.UInt32
            pairs += [(start + row, step) for row, step in found.select("row", "trainer_step").iter_rows()]
        start = max(start, end)
    one_pass.close()
    return pairs, join.unmatched


names = st.lists(st.sampled_from([f"t{n}" for n in range(30)] + [None]), max_size=40)


@given(
    turns=st.lists(st.sampled_from([f"t{n}" for n in range(25)]), max_size=25, unique=True),
    scores=names,
    cuts=st.lists(st.integers(0, 25), max_size=6),
    limits=st.sampled_from([{}, {"held_bytes": 0, "part_bytes": 40}, {"held_bytes": 0, "part_bytes": 10**9}]),
)
@settings(max_examples=150, deadline=None)
def test_every_score_comes_once_with_its_turn(
    turns: list[str], scores: list[str | None], cuts: list[int], limits: dict[str, int]
):
    cuts = sorted(cut for cut in cuts if cut <= len(turns))
    pairs, unmatched = joined(turns, scores, cuts, **limits)
    expected = [(row, at) for row, name in enumerate(turns) for at, scored in enumerate(scores) if scored == name]
    assert pairs == expected
    assert unmatched == len(scores) - len(expected)


def test_a_turn_id_that_stands_twice_has_its_scores_once():
    assert joined(["a", "b", "a"], ["a"], []) == ([(0, 0)], 0)


def test_a_turn_without_an_id_has_no_score():
    assert joined([None, "b", None], [None, "b"], [1]) == ([(1, 1)], 1)


@pytest.mark.parametrize("limits", [{}, {"held_bytes": 0, "part_bytes": 1_000}])
def test_fifteen_hundred_scores_in_reverse(limits: dict[str, int]):
    turns = [f"t{n}" for n in range(1_500)]
    pairs, _ = joined(turns, turns[::-1], list(range(0, 5_000, 700)), **limits)
    assert pairs == [(n, 1_499 - n) for n in range(1_500)]
