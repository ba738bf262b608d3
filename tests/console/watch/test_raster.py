"""The pictures: every cell where it belongs, braille and blocks as shapes, colours as they were written."""

from rich.segment import Segment
from rich.style import Style

from console.watch.raster import CELL, MARGIN, drawn

INK, PAPER = (214, 214, 214), (18, 18, 22)


def cell(rows: list[list[Segment]], column: int, row: int = 0, columns: int = 4) -> list[tuple[int, int, int]]:
    """The pixels of one cell, row by row."""
    left, top = MARGIN + column * CELL[0], MARGIN + row * CELL[1]
    image = drawn(rows, columns).crop((left, top, left + CELL[0], top + CELL[1]))
    return [image.getpixel((x, y)) for y in range(CELL[1]) for x in range(CELL[0])]


def test_a_picture_has_a_cell_for_each_column_and_row_and_a_margin() -> None:
    assert drawn([[Segment("ab")], [Segment("c")]], 4).size == (4 * 10 + 24, 2 * 20 + 24)


def test_blocks_fill_their_share_of_the_cell() -> None:
    assert {*cell([[Segment("█")]], 0)} == {INK}
    half = cell([[Segment("▄")]], 0)
    assert (half.count(INK), {*half[:100]}, {*half[100:]}) == (100, {PAPER}, {INK})
    assert cell([[Segment("▌")]], 0).count(INK) == 5 * 20


def test_a_braille_letter_has_a_dot_for_each_of_its_bits() -> None:
    one, all_eight = cell([[Segment("⠁")]], 0).count(INK), cell([[Segment("⣿")]], 0).count(INK)
    assert one > 0
    assert all_eight == 8 * one
    assert INK not in cell([[Segment("⠀")]], 0)


def test_colours_and_their_reverse_are_those_of_the_style() -> None:
    painted = cell([[Segment("█", Style(color="#D55E00", bgcolor="#000000"))]], 0)
    assert {*painted} == {(213, 94, 0)}
    turned = cell([[Segment(" ", Style(color="#D55E00", reverse=True))]], 0)
    assert {*turned} == {(213, 94, 0)}
    dim = cell([[Segment("█", Style(dim=True))]], 0)
    assert {*dim} == {tuple((3 * one + 2 * other) // 5 for one, other in zip(INK, PAPER, strict=True))}


def test_a_wide_letter_takes_two_cells() -> None:
    row = [Segment("退"), Segment("█")]
    assert {*cell([row], 2)} == {INK}
    assert INK not in cell([row], 3)
