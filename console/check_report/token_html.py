"""The tokens around a fault as HTML: a diff of two ways on, or a table with log-probabilities."""

from collections.abc import Sequence
from html import escape

from console.check_report.token_text import columns_of, nearest, number_of
from console.check_report.token_view import Difference, Sampled, Token, TokenView


def tokens_html(view: TokenView) -> str:
    """Empty where there is nothing to show. Token text in a view is free of control characters already."""
    if view.difference is not None:
        return _diff(view.difference)
    return _table(view.sampled, view.length) if view.sampled else ""


def _diff(difference: Difference) -> str:
    parts = [
        _way("in common", difference.common, "", "") if difference.common else "",
        _way(difference.was_about, difference.was, "was", "−"),
        _way(difference.now_about, difference.now, "now", "+"),
    ]
    return f'<dl class="diff">{"".join(parts)}</dl>'


def _way(about: str, tokens: Sequence[Token], kind: str, sign: str) -> str:
    first = f" from {tokens[0].number}" if tokens else ""
    cells = "".join(map(_token, tokens)) or "(nothing)"
    return f'<dt>{sign} {escape(about)}{first}</dt><dd class="{kind}">{cells}</dd>'


def _token(token: Token) -> str:
    text = "" if token.text is None else f"<bdi>{escape(token.text)}</bdi>"
    return f'<span class="t" title="token {token.number}">{text}<small>{token.id}</small></span>'


def _table(sampled: Sequence[Sampled], length: int) -> str:
    rows = nearest(sampled)
    names = columns_of(rows)
    has_text = any(row.token.text is not None for row in rows)
    heads = ["", f"index, of {length:,}", "id", *names, *(["token"] if has_text else [])]
    head = "".join(f'<th scope="col">{name}</th>' for name in heads)
    body = "".join(_row(row, names, has_text) for row in rows)
    table = f'<table class="tokens"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    return f'<div class="scroll" tabindex="0">{table}</div>'


def _row(row: Sampled, names: Sequence[str], has_text: bool) -> str:
    cells = ["▶" if row.at_fault else "", str(row.token.number), str(row.token.id)]
    cells += [number_of(row, name) for name in names]
    text = f"<td><bdi>{escape(row.token.text or '')}</bdi></td>" if has_text else ""
    at = ' class="at"' if row.at_fault else ""
    return f"<tr{at}>{''.join(f'<td>{cell}</td>' for cell in cells)}{text}</tr>"
