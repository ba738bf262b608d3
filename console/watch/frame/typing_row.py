"""The row where a command or a filter is typed."""

from collections.abc import Callable
from typing import ClassVar

from rich.style import Style
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.message import Message
from textual.widgets import Input

from console.watch.frame.row import Part, Row


class TypingRow(Horizontal):
    """Takes a line after `:` or `/`; Enter gives it, Esc leaves, Tab completes, the arrows go through earlier ones."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", show=False, id="typing.leave"),
        Binding("tab", "complete", show=False, id="typing.complete"),
        Binding("up", "earlier(-1)", show=False, id="typing.earlier"),
        Binding("down", "earlier(1)", show=False, id="typing.later"),
    ]
    DEFAULT_CSS = """
    TypingRow { height: 1; display: none; }
    TypingRow.-open { display: block; }
    TypingRow Row { width: 2; }
    TypingRow Input, TypingRow Input:focus {
        height: 1; border: none; padding: 0; width: 1fr;
        background: ansi_default; color: ansi_default; background-tint: ansi_default 0%;
    }
    """

    class Entered(Message):
        """A line was given."""

        def __init__(self, prefix: str, text: str) -> None:
            super().__init__()
            self.prefix = prefix
            self.text = text

    class Changed(Message):
        """A line is being typed."""

        def __init__(self, prefix: str, text: str) -> None:
            super().__init__()
            self.prefix = prefix
            self.text = text

    class Left(Message):
        """Nothing was given."""

    def __init__(self, complete: Callable[[str, str], str | None], *, id: str) -> None:
        """`complete` is given the prefix and the line, and gives a longer line or None."""
        super().__init__(id=id)
        self._complete = complete
        self._prefix = ":"
        self._given: dict[str, list[str]] = {}
        self._place = 0

    @property
    def is_open(self) -> bool:
        """Whether something is being typed."""
        return self.has_class("-open")

    def compose(self) -> ComposeResult:
        """The prefix, and the line."""
        yield Row(id="prefix")
        yield Input(id="line", compact=True, select_on_focus=False)

    def open(self, prefix: str, text: str = "") -> None:
        """Begins a line."""
        self._prefix = prefix
        self._place = len(self._given.get(prefix, ()))
        self.query_one("#prefix", Row).set([Part(f" {prefix}", Style(bold=True))])
        self.add_class("-open")
        line = self.query_one(Input)
        line.value = text
        line.cursor_position = len(text)
        # At once, not when the loop comes to it: what is typed right behind the prefix belongs to the line.
        self.screen.set_focus(line)

    def close(self) -> None:
        """Ends it."""
        self.remove_class("-open")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """The line is given."""
        event.stop()
        if event.value.strip():
            kept = self._given.setdefault(self._prefix, [])
            kept[:] = [*(line for line in kept if line != event.value), event.value][-100:]
        self.post_message(self.Entered(self._prefix, event.value))

    def on_input_changed(self, event: Input.Changed) -> None:
        """The line is another."""
        event.stop()
        if self.is_open:
            self.post_message(self.Changed(self._prefix, event.value))

    def action_leave(self) -> None:
        """Gives nothing."""
        self.post_message(self.Left())

    def action_complete(self) -> None:
        """Completes what is typed."""
        self._put(self._complete(self._prefix, self.query_one(Input).value))

    def action_earlier(self, by: int) -> None:
        """An earlier or a later line."""
        kept = self._given.get(self._prefix, [])
        self._place = max(0, min(self._place + by, len(kept)))
        self._put(kept[self._place] if self._place < len(kept) else "")

    def _put(self, text: str | None) -> None:
        if text is not None:
            line = self.query_one(Input)
            line.value = text
            line.cursor_position = len(text)
