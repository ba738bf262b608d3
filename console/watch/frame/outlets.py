"""What leaves the console: the view as a file, and the mouse."""

from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

from textual.app import App

from collector.errors import UserError
from console.watch.frame.export import as_csv, as_json, without_remote_fonts, write_new
from console.watch.topic import View

if TYPE_CHECKING:
    from console.watch.frame.watch_screen import WatchScreen

MOUSE_ON = "\x1b[?1000h\x1b[?1003h\x1b[?1015h\x1b[?1006h"
MOUSE_OFF = "\x1b[?1000l\x1b[?1003l\x1b[?1015l\x1b[?1006l"
"""What Textual's driver writes to take the mouse, and to let it go."""


def write_view(app: App[int], screen: "WatchScreen", form: str, path: Path) -> str:
    """Writes what a screen shows, or sends it to the browser that shows it; gives what is to be said of it."""
    if screen.view is None:
        raise UserError("nothing is shown yet")
    if form == "svg":
        return _out(app, without_remote_fonts(app.export_screenshot(title=f"roundhouse {screen.TOPIC}")), path)
    if form == "csv":
        return _out(app, as_csv(screen.exported(screen.view)), path)
    return write_json(app, screen.view, path)


def write_json(app: App[int], view: View, path: Path) -> str:
    """The same for a view in json."""
    return _out(app, as_json(view), path)


def _out(app: App[int], text: str, path: Path) -> str:
    if app.is_web:
        app.deliver_text(StringIO(text), save_filename=path.name)
        return f"{path.name} is sent to the browser"
    return f"written: {write_new(text, path)}"
