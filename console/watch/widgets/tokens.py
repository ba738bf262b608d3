"""A strip of tokens as wrapped text: shaded, with brackets round the one of the cursor."""

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from console.watch.frame.keys import bound
from console.watch.widgets.palette import Palette


class Token(NamedTuple):
    """One token to draw."""

    text: str
    """What is shown of it, safe for a terminal, in one line."""
    heat: int = 0
    """Its shade, as `Palette.heat` takes it."""
    masked: bool = False
    """Not generated, or left out of the loss."""
    clipped: bool = False
    """Its ratio is cut in the loss."""
    breaks: bool = False
    """Whether a line ends after it."""


class _Piece(NamedTuple):
    """A part of a token on one line."""

    token: int
    text: str


class TokenStrip(ScrollView, can_focus=True):
    """Only the lines in sight are drawn; wrapping is done once for a width."""

    BINDINGS: ClassVar[list[BindingType]] = [
        bound("move.right", "move(1)"),
        bound("move.left", "move(-1)"),
        bound("move.down", "line(1)"),
        bound("move.up", "line(-1)"),
        bound("move.first", "first"),
        bound("move.last", "last"),
    ]
    DEFAULT_CSS = "TokenStrip { height: 1fr; overflow-x: hidden; }"

    class CursorMoved(Message):
        """The cursor stands on another token."""

        def __init__(self, strip: "TokenStrip", token: int) -> None:
            super().__init__()
            self.strip = strip
            self.token = token

        @property
        def control(self) -> "TokenStrip":
            """The strip."""
            return self.strip

    def __init__(self, palette: Palette, *, id: str | None = None) -> None:
        super().__init__(id=id)
        if palette.ascii:
            # The bar is drawn in blocks.
            self.styles.scrollbar_size_vertical = 0
        self._palette = palette
        self._tokens: tuple[Token, ...] = ()
        self._lines: list[list[_Piece]] = []
        self._line_of: list[int] = []
        self._width = 0
        self._cursor = 0

    @property
    def cursor(self) -> int:
        """The token of the cursor."""
        return self._cursor

    def set(self, tokens: Sequence[Token]) -> None:
        """Other tokens."""
        if tuple(tokens) == self._tokens:
            return
        self._tokens = tuple(tokens)
        self._cursor = max(0, min(self._cursor, len(self._tokens) - 1))
        self._width = 0
        self._wrap()
        self.refresh()

    def move_to(self, token: int) -> None:
        """Puts the cursor on a token and brings it into sight."""
        token = max(0, min(token, len(self._tokens) - 1))
        moved = token != self._cursor
        self._cursor = token
        self._wrap()
        if self._line_of and self.size.height:
            line, top = self._line_of[token], self.scroll_offset.y
            wanted = min(max(top, line - self.size.height + 1), line)
            if wanted != top:
                self.scroll_to(y=wanted, animate=False, immediate=True, force=True)
        self.refresh()
        if moved:
            self.post_message(self.CursorMoved(self, token))

    def action_move(self, by: int) -> None:
        """Moves by tokens."""
        self.move_to(self._cursor + by)

    def action_line(self, by: int) -> None:
        """Moves to the token nearest on another line."""
        if not self._line_of:
            return
        at = self._line_of[self._cursor]
        line = max(0, min(at + by, len(self._lines) - 1))
        if line == at:
            return
        column = _column(self._lines[at], self._cursor)
        self.move_to(_nearest(self._lines[line], column))

    def action_first(self) -> None:
        """To the first token."""
        self.move_to(0)

    def action_last(self) -> None:
        """To the last token."""
        self.move_to(len(self._tokens) - 1)

    def on_click(self, event: events.Click) -> None:
        """Puts the cursor on the token clicked."""
        line = event.y + self.scroll_offset.y
        if 0 <= line < len(self._lines) and self._lines[line]:
            self.move_to(_nearest(self._lines[line], event.x))

    def on_resize(self, _: events.Resize) -> None:
        """Wraps anew."""
        self._wrap()

    def render_line(self, y: int) -> Strip:
        """One wrapped line."""
        width = self.size.width
        self._wrap()
        index = y + self.scroll_offset.y
        if not 0 <= index < len(self._lines):
            return Strip.blank(width, Style())
        segments: list[Segment] = []
        for piece in self._lines[index]:
            segments += self._drawn(piece)
        return Strip(segments).adjust_cell_length(width, Style())

    def _drawn(self, piece: _Piece) -> list[Segment]:
        token = self._tokens[piece.token]
        style = self._palette.heat(token.heat)
        if token.masked:
            style += self._palette.dim
        if token.clipped:
            style += self._palette.underline
        if piece.token == self._cursor:
            return [Segment(f"[{piece.text}]", style + self._palette.bold)]
        return [Segment(piece.text, style)]

    def _wrap(self) -> None:
        """Breaks the tokens into lines of the width; a line keeps two cells for the cursor's brackets."""
        width = max(4, self.size.width - 2) if self.size.width else 0
        if width == self._width or not width:
            return
        self._width = width
        self._lines, self._line_of = wrapped(self._tokens, width, self._palette.mark("masked"))
        self.virtual_size = Size(0, len(self._lines))


def wrapped(tokens: Sequence[Token], width: int, masked: str) -> tuple[list[list[_Piece]], list[int]]:
    """The lines, and of each token the line it begins on. The first of a run of masked tokens has the mark before."""
    lines: list[list[_Piece]] = [[]]
    line_of: list[int] = []
    used = 0
    before = False
    for index, token in enumerate(tokens):
        text = masked + token.text if token.masked and not before else token.text
        before = token.masked
        length = cell_len(text)
        if used and used + length > width:
            lines.append([])
            used = 0
        line_of.append(len(lines) - 1)
        while length > width:
            head, text = _cut(text, width)
            lines[-1].append(_Piece(index, head))
            lines.append([])
            length = cell_len(text)
        lines[-1].append(_Piece(index, text))
        used += length
        if token.breaks:
            lines.append([])
            used = 0
    if not lines[-1]:
        lines.pop()
    return lines, line_of


def _cut(text: str, width: int) -> tuple[str, str]:
    """The text up to a width in cells, and the rest."""
    used = 0
    for index, letter in enumerate(text):
        used += cell_len(letter)
        if used > width:
            return text[: max(1, index)], text[max(1, index) :]
    return text, ""


def _column(line: Sequence[_Piece], token: int) -> int:
    at = 0
    for piece in line:
        if piece.token == token:
            return at
        at += cell_len(piece.text)
    return at


def _nearest(line: Sequence[_Piece], column: int) -> int:
    """The token at a column of a line, or its last."""
    at = 0
    for piece in line:
        at += cell_len(piece.text)
        if column < at:
            return piece.token
    return line[-1].token
