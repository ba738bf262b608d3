"""What is done to every line before it reaches the terminal: no control characters, no colours, or all dim."""

from functools import lru_cache
from io import StringIO

from rich.cells import cell_len
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual.color import Color as TextualColor
from textual.filter import LineFilter

from console.watch.widgets.palette import Color

SYSTEMS = {"truecolor": "truecolor", "256": "256", "16": "standard", "none": "truecolor"}
"""A palette's colours to the name rich has for them; without colours its styles are still written."""


class ColourOff(LineFilter):
    """No colours at all: Textual's own filter for NO_COLOR may leave greys, and stumbles over a missing style."""

    def apply(self, segments: list[Segment], background: TextualColor) -> list[Segment]:  # noqa: ARG002
        """The segments without colours."""
        return [Segment(text, _colourless(style or Style()), control) for text, style, control in segments]


class Printable(LineFilter):
    """No control characters, whatever a widget forgot to escape: models write what is shown."""

    def apply(self, segments: list[Segment], background: TextualColor) -> list[Segment]:  # noqa: ARG002
        """The segments without them, as wide as before."""
        if all(text.isprintable() for text, _, _ in segments):
            return segments
        return [Segment(_printable(text), style, control) for text, style, control in segments]


class AsciiOnly(LineFilter):
    """Nothing but ASCII: lines of boxes and scroll bars as `-`, `|` and `#`, any other letter as `?`."""

    def apply(self, segments: list[Segment], background: TextualColor) -> list[Segment]:  # noqa: ARG002
        """The segments in ASCII, as wide as before."""
        if all(text.isascii() for text, _, _ in segments):
            return segments
        return [Segment(_in_ascii(text), style, control) for text, style, control in segments]


class Dimmed(LineFilter):
    """Everything dim, for values that are old."""

    def apply(self, segments: list[Segment], background: TextualColor) -> list[Segment]:  # noqa: ARG002
        """The segments, dim."""
        return [Segment(text, _dim(style or Style()), control) for text, style, control in segments]


def console_for(color: Color) -> Console:
    """The rich console that a driver's output is made by; as Textual makes its own, with the colours asked for."""
    return Console(
        color_system=SYSTEMS[color],  # pyright: ignore[reportArgumentType]
        file=StringIO(),
        markup=False,
        highlight=False,
        emoji=False,
        legacy_windows=False,
        _environ={},
        force_terminal=True,
        safe_box=False,
        soft_wrap=False,
    )


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else " " * cell_len(letter) for letter in text)


_DRAWN = {
    **dict.fromkeys("─━┄┅╌╍═▁▔", "-"),
    **dict.fromkeys("│┃┆┇╎╏║▎▏▕", "|"),
    **dict.fromkeys("┌┐└┘├┤┬┴┼╭╮╯╰", "+"),
    **dict.fromkeys("▂▃▄▅▆▇█▉▊▋▌▍▐▀", "#"),
    "…": ">",
}


def _in_ascii(text: str) -> str:
    return "".join(letter if letter.isascii() else _DRAWN.get(letter, "?" * cell_len(letter)) for letter in text)


@lru_cache(4096)
def _colourless(style: Style) -> Style:
    return style.without_color


@lru_cache(4096)
def _dim(style: Style) -> Style:
    return style + Style(dim=True)
