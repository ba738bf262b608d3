"""Where a screen of the drill-down stands: what the screen below says already is not said again."""

from itertools import takewhile

from collector.terminal_text import terminal_safe
from console.watch.frame.watch_screen import WatchScreen
from console.watch.views.trajectory_words import tail_of

NAME_CHARS = 12
"""Of a session's id."""


def crumb_of(screen: WatchScreen, session_id: str, turn: int, own: str) -> str:
    """Session, turn and its own word; without the session where the list of its turns lies below."""
    below = takewhile(lambda each: each is not screen, screen.app.screen_stack)
    known = any(getattr(each, "TOPIC", None) in ("turn", "token") for each in below)
    return f"turn {turn} {own}" if known else f"{tail_of(terminal_safe(session_id), NAME_CHARS)} › turn {turn} › {own}"
