"""The demo's live line: short enough for a narrow terminal, its clock whole, and the end announced."""

import io
import sys

import pytest
from rich.cells import cell_len

from console.demo.screen import LIVE_CELLS, Screen


class Terminal(io.StringIO):
    """Standard output that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def drawn(screen: Screen) -> str:
    return screen._line().plain  # pyright: ignore[reportPrivateUsage]


def test_the_clock_comes_first_and_a_long_text_is_cut_to_the_narrow_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", Terminal())
    screen = Screen(plain=False, turns=80)
    screen.say("x" * 100)
    assert drawn(screen).startswith("0:00  xxxx")
    assert cell_len(drawn(screen)) == LIVE_CELLS == 58
    screen.count(79, right=79, sessions=25)
    assert drawn(screen) == "0:00  79 of 80 turns, 79 as asked, 25 sessions done"


def test_nothing_drawn_is_wider_than_sixty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERM", "xterm")
    with Screen(plain=False, turns=80) as screen:
        screen.say("agents at work through http://127.0.0.1:40001 " + "x" * 100)
        screen.stopping()
    lines = terminal.getvalue().replace("\x1b", "\n\x1b").replace("\r", "\n").splitlines()
    assert any("stopping: replies under way" in line for line in lines)
    assert max(map(len, lines)) <= 60


def test_after_stopping_no_count_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen(plain=True, turns=80)
    screen.count(10, right=4, sessions=1)
    screen.stopping()
    screen.count(20, right=4, sessions=1)
    assert capsys.readouterr().out == (
        "10 turns, 4 did what was asked, 1 sessions done\nstopping: replies under way are recorded first\n"
    )
