"""The tokens around a fault as lines of text: a small diff, or a small table with log-probabilities."""

from collections.abc import Sequence
from math import exp

from rich.table import Table
from rich.text import Text

from console.check_report.token_view import Difference, Sampled, Token, TokenView

NEAR = 4
"""Tokens on either side of a fault that a table shows."""


def token_lines(view: TokenView, width: int) -> Sequence[Text | Table]:
    """Lines for a terminal of that width."""
    if view.difference is not None:
        return _diff(view.difference, width)
    return [_table(view)] if view.sampled else []


def _diff(difference: Difference, width: int) -> list[Text]:
    return [
        *_side("  ", "", difference.common, width, "dim"),
        *_side("- ", difference.was_about, difference.was, width, "red"),
        *_side("+ ", difference.now_about, difference.now, width, "green"),
    ]


def _side(sign: str, about: str, tokens: Sequence[Token], width: int, style: str) -> list[Text]:
    """What it is, its ids on one line and its text on another, each cut at the width: the fault is at the cut's end."""
    if not tokens:
        return [Text(f"{sign}{about}", style=style)] if about else []
    count = _fitting(tokens, width - 14, from_end=not about)
    kept = tokens[-count:] if not about else tokens[:count]
    lines = [Text(f"{sign}{about}", style=style)] if about else []
    more = "…" if count < len(tokens) else " "
    ids = " ".join(str(token.id) for token in kept)
    number = f"{kept[0].number:>7}"
    lines.append(Text(f"{sign}{number} {more} {ids}" if not about else f"{sign}{number}   {ids} {more}", style=style))
    text = "".join(token.text or "" for token in kept)
    if text:
        lines.append(Text(f'{sign}          "{text}"', style=style, overflow="fold"))
    return lines


def _fitting(tokens: Sequence[Token], width: int, *, from_end: bool) -> int:
    """How many tokens have their ids and their text within the width; at least one."""
    ids = text = count = 0
    for token in reversed(tokens) if from_end else tokens:
        ids += len(str(token.id)) + 1
        text += len(token.text or "")
        if count and max(ids, text) > width:
            break
        count += 1
    return count


def _table(view: TokenView) -> Table:
    """A row a token, its numbers where there are any, the fault marked by an arrow."""
    rows = nearest(view.sampled)
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    for name in ("", "index", "id"):
        table.add_column(name, justify="right", no_wrap=True)
    numbered = columns_of(rows)
    for name in numbered:
        table.add_column(name, justify="right", no_wrap=True)
    has_text = any(row.token.text is not None for row in rows)
    if has_text:
        table.add_column("token", overflow="fold")
    for row in rows:
        cells = [">" if row.at_fault else "", str(row.token.number), str(row.token.id)]
        cells += [number_of(row, name) for name in numbered]
        cells += [f'"{row.token.text or ""}"'] if has_text else []
        table.add_row(*(Text(cell) for cell in cells), style="bold" if row.at_fault else "")
    return table


def nearest(rows: Sequence[Sampled]) -> Sequence[Sampled]:
    """The tokens nearest to the fault; the last ones where the fault is behind the end."""
    at = next((index for index, row in enumerate(rows) if row.at_fault), len(rows) - 1)
    return rows[max(0, at - NEAR) : at + NEAR + 1]


def columns_of(rows: Sequence[Sampled]) -> list[str]:
    """The numbers that were observed of any of the tokens."""
    mu = any(row.log_mu is not None for row in rows)
    pi = any(row.log_pi is not None for row in rows)
    return [*(["log mu"] if mu else []), *(["log pi_old"] if pi else []), *(["w"] if mu and pi else [])]


def number_of(row: Sampled, name: str) -> str:
    """One of those numbers of a token; empty where it is unknown."""
    match name:
        case "log mu":
            return "" if row.log_mu is None else f"{row.log_mu:.4f}"
        case "log pi_old":
            return "" if row.log_pi is None else f"{row.log_pi:.4f}"
        case _:
            return weight_text(row)


def weight_text(row: Sampled) -> str:
    """w = pi_old / mu of a token; empty where either is unknown."""
    if row.log_mu is None or row.log_pi is None:
        return ""
    try:
        return f"{exp(row.log_pi - row.log_mu):.3g}"
    except OverflowError:
        return "inf"
