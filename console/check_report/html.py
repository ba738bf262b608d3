"""The report of a check run as one HTML file: the table, the faults with their tokens, the plots; no script."""

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from checks.finding import Finding, Status
from checks.report import Report
from collector.terminal_text import terminal_safe
from console.check_report.exhibits import Exhibit, faulty
from console.check_report.page_style import STYLE
from console.check_report.places import (
    columns_with_values,
    counts_text,
    fault_words,
    omitted_text,
    place_words,
    skipped_text,
    threshold_text,
)
from console.check_report.plot import plots
from console.check_report.statuses import SIGNS, tally, worst_first
from console.check_report.token_html import tokens_html
from console.format import number_text


def render_html(report: Report, exhibits: Mapping[str, Sequence[Exhibit]]) -> str:
    """The whole page. Everything that came from the log is escaped."""
    name = _text(report.source.path)
    body = [_header(report), _summary(report)]
    grave = worst_first(tuple(faulty(report)))
    if grave:
        body.append("<h2>What was found</h2>")
        body += [_finding(finding, exhibits.get(finding.check, ())) for finding in grave]
    body += [_curves(report), _unchecked(report)]
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>roundhouse check: {name}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(part for part in body if part)
        + "\n</main>\n</body>\n</html>\n"
    )


def _text(text: str) -> str:
    """Text for an element or an attribute: no markup, no control character, no change of writing direction."""
    return escape(terminal_safe(text))


def _header(report: Report) -> str:
    source = report.source
    files = f", {source.files:,} files" if source.files > 1 else ""
    lines = [
        f"<h1>roundhouse check: <bdi>{_text(source.path)}</bdi></h1>",
        f"<p>{_text(source.format)}{files}: {counts_text(report)}</p>",
    ]
    if source.reason:
        lines.append(f'<p class="faint">recognised by <bdi>{_text(source.reason)}</bdi></p>')
    if source.unreadable:
        named = [f"<li><bdi>{_text(f'{each.place}: {each.reason}')}</bdi></li>" for each in source.unreadable_first]
        more = source.unreadable - len(source.unreadable_first)
        named += [f"<li>… and {more:,} more</li>"] if more else []
        said = f"{number_text(source.unreadable, 'pieces')} could not be read"
        lines.append(f'<details><summary class="warn status">! {said}</summary><ul>{"".join(named)}</ul></details>')
    if source.skipped:
        lines.append(f'<p class="faint">{_text(skipped_text(source))}</p>')
    return "".join(lines)


def _summary(report: Report) -> str:
    rows = [
        [
            _status(finding.status),
            _link(finding),
            _text(number_text(finding.value, finding.unit)) if finding.status != "no_data" else "",
            _text(threshold_text(finding)) if finding.status != "no_data" else "",
            f"<bdi>{_text(finding.summary)}</bdi>",
        ]
        for finding in worst_first(report.findings)
    ]
    table = _table(("status", "check", "value", "threshold", "summary"), rows, kind="findings")
    return f"<p><strong>{_text(tally(report.findings))}</strong></p>{table}"


def _link(finding: Finding) -> str:
    """The check's name, leading to what the page says more about it."""
    name = _text(finding.check)
    return name if finding.status == "ok" and not finding.series else f'<a href="#{name}">{name}</a>'


def _status(status: Status) -> str:
    sign = SIGNS[status]
    return f'<span class="status {status}">{sign.symbol} {sign.word}</span>'


def _finding(finding: Finding, exhibits: Sequence[Exhibit]) -> str:
    parts = [
        f'<section id="{_text(finding.check)}"><h3>{_status(finding.status)} {_text(finding.check)}</h3>',
        f"<p><bdi>{_text(finding.summary)}</bdi></p>",
        _breakdown(finding),
        _plots(finding),
        *(_fault(finding, exhibit) for exhibit in exhibits),
    ]
    more = omitted_text(finding, len(exhibits))
    parts += [f"<p>{_text(more)}</p>"] if more else []
    if finding.check_next:
        looks = "".join(f"<li><bdi>{_text(look)}</bdi></li>" for look in finding.check_next)
        parts.append(f"<p>Check next:</p><ul>{looks}</ul>")
    return "".join(parts) + "</section>"


def _fault(finding: Finding, exhibit: Exhibit) -> str:
    words = [*place_words(finding.check, exhibit.evidence), *fault_words(finding, exhibit.evidence, detail=True)]
    place = f' <span class="faint">[{_text(exhibit.place)}]</span>' if exhibit.place else ""
    line = " · ".join(f"<bdi>{_text(word)}</bdi>" for word in words)
    status = exhibit.evidence.status or finding.status
    return f'<div class="fault {status}"><p>{line}{place}</p>{tokens_html(exhibit.tokens)}</div>'


def _breakdown(finding: Finding) -> str:
    if not finding.breakdown:
        return ""
    names = columns_with_values(finding)
    rows = [[_text(_cell(row.get(name))) for name in names] for row in finding.breakdown]
    return _table([_text(name) for name in names], rows, numbers=True)


def _cell(value: int | float | str | None) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else number_text(value)


def _curves(report: Report) -> str:
    """Plots of what is in order; those of a faulty check stand with it."""
    shown = {finding.check for finding in faulty(report)}
    parts = [
        f'<section id="{_text(finding.check)}"><h3>{_status(finding.status)} {_text(finding.check)}</h3>'
        f"{_plots(finding)}</section>"
        for finding in report.findings
        if finding.series and finding.check not in shown
    ]
    return f"<h2>In order</h2>{''.join(parts)}" if parts else ""


def _plots(finding: Finding) -> str:
    drawn = plots(finding.series)
    return f'<div class="plots">{"".join(drawn)}</div>' if drawn else ""


def _unchecked(report: Report) -> str:
    parts: list[str] = []
    for finding in report.findings:
        if finding.status == "no_data":
            missing = f"<br>missing: {_text(', '.join(finding.missing))}" if finding.missing else ""
            advice = "".join(f"<br>{_text(said)}" for said in dict.fromkeys(finding.check_next))
            parts.append(
                f'<li id="{_text(finding.check)}"><strong>{_text(finding.check)}</strong>: '
                f"{_text(finding.summary)}{missing}{advice}</li>"
            )
    return f"<h2>Could not be checked</h2><ul>{''.join(parts)}</ul>" if parts else ""


def _table(names: Sequence[str], rows: Iterable[Sequence[str]], *, kind: str = "", numbers: bool = False) -> str:
    """A table of cells that are HTML already."""
    number = ' class="n"' if numbers else ""
    head = "".join(f'<th scope="col"{number}>{name}</th>' for name in names)
    body = "".join(f"<tr>{''.join(f'<td{number}>{cell}</td>' for cell in row)}</tr>" for row in rows)
    about = f' class="{kind}"' if kind else ""
    table = f"<table{about}><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="scroll" tabindex="0">{table}</div>'
