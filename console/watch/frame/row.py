"""One row of text in parts, cut to its width: what the head, the tabs, crumbs and hints are made of."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip
from textual.widget import Widget

from collector.terminal_text import terminal_safe

ELLIPSIS = "…"
"""One cell wide, so that `--ascii` has one letter for it."""
_EMPTY = " ─-"


class Part(NamedTuple):
    """A piece of a row."""

    text: str
    style: Style = Style()
    right: bool = False
    """Whether it stands at the right end."""


class Row(Widget):
    """A row that draws its parts; what does not fit is cut at the right and says so, the right end last."""

    DEFAULT_CSS = "Row { height: 1; width: 1fr; }"

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._parts: tuple[Part, ...] = ()

    def set(self, parts: Sequence[Part]) -> None:
        """Draws other parts, if they are other ones."""
        if tuple(parts) != self._parts:
            self._parts = tuple(parts)
            self.refresh()

    def render_line(self, y: int) -> Strip:
        """The row."""
        return row_strip(self._parts, self.size.width) if y == 0 else Strip.blank(self.size.width, Style())


def row_strip(parts: Sequence[Part], width: int) -> Strip:
    """The parts as one strip of exactly this width."""
    right = [part for part in parts if part.right]
    kept = sum(cell_len(terminal_safe(part.text)) for part in right)
    segments = [*_cut([part for part in parts if not part.right], max(width - kept, 0)), *_cut(right, width)]
    return Strip(segments).adjust_cell_length(width, Style())


def shortened(text: str, width: int) -> str:
    """The text in so many cells at most; where it said more than blanks and rules, `…` stands at its end."""
    if cell_len(text) <= width:
        return text
    kept = set_cell_size(text, width)
    if width < 1 or not text[len(kept.rstrip()) :].strip(_EMPTY):
        return kept
    return set_cell_size(text, width - 1) + ELLIPSIS


def _cut(parts: Sequence[Part], width: int) -> list[Segment]:
    """The parts as segments; left ones are filled up to the width."""
    made: list[Segment] = []
    texts = [terminal_safe(part.text) for part in parts]
    for part, text in zip(parts, _shares(texts, width), strict=False):
        if text:
            made.append(Segment(text, part.style))
    left = width - sum(cell_len(segment.text) for segment in made)
    if parts and not parts[0].right and left > 0:
        made.append(Segment(" " * left, Style()))
    return made


def _shares(texts: Sequence[str], width: int) -> Iterator[str]:
    """What of each text is in the shortened whole."""
    whole = shortened("".join(texts), width)
    for text in texts:
        if len(whole) < len(text):
            yield whole
            return
        own, whole = (text, whole[len(text) :]) if whole.startswith(text) else (whole, "")
        yield own
