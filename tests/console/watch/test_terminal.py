"""The console in a real pseudo-terminal: the bytes of a copy, how it is left, and what never reaches the terminal."""

import base64
import os
import re
import signal
from pathlib import Path

import pytest

from tests.console.watch.terminal import WORDS, Terminal

MOUSE_TAKEN, MOUSE_GIVEN = b"\x1b[?1000h", b"\x1b[?1000l"
ALTERNATE, MAIN = b"\x1b[?1049h", b"\x1b[?1049l"
SHOWN = b"support-agent"


def left_clean(terminal: Terminal) -> None:
    """The terminal is as it was: its modes, the main screen, the cursor, the mouse, pasting."""
    assert terminal.modes_now == terminal.modes
    seen = bytes(terminal.seen)
    assert seen.rindex(MAIN) > seen.rindex(ALTERNATE)
    assert seen.rindex(b"\x1b[?25h") > seen.rindex(b"\x1b[?25l")
    assert seen.rindex(MOUSE_GIVEN) > seen.rindex(MOUSE_TAKEN)
    assert seen.rindex(b"\x1b[?2004l") > seen.rindex(b"\x1b[?2004h")


def written_after(terminal: Terminal) -> str:
    """What stands on the main screen after the console is left."""
    return re.sub(r"\x1b\[[0-9;?<>=]*[A-Za-z]|\r", "", bytes(terminal.seen).rpartition(MAIN)[2].decode()).strip()


@pytest.mark.parametrize("key", ["q", "\x03", ":q\r"])
def test_it_is_left_by_a_key_with_the_terminal_as_it_was(home: Path, key: str) -> None:
    with Terminal(WORDS, home) as terminal:
        terminal.until(SHOWN)
        terminal.press(key)
        assert terminal.ended() == 0
        left_clean(terminal)
        assert written_after(terminal) == ""


def test_resized_and_left_at_once_nothing_of_it_stays(home: Path) -> None:
    with Terminal(WORDS, home) as terminal:
        terminal.until(SHOWN)
        terminal.read(0.5)
        for size in ((60, 15), (40, 5), (120, 36)):
            terminal.resize(*size)
            terminal.read(0.3)
        terminal.resize(100, 30)
        terminal.press("q")
        assert terminal.ended() == 0
        left_clean(terminal)
        assert written_after(terminal) == ""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_ends_it_with_the_terminal_as_it_was(home: Path, number: int) -> None:
    with Terminal(WORDS, home) as terminal:
        terminal.until(SHOWN)
        os.kill(terminal.program.pid, number)
        assert terminal.ended() == 128 + number
        left_clean(terminal)


def test_it_ends_when_its_window_is_closed(home: Path) -> None:
    with Terminal(WORDS, home) as terminal:
        terminal.until(SHOWN)
        terminal.hang_up()
        assert terminal.program.wait(60) == 129


def test_a_screen_that_falls_over_says_so_after_the_terminal_is_itself_again(home: Path) -> None:
    with Terminal([*WORDS, "--broken"], home) as terminal:
        assert terminal.ended() == 1
        left_clean(terminal)
        said = " ".join(bytes(terminal.seen).partition(MAIN)[2].decode().split())
        assert "the console ended on the screen signals: ValueError: cannot show \\x1b]0;owned\\x07" in said
        assert "Traceback" in said
        assert b"\x1b]0;owned" not in terminal.seen


def test_a_copy_is_one_osc_52_sequence_with_the_text(home: Path) -> None:
    with Terminal(WORDS, home) as terminal:
        terminal.until(SHOWN)
        terminal.press("y")
        terminal.until(b"clip.txt")
        found = re.findall(rb"\x1b\]52;c;([A-Za-z0-9+/=]*)\x07", bytes(terminal.seen))
        assert [base64.b64decode(payload) for payload in found] == [b"stores"]
    assert (home / ".cache" / "roundhouse" / "clip.txt").read_text() == "stores"


def test_the_mouse_is_handed_to_the_terminal_and_taken_back(home: Path) -> None:
    with Terminal(WORDS, home) as terminal:
        terminal.until(SHOWN)
        assert MOUSE_TAKEN in terminal.seen
        terminal.seen.clear()
        terminal.press("M")
        terminal.until(b"MOUSE OFF")
        assert MOUSE_GIVEN in terminal.seen
        assert MOUSE_TAKEN not in terminal.seen
        terminal.seen.clear()
        terminal.press("M")
        terminal.until(MOUSE_TAKEN)


@pytest.mark.parametrize(("variables", "colours"), [({"NO_COLOR": "1"}, 0), ({}, 1)])
def test_no_color_leaves_no_colour_in_what_is_written(home: Path, variables: dict[str, str], colours: int) -> None:
    with Terminal(WORDS, home, **variables) as terminal:
        terminal.until(SHOWN)
        terminal.read(0.3)
        sequences = re.findall(rb"\x1b\[([0-9;]*)m", bytes(terminal.seen))
        painted = [one for one in sequences if re.search(rb"(?:^|;)(?:3[0-8]|4[0-8]|9[0-7]|10[0-7])(?:;|$)", one)]
        assert bool(painted) == bool(colours)


def test_control_characters_of_what_is_watched_do_not_reach_the_terminal(home: Path) -> None:
    hostile = "/st\x1b]0;owned\x07\x9b31m\u202e/退款e\u0301\u200b/\x1b[2J"
    with Terminal([*WORDS, hostile], home) as terminal:
        terminal.until("退款".encode())
        terminal.press("y?")
        terminal.read(0.5)
        for sequence in (b"\x1b]0;owned", b"\x1b[2J", "\u202e".encode(), "\x9b".encode(), "\u200b".encode()):
            assert sequence not in terminal.seen
        assert b"\\x1b[2J" in terminal.seen
