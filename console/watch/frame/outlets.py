"""What leaves the console: the view as a file, and the mouse."""

from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

from textual.app import App

from collector.errors import UserError
from console.watch.frame.export import as_csv, as_json, write_new

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
        text = app.export_screenshot(title=f"roundhouse {screen.TOPIC}")
    else:
        text = as_json(screen.view) if form == "json" else as_csv(screen.exported(screen.view))
    if app.is_web:
        app.deliver_text(StringIO(text), save_filename=path.name)
        return f"{path.name} is sent to the browser"
    return f"written: {write_new(text, path)}"
