"""Shapes and words of states: no two alike, with and without colour."""

import pytest

from console.watch.widgets.palette import HEAT_STEPS, SIGNS, STATES, Color, Palette, heat_step

COLORS: tuple[Color, ...] = ("truecolor", "256", "16", "none")


def test_no_state_differs_from_another_by_colour_alone() -> None:
    for letters in ("glyph", "ascii", "word"):
        assert len({getattr(sign, letters) for sign in SIGNS.values()}) == len(STATES)


@pytest.mark.parametrize("ascii", [False, True])
def test_shape_and_word_do_not_depend_on_the_colours(ascii: bool) -> None:
    palettes = [Palette(color, ascii=ascii) for color in COLORS]
    for state in STATES:
        assert len({(palette.glyph(state), palette.word(state)) for palette in palettes}) == 1


def test_without_colours_no_style_has_one() -> None:
    palette = Palette("none")
    styles = [palette.style(state) for state in STATES] + [palette.heat(step) for step in range(-5, 6)]
    for style in [*styles, palette.accent, palette.dim]:
        assert style.color is None
        assert style.bgcolor is None


def test_every_style_is_a_style_and_never_none() -> None:
    for color in COLORS:
        palette = Palette(color)
        assert all(palette.style(state) is not None for state in STATES)
        assert palette.heat(0).bgcolor is None


def test_in_256_colours_every_colour_is_of_the_cube() -> None:
    palette = Palette("256")
    for style in [palette.style(state) for state in STATES] + [palette.heat(step) for step in (-5, -1, 1, 5)]:
        for color in (style.color, style.bgcolor):
            assert color is None or (color.number is not None and color.number >= 16)


def test_in_ascii_every_shape_and_mark_is_ascii() -> None:
    palette = Palette(ascii=True)
    assert "".join(palette.glyph(state) for state in STATES).isascii()
    assert palette.said("◆ ▲ → – · ┊ … ✓ ✗ ▸ ▾").isascii()
    assert palette.said("◆ CRIT → ▲ WARN") == "!! CRIT -> ! WARN"


def test_heat_is_symmetric_and_ends_at_the_limit() -> None:
    assert [heat_step(value, 1.0) for value in (-2.0, -1.0, -0.5, -0.05, 0.0, 0.1, 0.3, 1.0, 9.0)] == [
        -5, -5, -3, 0, 0, 1, 2, 5, 5,
    ]  # fmt: skip
    assert heat_step(None, 1.0) == 0
    assert heat_step(float("nan"), 1.0) == 0
    assert len({str(Palette().heat(step)) for step in range(-HEAT_STEPS, HEAT_STEPS + 1)}) == 2 * HEAT_STEPS + 1


def test_curves_are_of_blocks_where_a_console_has_no_braille() -> None:
    assert [Palette(color).curve for color in COLORS] == ["braille", "braille", "blocks", "braille"]
    assert Palette("16", ascii=True).curve == "ascii"
