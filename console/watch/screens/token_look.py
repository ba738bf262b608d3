"""How a turn's tokens look: in the strip of text, in the table, and the rules that stand over the parts."""

from collections.abc import Sequence
from typing import NamedTuple

from collector.terminal_text import terminal_safe
from console.watch.frame.row import Part
from console.watch.plain.table_lines import wrapped
from console.watch.views.token import TokenRow, TokenView
from console.watch.views.token_words import TokenColumn, token_text, weight_text
from console.watch.widgets.palette import Palette
from console.watch.widgets.table import Cell
from console.watch.widgets.token_colour import heat_of
from console.watch.widgets.tokens import Token


class TokenLook(NamedTuple):
    """What was chosen of how they look."""

    palette: Palette
    mode: str
    """What the shades tell."""
    ids: bool
    """Ids instead of text."""

    def token(self, view: TokenView, row: TokenRow) -> Token:
        """A token of the strip."""
        text = f"{'–' if row.id is None else row.id} " if self.ids or row.text is None else row.text
        return Token(
            text=text.replace("\\n", self.palette.mark("newline")),
            heat=heat_of(view, row, self.mode),
            masked=not row.counted,
            clipped=bool(row.cut),
            breaks=not self.ids and text.endswith("\\n"),
        )

    def cells(self, view: TokenView, row: TokenRow, columns: Sequence[TokenColumn]) -> list[Cell]:
        """A row of the table."""
        cells: list[Cell] = []
        for each in columns:
            text = self._text(row) if each.key == "text" else each.cell(row, view)
            own = each.key in ("text", "gen")
            state = "warning" if each.key in ("w", "log_w") and row.outlier else None
            cells.append(Cell(text if own else self.palette.said(text), state, dim=not row.counted))
        return cells

    def rules(self, view: TokenView) -> dict[str, str]:
        """What stands over each part, by the id of its rule."""
        cut = "" if view.w_max is None else f"cut at {view.w_max:g} · "
        shades = f"colour = {self.mode}  ([]: cursor · underline: cut · ░ prompt or masked)"
        outliers = f"{len(view.outliers) or 'no'} outlier{'s' * (len(view.outliers) > 1)}"
        return {
            "chart_rule": f"log w by position ─── {cut}w {weight_text(view.min_w)} to {weight_text(view.max_w)}",
            "strip_rule": f"{self._shows(view)}   {shades}",
            "tokens_rule": f"tokens: prompt {view.prompt:,} · completion {view.completion:,} · {outliers}",
            "credit_rule": "credit: what it was taught, and what came of it",
            "why_rule": "why w is what it is",
        }

    def box(self, lines: Sequence[str], width: int) -> list[list[Part]]:
        """What is said of a token, in rows of a box so wide."""
        rows = (row for line in lines for row in wrapped(self.palette.said(line), max(20, width - 2)))
        return [[Part(f" {row}")] for row in rows]

    def _shows(self, view: TokenView) -> str:
        if view.tokenizer is None:
            return "ids (no tokenizer)"
        return "ids" if self.ids else f"text by {terminal_safe(view.tokenizer)}"

    def _text(self, row: TokenRow) -> str:
        """The token as it reads; one of the prompt, or masked, with the mark before."""
        text = f"[{row.id}]" if self.ids else token_text(row)
        return text if row.counted else self.palette.mark("masked") + text
