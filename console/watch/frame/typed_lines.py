"""The lines that are typed on a screen: commands behind `:`, filters behind `/`."""

from typing import ClassVar, cast

from textual.screen import Screen
from textual.widget import Widget

from console.watch.frame.commands import completed
from console.watch.frame.filter import Fields, FilterError, read_filter
from console.watch.frame.frame_app import FrameApp
from console.watch.frame.typing_row import TypingRow
from console.watch.widgets.palette import Palette


class TypedLines(Screen[None]):
    """A screen with one `TypingRow`. Owners draw `remark` and take what was typed."""

    FIELDS: ClassVar[Fields | None] = None
    """What can be filtered by; None where nothing can."""

    def __init__(self) -> None:
        super().__init__()
        self.filter_text = ""
        self.remark = ""
        """What is said above the line; of a mistake, where it is."""
        self._before_typing: Widget | None = None

    @property
    def frame(self) -> FrameApp:
        """The application."""
        return cast(FrameApp, self.app)

    @property
    def palette(self) -> Palette:
        """Glyphs and styles of this terminal."""
        return self.frame.palette

    def filtered(self, text: str) -> None:
        """Takes a filter that was typed and is right by the grammar."""
        raise NotImplementedError

    def redraw_frame(self) -> None:
        """Draws the rows around the body again."""
        raise NotImplementedError

    def typing_row(self) -> TypingRow:
        """For `compose`."""
        return TypingRow(self._completed, id="typing")

    def action_command(self, text: str = "") -> None:
        """Begins a command line."""
        self._type(":", text)

    def action_filter(self) -> None:
        """Begins a filter, with the one that holds."""
        self._type("/", self.filter_text)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """What begins a line or a dialog goes before the focus, so that the letters right behind it belong to that;
        while a line is typed they are letters as others are."""
        if action in ("command", "guarded", "help") and any(row.is_open for row in self.query(TypingRow)):
            return False
        return super().check_action(action, parameters)

    def on_typing_row_entered(self, event: TypingRow.Entered) -> None:
        """A command or a filter was given: done, or said what is wrong while it stays to be mended."""
        event.stop()
        try:
            if event.prefix == "/" and self.FIELDS is not None:
                read_filter(event.text, self.FIELDS)
                self._end_typing()
                self.filtered(event.text.strip())
            else:
                self._end_typing()
                self.frame.obey(event.text)
        except FilterError as error:
            self._point(error)

    def on_typing_row_changed(self, event: TypingRow.Changed) -> None:
        """A filter is tried while it is typed."""
        event.stop()
        self.remark = ""
        if event.prefix == "/" and self.FIELDS is not None:
            try:
                read_filter(event.text, self.FIELDS)
            except FilterError as error:
                self._point(error)
                return
        self.redraw_frame()

    def on_typing_row_left(self, event: TypingRow.Left) -> None:
        """Nothing was given."""
        event.stop()
        self.remark = ""
        self._end_typing()

    def _type(self, prefix: str, text: str) -> None:
        self._before_typing = self.focused
        self.add_class("-typing")
        self.query_one(TypingRow).open(prefix, text)

    def _end_typing(self) -> None:
        self.query_one(TypingRow).close()
        self.remove_class("-typing")
        self.set_focus(self._before_typing)
        self.redraw_frame()

    def _point(self, error: FilterError) -> None:
        """Shows the error above the column where it is; the line begins in column 2."""
        mark, text = self.palette.mark("down"), str(error)
        at = error.column + 2
        left = at + 2 + len(text) > self.size.width and len(text) < at - 1
        self.remark = f"{text} {mark}".rjust(at) if left else f"{' ' * (at - 1)}{mark} {text}"
        self.redraw_frame()

    def _completed(self, prefix: str, line: str) -> str | None:
        if prefix == ":":
            return completed(line)
        word = line.rpartition(" ")[2].lstrip("!")
        fits = [name for name in self.FIELDS or {} if name.startswith(word)] if word else []
        return f"{line[: len(line) - len(word)]}{fits[0]}:" if fits else None
