"""Progress of a check: a bar on a terminal once it takes long, a plain line now and then elsewhere."""

from io import StringIO

import pytest

from console.check_progress import CheckProgress


class Terminal(StringIO):
    """Takes what is drawn, and says it is a terminal."""

    def isatty(self) -> bool:
        """It is."""
        return True


class Clock:
    """A clock that a test moves on."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        """The time it was set to."""
        return self.now


def test_what_is_done_soon_says_nothing() -> None:
    clock = Clock()
    for out in (StringIO(), Terminal()):
        with CheckProgress(out, expected=10, clock=clock) as progress:
            clock.now += 0.9
            progress.add(5)
        assert out.getvalue() == ""


def test_elsewhere_a_plain_line_comes_every_ten_seconds() -> None:
    clock = Clock()
    out = StringIO()
    with CheckProgress(out, expected=None, clock=clock) as progress:
        for _ in range(25):
            clock.now += 1
            progress.add(1000)
    assert out.getvalue() == "10,000 turns read, 10 s\n20,000 turns read, 20 s\n"


def test_where_the_total_is_known_it_is_said() -> None:
    clock = Clock()
    out = StringIO()
    with CheckProgress(out, expected=30_000, clock=clock) as progress:
        clock.now += 11
        progress.add(1000)
    assert out.getvalue() == "1,000 of 30,000 turns read, 11 s\n"


@pytest.mark.parametrize("expected", [None, 4000])
def test_on_a_terminal_a_bar_counts_and_is_taken_away_again(expected: int | None) -> None:
    clock = Clock()
    out = Terminal()
    with CheckProgress(out, expected=expected, clock=clock) as progress:
        clock.now += 2
        progress.add(1000)
        progress.add(1000)
    drawn = out.getvalue()
    assert ("2,000 of 4,000 turns read" if expected else "2,000 turns read") in drawn
    assert "\x1b[2K" in drawn, "the line is erased"
    assert not drawn.endswith("\n")
