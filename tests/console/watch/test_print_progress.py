"""What stands on standard error while a long log is read for `--plain` and `--json`."""

from io import StringIO

from console.watch.log_part import LogPart
from console.watch.print_progress import PrintProgress


class Terminal(StringIO):
    """Says that it is one."""

    def isatty(self) -> bool:
        return True


def seen(out: StringIO, *shares: float, every_s: float = 6.0) -> str:
    """What is written while so much is read, looked at every few seconds."""
    now = [0.0]
    with PrintProgress(out, clock=lambda: now[0]) as progress:
        for share in shares:
            now[0] += every_s
            progress.seen(LogPart(turns=3, share=share))
        progress.seen(None)
    return out.getvalue()


def test_a_terminal_has_the_newest_share_and_nothing_of_it_at_the_end():
    written = seen(Terminal(), 0.5, 0.504, 0.75)
    assert written == "\rreading 50 %\rreading 75 %\r            \r"


def test_elsewhere_there_is_a_line_after_ten_seconds_and_none_before():
    assert seen(StringIO(), 0.1, 0.2, 0.3, 0.4, 0.5) == "reading 20 %\nreading 40 %\n"
    assert seen(StringIO(), 0.1) == ""
    assert seen(Terminal()) == ""
