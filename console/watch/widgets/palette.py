"""How states and numbers look: a shape and a word first, a colour that only repeats them."""

from typing import Literal, NamedTuple, get_args

from rich.style import Style

Color = Literal["truecolor", "256", "16", "none"]
Curve = Literal["braille", "blocks", "ascii"]
"""What curves are drawn with."""
State = Literal["critical", "acked", "warning", "pending", "recovering", "ok", "no_data", "error", "silenced"]
STATES: tuple[State, ...] = get_args(State)
"""From gravest to least, errors and silences last."""
HEAT_STEPS = 5
"""Shades on each side of 0."""


class Sign(NamedTuple):
    """One state: filled shapes act now, hollow ones are pending or acknowledged."""

    glyph: str
    ascii: str
    word: str


class _Paint(NamedTuple):
    """A colour in each of the colour systems, with what repeats it where there is none."""

    truecolor: str
    cube: int
    ansi: str
    bold: bool = False
    reverse: bool = False


SIGNS: dict[State, Sign] = {
    "critical": Sign("◆", "!!", "CRIT"),
    "acked": Sign("◇", "(!)", "ACKED"),
    "warning": Sign("▲", "!", "WARN"),
    "pending": Sign("△", "?!", "PENDING"),
    "recovering": Sign("▽", "v", "RECOV"),
    "ok": Sign("●", ".", "ok"),
    "no_data": Sign("○", "o", "n/d"),
    "error": Sign("✕", "x", "ERROR"),
    "silenced": Sign("⊘", "z", "SILENCED"),
}
"""Every state's shape and word; no two share either."""

_VERMILION, _ORANGE, _SKY, _PURPLE, _GREY = (
    _Paint("#D55E00", 166, "red", bold=True),
    _Paint("#E69F00", 178, "yellow"),
    _Paint("#56B4E9", 74, "cyan"),
    _Paint("#CC79A7", 175, "magenta"),
    _Paint("#8A8A8A", 245, "bright_black"),
)
_PAINTS: dict[State, _Paint] = {
    "critical": _VERMILION._replace(reverse=True),
    "acked": _VERMILION._replace(bold=False),
    "warning": _ORANGE._replace(bold=True),
    "pending": _ORANGE,
    "recovering": _SKY,
    "ok": _SKY,
    "no_data": _GREY,
    "error": _PURPLE,
    "silenced": _GREY,
}
_COLD = (("#0B2E46", 17), ("#0A4468", 23), ("#095A8A", 24), ("#0467A0", 25), ("#0072B2", 32))
_HOT = (("#4A3505", 94), ("#7A5605", 130), ("#B07B03", 136), ("#E69F00", 178), ("#D55E00", 166))
_DARK_TEXT_FROM = 3
"""The shade of `_HOT` from which text on it is black."""

_MARKS: dict[str, tuple[str, str]] = {
    "onset": ("┃", "#"),
    "interval": ("╞═╡", "[=]"),
    "interval_cell": ("╪", "I"),
    "limit": ("┄", "-"),
    "tick": ("│", "|"),
    "rule": ("─", "-"),
    "gap": (" ", " "),
    "masked": ("░", "~"),
    "ellipsis": ("…", "..."),
    "arrow": ("→", "->"),
    "missing": ("–", "-"),
    "open": ("▾", "v"),
    "closed": ("▸", ">"),
    "middot": ("·", "."),
    "enter": ("⏎", "Enter"),
    "space": ("·", " "),
    "newline": ("⏎", "\\n"),
    "clipped": ("C", "C"),
    "yes": ("✓", "+"),
    "no": ("✗", "x"),
    "bar": ("█", "#"),
    "bar_left": ("▐", "#"),
    "bar_half": ("▌", "#"),
    "bar_axis": ("│", "|"),
    "down": ("▼", "v"),
    "up": ("▲", "^"),
    "split": ("┊", "|"),
}


class Palette:
    """Shapes, words and styles for one terminal. Everything that is drawn takes them from here."""

    def __init__(self, color: Color = "truecolor", *, ascii: bool = False) -> None:
        self.color: Color = color
        self.ascii = ascii
        # A terminal of 16 colours is mostly a console, whose fonts have blocks and no braille.
        self.curve: Curve = "ascii" if ascii else "blocks" if color == "16" else "braille"
        self.plain = Style()
        self.dim = Style(dim=True)
        self.bold = Style(bold=True)
        self.reverse = Style(reverse=True)
        self.cursor = Style(reverse=True, bold=True)
        self.underline = Style(underline=True)
        self.accent = self._style(_SKY)
        self._states = {state: self._style(paint) for state, paint in _PAINTS.items()}
        self._heat = {step: self._shade(step) for step in range(-HEAT_STEPS, HEAT_STEPS + 1)}

    def glyph(self, state: State) -> str:
        """The shape of a state."""
        return SIGNS[state].ascii if self.ascii else SIGNS[state].glyph

    def word(self, state: State) -> str:
        """The word of a state."""
        return SIGNS[state].word

    def style(self, state: State) -> Style:
        """The style that repeats a state."""
        return self._states[state]

    def mark(self, name: str) -> str:
        """A drawing character by what it is for."""
        return _MARKS[name][1 if self.ascii else 0]

    def heat(self, step: int) -> Style:
        """The shade of a step from -5 (far below 0) to 5; 0 is the terminal's own background."""
        return self._heat[max(-HEAT_STEPS, min(HEAT_STEPS, step))]

    def said(self, text: str) -> str:
        """Our own words with the marks this terminal has; not for texts of models."""
        if not self.ascii:
            return text
        for sign in SIGNS.values():
            text = text.replace(sign.glyph, sign.ascii)
        for mark, plain in _MARKS.values():
            if not mark.isascii():
                text = text.replace(mark, plain)
        return text

    def _style(self, paint: _Paint) -> Style:
        if self.color == "none":
            return Style(bold=paint.bold or None, reverse=paint.reverse or None)
        color = {"truecolor": paint.truecolor, "256": f"color({paint.cube})", "16": paint.ansi}[self.color]
        if not paint.reverse:
            return Style(color=color, bold=paint.bold or None)
        ink = {"truecolor": "#000000", "256": "color(16)", "16": "black"}[self.color]
        return Style(color=ink, bgcolor=color, bold=paint.bold or None)

    def _shade(self, step: int) -> Style:
        if step == 0:
            return Style()
        if self.color == "none":
            return Style(bold=abs(step) >= _DARK_TEXT_FROM or None, italic=step < 0 or None)
        truecolor, cube = (_HOT if step > 0 else _COLD)[abs(step) - 1]
        if self.color == "16":
            paint = ("yellow" if step < HEAT_STEPS else "red") if step > 0 else "blue"
            return Style(color=paint, bold=abs(step) >= _DARK_TEXT_FROM or None)
        dark = step > _DARK_TEXT_FROM
        ink = {"truecolor": ("#FFFFFF", "#000000"), "256": ("color(231)", "color(16)")}[self.color][dark]
        back = truecolor if self.color == "truecolor" else f"color({cube})"
        return Style(color=ink, bgcolor=back)


def heat_step(log_ratio: float | None, log_limit: float) -> int:
    """The heat of a log ratio: symmetric, 0 where it is not known, 5 at and beyond the limit."""
    if log_ratio is None or log_ratio != log_ratio or log_limit <= 0:
        return 0
    size = min(1.0, abs(log_ratio) / log_limit)
    step = int(size * HEAT_STEPS + 0.5)
    return step if log_ratio > 0 else -step
