"""Rows of the screen as pixels."""

from collections.abc import Sequence

from PIL import Image, ImageDraw, ImageFont
from rich.cells import cell_len
from rich.color import Color
from rich.color_triplet import ColorTriplet
from rich.segment import Segment
from rich.style import Style
from rich.terminal_theme import TerminalTheme

CELL = (10, 20)
"""Width and height of a cell, pixels."""
MARGIN = 12
THEME = TerminalTheme(
    (18, 18, 22),
    (214, 214, 214),
    [(18, 18, 22), (213, 94, 0), (0, 158, 115), (230, 159, 0), (0, 114, 178), (204, 121, 167), (86, 180, 233),
     (214, 214, 214)],
    [(138, 138, 138), (213, 94, 0), (0, 158, 115), (230, 159, 0), (86, 180, 233), (204, 121, 167), (86, 180, 233),
     (255, 255, 255)],
)  # fmt: skip
"""What a terminal of one's own makes of its 16 colours."""
FONTS = ("DejaVuSansMono.ttf", "DejaVuSansMono-Bold.ttf")
_DOTS = ((0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (0, 3), (1, 3))
"""Column and row of each dot of a braille letter, by its bit."""
_RISING = "▁▂▃▄▅▆▇█"
_WIDENING = "▏▎▍▌▋▊▉█"
_LINES: dict[str, str] = {
    "─": "lr", "│": "ud", "┌": "rd", "┐": "ld", "└": "ru", "┘": "lu", "├": "udr", "┤": "udl", "┬": "lrd", "┴": "lru",
    "┼": "lrud", "╴": "l", "╵": "u", "╶": "r", "╷": "d",
}  # fmt: skip
"""Box letters to the sides of the cell that they reach."""


def drawn(rows: Sequence[Sequence[Segment]], columns: int) -> Image.Image:
    """A picture of the rows."""
    width, height = columns * CELL[0] + 2 * MARGIN, len(rows) * CELL[1] + 2 * MARGIN
    image = Image.new("RGB", (width, height), _rgb_of(THEME.background_color))
    draw = ImageDraw.Draw(image)
    fonts = [_font(name) for name in FONTS]
    for y, row in enumerate(rows):
        x = 0
        for segment in row:
            style = segment.style or Style()
            ink, paper = _colours(style)
            for letter in segment.text:
                cells = cell_len(letter)
                left, top = MARGIN + x * CELL[0], MARGIN + y * CELL[1]
                if paper is not None:
                    draw.rectangle((left, top, left + max(cells, 1) * CELL[0] - 1, top + CELL[1] - 1), fill=paper)
                _letter(draw, letter, (left, top), ink, fonts[bool(style.bold)])
                if style.underline:
                    draw.line((left, top + CELL[1] - 2, left + cells * CELL[0] - 1, top + CELL[1] - 2), fill=ink)
                x += cells
    return image


def _font(name: str) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    try:
        return ImageFont.truetype(name, 16)
    except OSError:
        return ImageFont.load_default(16)


def _colours(style: Style) -> tuple[tuple[int, int, int], tuple[int, int, int] | None]:
    """Of the letters and of what is behind them; None where that is the terminal's own."""
    ink = _rgb(style.color, foreground=True) or _rgb_of(THEME.foreground_color)
    paper = _rgb(style.bgcolor, foreground=False)
    if style.reverse:
        ink, paper = paper or _rgb_of(THEME.background_color), ink
    if style.dim:
        behind = paper or _rgb_of(THEME.background_color)
        red, green, blue = ((3 * one + 2 * other) // 5 for one, other in zip(ink, behind, strict=True))
        ink = (red, green, blue)
    return ink, paper


def _rgb(color: Color | None, *, foreground: bool) -> tuple[int, int, int] | None:
    if color is None or color.is_default:
        return None
    return _rgb_of(color.get_truecolor(THEME, foreground=foreground))


def _rgb_of(color: ColorTriplet) -> tuple[int, int, int]:
    return color.red, color.green, color.blue


def _letter(
    draw: ImageDraw.ImageDraw,
    letter: str,
    at: tuple[int, int],
    ink: tuple[int, int, int],
    font: ImageFont.FreeTypeFont | ImageFont.ImageFont,
) -> None:
    """One letter in its cell: braille, blocks and boxes as shapes, the rest from the font."""
    left, top = at
    width, height = CELL
    if "\u2800" <= letter <= "\u28ff":
        bits = ord(letter) - 0x2800
        for bit, (column, row) in enumerate(_DOTS):
            if bits >> bit & 1:
                x, y = left + 2 + column * 5, top + 2 + row * 5
                draw.ellipse((x, y, x + 2, y + 2), fill=ink)
    elif letter in _RISING:
        filled = height * (_RISING.index(letter) + 1) // len(_RISING)
        draw.rectangle((left, top + height - filled, left + width - 1, top + height - 1), fill=ink)
    elif letter in _WIDENING:
        filled = max(1, width * (_WIDENING.index(letter) + 1) // len(_WIDENING))
        draw.rectangle((left, top, left + filled - 1, top + height - 1), fill=ink)
    elif letter == "▐":
        draw.rectangle((left + width // 2, top, left + width - 1, top + height - 1), fill=ink)
    elif letter == "┃":
        draw.rectangle((left + width // 2 - 1, top, left + width // 2 + 1, top + height - 1), fill=ink)
    elif letter in _LINES:
        _box(draw, _LINES[letter], at, ink)
    elif letter.strip():
        draw.text((left, top), letter, fill=ink, font=font)


def _box(draw: ImageDraw.ImageDraw, sides: str, at: tuple[int, int], ink: tuple[int, int, int]) -> None:
    left, top = at
    middle, centre = left + CELL[0] // 2, top + CELL[1] // 2
    ends = {
        "l": (left, centre),
        "r": (left + CELL[0] - 1, centre),
        "u": (middle, top),
        "d": (middle, top + CELL[1] - 1),
    }
    for side in sides:
        draw.line(((middle, centre), ends[side]), fill=ink)
