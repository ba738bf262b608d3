"""What stands on the screen, as text: the compositor's strips joined, one line a row."""

from textual.app import App
from textual.strip import Strip


def strips(app: App[object]) -> list[Strip]:
    """The rows of the screen in front, with their styles."""
    return app.screen._compositor.render_strips()  # pyright: ignore[reportPrivateUsage]


def screen_text(app: App[object]) -> str:
    """The screen in front as text, one line a row, without trailing spaces."""
    return "\n".join("".join(segment.text for segment in strip).rstrip() for strip in strips(app))
