"""`Y`: what can be copied here, with a preview."""

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from collector.terminal_text import terminal_safe

PREVIEW_LINES, PREVIEW_LETTERS = 8, 2000


class CopyMenu(ModalScreen[str | None]):
    """Gives the text that was chosen."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,Y", "dismiss(None)", show=False, id="copy_menu.close")]
    DEFAULT_CSS = """
    CopyMenu { align: center middle; background: ansi_default; }
    CopyMenu > Vertical { width: 90%; height: auto; max-height: 100%; border: solid ansi_bright_black; }
    CopyMenu OptionList, CopyMenu OptionList:focus { height: auto; max-height: 10; border: none; padding: 0; }
    CopyMenu #preview { height: auto; max-height: 10; border-top: solid ansi_bright_black; }
    """

    def __init__(self, choices: Sequence[tuple[str, str]]) -> None:
        super().__init__()
        self._choices = list(choices)

    def compose(self) -> ComposeResult:
        """Names, and below the text of the one under the cursor."""
        with Vertical():
            yield Static(" copy what? Enter copies, Esc leaves", markup=False)
            names = (terminal_safe(f"{name}  ({len(text):,} characters)") for name, text in self._choices)
            yield OptionList(*(Option(name, id=str(index)) for index, name in enumerate(names)), markup=False)
            yield Static("", id="preview", markup=False)

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        """Shows how it begins."""
        text = self._choices[int(event.option_id or 0)][1]
        lines = terminal_safe(text[:PREVIEW_LETTERS], keep="\n").split("\n")[:PREVIEW_LINES]
        self.query_one("#preview", Static).update("\n".join(lines))

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Gives it."""
        self.dismiss(self._choices[int(event.option_id or 0)][1])
