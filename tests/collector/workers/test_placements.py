"""What is told of a session's workers gives back, turn by turn, who served it, however turns overlap and move."""

from hypothesis import given
from hypothesis import strategies as st

from collector.workers.placements import Placements, Told


def test_a_change_is_told_once_and_holds_until_the_next() -> None:
    made = Placements()
    assert made.put(1, "a", last_turn=1) == [Told(1, "a")]
    assert made.put(2, "a", last_turn=2) == []
    assert made.put(3, "b", last_turn=3) == [Told(3, "b")]
    assert [made.at(turn) for turn in range(5)] == [None, "a", "a", "b", "b"]


def test_a_turn_that_moves_while_later_ones_run_leaves_them_where_they_are() -> None:
    made = Placements()
    for turn in (1, 2, 3):
        made.put(turn, "a", last_turn=turn)
    assert made.put(1, "b", last_turn=3) == [Told(1, "b"), Told(2, "a")]
    assert [made.at(turn) for turn in (1, 2, 3)] == ["b", "a", "a"]


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 30), st.sampled_from("abc")), max_size=30))
def test_what_is_told_is_what_was_done(steps: list[tuple[bool, int, str]]) -> None:
    made, done, told = Placements(), dict[int, str](), dict[int, str]()
    last = 0
    for is_new, which, worker in steps:
        last += is_new or not last
        turn = last if is_new else 1 + which % last
        # As a turn that moves: it was served before.
        done.setdefault(turn, worker)
        done[turn] = worker
        for change in made.put(turn, worker, last_turn=last):
            told[change.turn] = change.worker
    assert {turn: made.at(turn) for turn in done} == done
    # What a later process reads back is the same.
    again = Placements(told)
    assert {turn: again.at(turn) for turn in done} == done
