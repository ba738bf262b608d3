"""A text over the screen, to be read and left with Esc."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from collector.terminal_text import terminal_safe


class TextScreen(ModalScreen[None]):
    """A heading and lines."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,enter", "dismiss(None)", show=False, id="text.close")]
    DEFAULT_CSS = """
    TextScreen { align: center middle; background: ansi_default; }
    TextScreen > VerticalScroll { width: 90%; height: auto; max-height: 90%; border: solid ansi_bright_black; }
    """

    def __init__(self, heading: str, text: str) -> None:
        super().__init__()
        self._heading = heading
        self._text = text

    def compose(self) -> ComposeResult:
        """The text, made safe."""
        with VerticalScroll():
            yield Static(f" {self._heading} (Esc leaves)", markup=False)
            yield Static(terminal_safe(self._text, keep="\n"), markup=False)
