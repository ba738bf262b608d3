"""`?`: the keys of the focused pane, and of the screen and the console around it; Enter runs one."""

from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.dom import DOMNode
from textual.screen import ModalScreen, Screen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from console.watch.frame.keys import BY_ID, key_text


class KeyRow(NamedTuple):
    """One key that does something here."""

    letters: str
    help: str
    off: str | None
    """Why it does nothing now."""
    action: str
    node: DOMNode
    where: str


class HelpScreen(ModalScreen[KeyRow | None]):
    """The keys, nearest first."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark", "dismiss(None)", show=False, id="help.close"),
        Binding("j", "move(1)", show=False, id="help.down"),
        Binding("k", "move(-1)", show=False, id="help.up"),
    ]
    DEFAULT_CSS = """
    HelpScreen { align: center middle; background: ansi_default; }
    HelpScreen > Vertical { width: 76; max-width: 100%; height: auto; max-height: 100%; }
    HelpScreen > Vertical { border: solid ansi_bright_black; }
    HelpScreen OptionList, HelpScreen OptionList:focus { height: auto; max-height: 100%; border: none; padding: 0; }
    HelpScreen Static { height: 1; }
    """

    def __init__(self, rows: Sequence[KeyRow], remark: str) -> None:
        super().__init__()
        self._rows = list(rows)
        self._remark = remark

    def compose(self) -> ComposeResult:
        """A list of keys."""
        with Vertical():
            yield Static(" keys of this pane first; Enter runs one, Esc leaves", markup=False)
            yield OptionList(*self._options(), markup=False, id="keys")
            yield Static(self._remark, markup=False)

    def action_move(self, by: int) -> None:
        """Moves the cursor."""
        keys = self.query_one(OptionList)
        keys.action_cursor_down() if by > 0 else keys.action_cursor_up()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Runs it, once this list is gone."""
        event.stop()
        self.dismiss(self._rows[int(event.option_id or 0)])

    def _options(self) -> list[Option]:
        options: list[Option] = []
        where = ""
        for index, row in enumerate(self._rows):
            if row.where != where:
                where = row.where
                options.append(Option(Text(f"- {where}", style="bold"), disabled=True))
            off = f"(off: {row.off}) " if row.off else ""
            options.append(
                Option(Text(f"{row.letters:<12} {off}{row.help}", style="dim" if off else ""), id=str(index))
            )
        return options


def key_rows(screen: Screen[None], off: Callable[[str], str | None], *, ascii_only: bool) -> list[KeyRow]:
    """Every key that is bound where the focus stands: of the pane, then of the screen, then of the console."""
    found: dict[tuple[int, str], tuple[list[str], DOMNode, Binding]] = {}
    for key, active in screen.active_bindings.items():
        binding = active.binding
        if binding.id is not None and binding.id in BY_ID:
            letters, _, _ = found.setdefault((id(active.node), binding.id), ([], active.node, binding))
            letters.append(key_text(key, ascii_only=ascii_only))
    rows: list[KeyRow] = []
    for letters, node, binding in found.values():
        where = "this screen" if node is screen else "the console" if node is screen.app else "the focused pane"
        key = BY_ID[binding.id or ""]
        rows.append(KeyRow(" ".join(letters), key.help, off(key.id), binding.action, node, where))
    order = ("the focused pane", "this screen", "the console")
    return sorted(rows, key=lambda row: order.index(row.where))
