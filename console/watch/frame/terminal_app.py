"""What the console is to its terminal: driver, colours, letters, the mouse, the clipboard, signals."""

import asyncio
import signal
from collections.abc import Sequence

from textual.driver import Driver
from textual.filter import LineFilter

from console.watch.frame.clipboard import copy_text
from console.watch.frame.key_order import KeyOrder
from console.watch.frame.line_filters import AsciiOnly, ColourOff, Dimmed, Printable, console_for
from console.watch.frame.outlets import MOUSE_OFF, MOUSE_ON
from console.watch.widgets.palette import Palette


class TerminalApp(KeyOrder):
    """An application that writes nothing to its terminal that this cannot or should not show."""

    def __init__(self, palette: Palette, *, mouse: bool) -> None:
        super().__init__()
        self.palette = Palette("none", ascii=palette.ascii) if self.no_color else palette
        self.console = console_for(self.palette.color)
        self.theme = "ansi-dark"
        self.mouse = mouse
        """Whether the console has the mouse; else the terminal."""
        self._printable, self._ascii = Printable(), AsciiOnly()
        self._dimmed, self._colour_off = Dimmed(), ColourOff()

    @property
    def shows_old(self) -> bool:
        """Whether what is shown may not be so any more."""
        return False

    def get_driver_class(self) -> type[Driver]:
        """One that sleeps while no key comes, where Textual has it for this terminal."""
        found = super().get_driver_class()
        if found.__module__ != "textual.drivers.linux_driver":
            return found
        from console.watch.frame.quiet_driver import QuietDriver

        return QuietDriver

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Old values are dim; without colours, none are written."""
        filters: list[LineFilter] = [self._printable, *super().get_line_filters()]
        if self.palette.color == "none":
            filters = [self._printable, self._colour_off]
        if self.palette.ascii:
            filters.append(self._ascii)
        if self.shows_old:
            filters.append(self._dimmed)
        return filters

    def on_mount(self) -> None:
        """A signal ends it as a key does."""
        self.app_resume_signal.subscribe(self, self._resumed)
        if not self.is_headless:
            for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                asyncio.get_running_loop().add_signal_handler(number, self.exit, 128 + number)

    def copied(self, text: str) -> str:
        """Copies a text; what is to be said of it."""
        copied = copy_text(text, keep=not self.is_web)
        if copied.sequence is not None and self._driver is not None:
            self._driver.write(copied.sequence)
        return copied.said

    def set_mouse(self, console: bool) -> None:
        """Gives the mouse to the console or to the terminal."""
        self.mouse = console
        if self._driver is not None:
            self._driver.write(MOUSE_ON if console else MOUSE_OFF)
            self._driver.flush()

    def action_repaint(self) -> None:
        """Draws everything again."""
        self.refresh(repaint=True, layout=True)

    def _resumed(self, _app: object) -> None:
        """After `fg`, the mouse belongs again to whom it was given."""
        self.set_mouse(self.mouse)
