"""Onsets by the clock: said where they contradict the steps, and only there."""

from datetime import UTC, datetime, timedelta

import pytest

from checks.ranking import Move, Ranked
from checks.wall_clock import against_the_clock

AT = datetime(2026, 11, 1, 12, tzinfo=UTC)


def ranked(adapter: str | None, *moves: tuple[str, int, int, float | None]) -> Ranked:
    """Signals with first and last step, and seconds from noon."""
    made = [
        Move(name, name, first, last, last, 9.0, 1.0, None if second is None else AT + timedelta(seconds=second))
        for name, first, last, second in moves
    ]
    return Ranked(adapter, tuple(made), (), ())


def test_an_order_that_the_clock_turns_round_is_said() -> None:
    (said,) = against_the_clock([ranked(None, ("staleness", 300, 300, 90), ("max_w", 310, 310, 1.5))])
    assert said == (
        "by the clock the order is another: max_w 2026-11-01 12:00:01.500Z, staleness 2026-11-01 12:01:30.000Z"
    )


@pytest.mark.parametrize(
    "moves",
    [
        [("staleness", 300, 300, 1.0), ("max_w", 310, 310, 90.0)],
        [("staleness", 300, 300, 90.0), ("max_w", 310, 310, None)],
        [("staleness", 300, 300, 90.0), ("max_w", 295, 310, 1.0)],
        [("staleness", 300, 300, 1.0), ("max_w", 310, 310, 1.0)],
    ],
    ids=["same order", "time unknown", "a tie by step", "a tie by time"],
)
def test_what_does_not_contradict_is_not_said(moves: list[tuple[str, int, int, float | None]]) -> None:
    assert list(against_the_clock([ranked(None, *moves)])) == []


def test_adapters_count_their_steps_each_for_itself_so_the_clock_may_turn_them_round() -> None:
    first = ranked("a", ("staleness", 300, 300, 90.0), ("max_w", 305, 305, 95.0))
    second = ranked("b", ("max_w", 900, 900, 30.0), ("entropy", 910, 910, 20.0))
    assert list(against_the_clock([first, second, ranked("c")])) == [
        "by the clock the order is another for b: entropy 2026-11-01 12:00:20.000Z, max_w 2026-11-01 12:00:30.000Z",
        "by the clock the adapters moved in another order: "
        "b max_w 2026-11-01 12:00:30.000Z, a staleness 2026-11-01 12:01:30.000Z",
    ]
