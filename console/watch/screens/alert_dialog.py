"""Asks for what an act on an alert needs: an end and a reason, or a comment."""

from collections.abc import Callable
from datetime import datetime
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from collector.errors import UserError
from collector.terminal_text import terminal_safe

Filled = Callable[[str, str], None]
"""Takes the end and the words; raises UserError where they will not do."""


class AlertDialog(ModalScreen[bool]):
    """One or two lines to fill in. What is refused is said in it, and it stays open."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "cancel", "back", id="dialog.cancel")]
    AUTO_FOCUS = "#words"
    DEFAULT_CSS = """
    AlertDialog { align: center middle; }
    AlertDialog > Vertical { width: 72; max-width: 100%; height: auto; border: solid ansi_bright_black; padding: 0 1; }
    AlertDialog Static { height: auto; }
    """

    def __init__(self, title: str, effect: str, words: str, then: Filled, *, end: str | None = None) -> None:
        """`end` is the end of a silence to begin with; None asks for none. `words` is what the text is called."""
        super().__init__()
        self._title = terminal_safe(title)
        self._effect = effect
        self._words = words
        self._then = then
        self._end = end

    def compose(self) -> ComposeResult:
        """What it does, its lines, and what is wrong with them."""
        with Vertical():
            yield Static(self._title, markup=False)
            yield Static(self._effect, markup=False)
            if self._end is not None:
                yield Static("ends (1h, 4h, 30m, 2d, 13:00, 2026-11-30T08:00)", markup=False)
                yield Input(self._end, id="end", compact=True)
            yield Static(self._words, markup=False)
            yield Input(id="words", compact=True)
            yield Static("Enter writes it, Esc writes nothing", id="wrong", markup=False)

    def on_key(self, event: events.Key) -> None:
        """A letter that was typed before the line was there belongs to it."""
        if event.is_printable and event.character and isinstance(self.focused, Input):
            event.stop()
            self.focused.insert_text_at_cursor(event.character)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """From the end to the words; from the words it is done."""
        event.stop()
        if event.input.id == "end":
            self.query_one("#words", Input).focus()
            return
        end = self.query_one("#end", Input).value if self._end is not None else ""
        try:
            self._then(end, self.query_one("#words", Input).value)
        except UserError as error:
            self.query_one("#wrong", Static).update(terminal_safe(str(error)))
            return
        self.dismiss(True)

    def action_cancel(self) -> None:
        """Writes nothing."""
        self.dismiss(False)


def said_end(end: datetime) -> str:
    """When a silence ends."""
    return f"{end:%Y-%m-%d %H:%MZ}"
