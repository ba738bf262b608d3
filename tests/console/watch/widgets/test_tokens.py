"""The token strip: wrapping by hand, the cursor's brackets, and moving."""

from contextlib import asynccontextmanager
from typing import cast

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from textual.app import App, ComposeResult
from textual.pilot import Pilot

from console.watch.widgets.palette import Palette
from console.watch.widgets.tokens import Token, TokenStrip, wrapped
from tests.console.watch.screen_text import screen_text

WORDS = [Token("The"), Token(" cat"), Token(" sat"), Token("."), Token("⏎", breaks=True), Token("End")]


def lines(tokens: list[Token], width: int) -> list[str]:
    """The lines as text."""
    return ["".join(piece.text for piece in line) for line in wrapped(tokens, width, "░")[0]]


def test_tokens_stay_whole_and_a_line_ends_where_a_token_says_so() -> None:
    assert lines(WORDS, 8) == ["The cat", " sat.⏎", "End"]


def test_a_token_longer_than_a_line_is_cut_into_lines() -> None:
    assert lines([Token("ab"), Token("0123456789"), Token("c")], 4) == ["ab", "0123", "4567", "89c"]


def test_the_first_of_a_run_of_masked_tokens_has_the_mark() -> None:
    masked = [Token("a", masked=True), Token("b", masked=True), Token("c"), Token("d", masked=True)]
    assert lines(masked, 20) == ["░abc░d"]


@given(st.lists(st.text(st.characters(categories=["L", "N", "P", "Zs"]), min_size=1, max_size=12)), st.integers(2, 20))
def test_no_line_is_too_wide_and_nothing_is_lost(texts: list[str], width: int) -> None:
    found, line_of = wrapped([Token(text) for text in texts], width, "░")
    assert "".join(piece.text for line in found for piece in line) == "".join(texts)
    assert all(sum(cell_len(piece.text) for piece in line) <= width for line in found)
    assert len(line_of) == len(texts)
    assert line_of == sorted(line_of)


class Shown(App[None]):
    """A strip alone."""

    def __init__(self, tokens: list[Token]) -> None:
        super().__init__()
        self.tokens = tokens
        self.moved: list[int] = []

    def compose(self) -> ComposeResult:
        """The strip."""
        yield TokenStrip(Palette("none"))

    def on_mount(self) -> None:
        """The tokens."""
        self.query_one(TokenStrip).set(self.tokens)

    def on_token_strip_cursor_moved(self, event: TokenStrip.CursorMoved) -> None:
        """Notes it."""
        self.moved.append(event.token)


@asynccontextmanager
async def strip(tokens: list[Token], size: tuple[int, int] = (10, 4)):
    """A strip in a small terminal."""
    app = Shown(tokens)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        yield cast("Pilot[None]", pilot), app


async def after(pilot: Pilot[None], *keys: str) -> list[str]:
    """The lines after some keys."""
    await pilot.press(*keys)
    await pilot.pause()
    return screen_text(pilot.app).splitlines()


async def test_the_cursor_has_brackets_and_moves_by_tokens_and_lines() -> None:
    async with strip(WORDS) as (pilot, app):
        assert screen_text(app).splitlines()[0] == "[The] cat"
        assert (await after(pilot, "l"))[0] == "The[ cat]"
        assert (await after(pilot, "j"))[1] == "[ sat].⏎"
        assert (await after(pilot, "j"))[2] == "[End]"
        assert (await after(pilot, "k"))[1].startswith("[ sat]")
        assert (await after(pilot, "h"))[0] == "The[ cat]"
        assert app.moved == [1, 2, 5, 2, 1]


async def test_32_000_tokens_are_wrapped_once_and_the_last_is_brought_into_sight() -> None:
    async with strip([Token(f"t{n} ") for n in range(32_000)], (80, 10)) as (pilot, app):
        assert "[t31999 ]" in (await after(pilot, "G"))[-1]
        assert app.query_one(TokenStrip).cursor == 31_999
        assert (await after(pilot, "home"))[0].startswith("[t0 ]")
