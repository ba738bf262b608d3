"""The report of a check run as text: a table worst first, the faults, what could not be checked, where to look."""

from collections.abc import Mapping, Sequence
from io import StringIO

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from checks.finding import Finding, Status
from checks.report import Report
from collector.terminal_text import terminal_safe
from console.check_report.exhibits import Exhibit, faulty
from console.check_report.places import (
    columns_with_values,
    counts_text,
    fault_words,
    omitted_text,
    place_words,
    skipped_text,
    threshold_text,
)
from console.check_report.statuses import ASCII, SIGNS, tally, worst_first
from console.check_report.token_text import token_lines
from console.format import number_text

NARROWEST = 60
"""Least columns that are filled; a narrower terminal breaks lines by itself."""
WIDE = 110
"""Columns from which a finding's summary stands in the table, and not only with its faults."""
MEDIUM = 80
"""Columns from which its thresholds do."""
STATUS_COLUMNS = max(len(f"{sign.symbol} {sign.word}") for sign in SIGNS.values())
"""Columns of a status, as long as the longest, so that rows without data stand below the others."""
VALUE_COLUMNS = 24
"""Most columns of a value with its unit, before it is broken."""
TEXT_CHARS = 400
"""Longest remark on one fault."""
BREAKDOWN_ROWS = 12
UNREADABLE_SHOWN = 3


def render_text(
    report: Report, exhibits: Mapping[str, Sequence[Exhibit]], *, width: int, colour: bool, encoding: str = "utf-8"
) -> str:
    """The whole report. No line is longer than `width`, unless that is below `NARROWEST`."""
    out = StringIO()
    console = Console(
        file=out,
        width=max(width, NARROWEST),
        force_terminal=colour,
        color_system="standard" if colour else None,
        no_color=not colour,
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )
    for part in _parts(report, exhibits, console.width):
        console.print(part)
    plain = "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"
    return _encodable(plain, encoding)


def _encodable(text: str, encoding: str) -> str:
    """The text as the output's encoding can hold it."""
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        plain = text.translate(str.maketrans(ASCII))
        return plain.encode(encoding, errors="backslashreplace").decode(encoding)
    return text


def _parts(report: Report, exhibits: Mapping[str, Sequence[Exhibit]], width: int) -> Sequence[RenderableType]:
    parts: list[RenderableType] = [_header(report), Text(), _summary(report, width)]
    for finding in worst_first(tuple(faulty(report))):
        parts += [Text(), _finding(finding, exhibits.get(finding.check, ()), width)]
    unchecked = _without_data(report)
    if unchecked:
        title = "Could not be checked: what is missing, and what records it"
        parts += [Text(), Text(title, style="bold"), *map(_unchecked, unchecked)]
    parts += [Text(), *_next(report)]
    return parts


def _without_data(report: Report) -> list[Finding]:
    return [finding for finding in report.findings if finding.status == "no_data"]


def _header(report: Report) -> RenderableType:
    source = report.source
    files = f", {source.files:,} files" if source.files > 1 else ""
    lines = [
        Text(f"{terminal_safe(source.path)}: {terminal_safe(source.format)}{files}", style="bold"),
        Text(counts_text(report)),
    ]
    if source.reason:
        lines.append(Text(f"recognised by {terminal_safe(source.reason)}", style="dim"))
    if source.unreadable:
        lines.append(Text(f"{number_text(source.unreadable, 'pieces')} could not be read:", style="yellow"))
        for each in source.unreadable_first[:UNREADABLE_SHOWN]:
            lines.append(Text(f"  {terminal_safe(each.place)}: {_short(each.reason)}"))
        more = source.unreadable - min(len(source.unreadable_first), UNREADABLE_SHOWN)
        if more:
            lines.append(Text(f"  … and {more:,} more"))
    if source.skipped:
        lines.append(Text(skipped_text(source), style="dim"))
    return Group(*lines)


def _summary(report: Report, width: int) -> RenderableType:
    """One row a check, as many columns as there is room for."""
    names = ["status", "check", "value"]
    names += [*(["threshold"] if width >= MEDIUM else []), *(["what was found"] if width >= WIDE else [])]
    table = Table(box=None, show_header=True, header_style="bold", padding=(0, 2, 0, 0), expand=True)
    for name in names:
        short = name in ("status", "check")
        widest = VALUE_COLUMNS if name == "value" and name != names[-1] else None
        least = STATUS_COLUMNS if name == "status" and _without_data(report) else None
        last = 1 if name == names[-1] else None
        table.add_column(name, no_wrap=short, overflow="fold", min_width=least, max_width=widest, ratio=last)
    rows: list[RenderableType] = []
    known = [finding for finding in worst_first(report.findings) if finding.status != "no_data"]
    for finding in known:
        cells = [
            _signed(finding.status),
            Text(finding.check),
            Text(number_text(finding.value, finding.unit)),
            Text(threshold_text(finding)),
            Text(terminal_safe(finding.summary)),
        ]
        table.add_row(*cells[: len(names)])
    rows += [table] if known else []
    rows += _unknown(report)
    rows.append(Text(f"\n{tally(report.findings)}"))
    return Group(*rows)


def _signed(status: Status) -> Text:
    sign = SIGNS[status]
    return Text(f"{sign.symbol} {sign.word}", style=sign.style)


def _unknown(report: Report) -> list[RenderableType]:
    """The checks without data in one row, since each is told of further down."""
    names = ", ".join(finding.check for finding in _without_data(report))
    if not names:
        return []
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), expand=True)
    table.add_column(no_wrap=True, min_width=STATUS_COLUMNS)
    table.add_column(ratio=1)
    table.add_row(_signed("no_data"), Text(names))
    return [table]


def _finding(finding: Finding, exhibits: Sequence[Exhibit], width: int) -> RenderableType:
    sign = SIGNS[finding.status]
    head = Text.assemble((f"{sign.symbol} {sign.word}  {finding.check}", sign.style), f": {_short(finding.summary)}")
    parts: list[RenderableType] = [head]
    thresholds = threshold_text(finding)
    if thresholds and width < MEDIUM:
        parts.append(Text(f"    {number_text(finding.value, finding.unit)}; thresholds: {thresholds}"))
    if finding.breakdown:
        parts.append(Padding(_breakdown(finding, width - 4), (0, 0, 0, 4)))
    for exhibit in exhibits:
        parts.append(Padding(_exhibit(finding, exhibit, width - 4), (0, 0, 0, 4)))
    more = omitted_text(finding, len(exhibits))
    if more:
        parts.append(Padding(Text(more), (0, 0, 0, 4)))
    return Group(*parts)


def _exhibit(finding: Finding, exhibit: Exhibit, width: int) -> RenderableType:
    words = [*place_words(finding.check, exhibit.evidence), *fault_words(finding, exhibit.evidence)]
    line = _short(" · ".join(words))
    if exhibit.place:
        line += f"  [{terminal_safe(exhibit.place)}]"
    return Group(Text(line), *(Padding(each, (0, 0, 0, 2)) for each in token_lines(exhibit.tokens, width - 2)))


def _breakdown(finding: Finding, width: int) -> RenderableType:
    """The numbers by part, as many columns as there is room for."""
    names = columns_with_values(finding)
    rows = [[_cell(row.get(name)) for name in names] for row in finding.breakdown[:BREAKDOWN_ROWS]]
    widths = [max(len(name), *(len(row[at]) for row in rows)) + 2 for at, name in enumerate(names)]
    fitting = sum(sum(widths[: end + 1]) <= width for end in range(len(names))) or 1
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    for name in names[:fitting]:
        table.add_column(terminal_safe(name), justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row[:fitting]))
    left = [
        *([f"{len(finding.breakdown) - len(rows)} more rows"] if len(finding.breakdown) > len(rows) else []),
        *([f"more columns: {', '.join(map(terminal_safe, names[fitting:]))}"] if fitting < len(names) else []),
    ]
    return Group(table, *([Text(f"({'; '.join(left)}; --format json has them)", style="dim")] if left else []))


def _cell(value: int | float | str | None) -> str:
    if isinstance(value, str):
        return terminal_safe(value)
    return "" if value is None else number_text(value)


def _unchecked(finding: Finding) -> RenderableType:
    sign = SIGNS["no_data"]
    title = Text.assemble((f"{sign.symbol} {finding.check}", sign.style), f": {_short(finding.summary)}")
    below: list[str] = []
    if finding.missing:
        below.append(f"missing: {', '.join(finding.missing)}")
    below += [_short(said) for said in dict.fromkeys(finding.check_next)]
    return Group(title, *(Padding(Text(line), (0, 0, 0, 4)) for line in below))


def _next(report: Report) -> list[Text]:
    grave = [finding for finding in worst_first(report.findings) if finding.status in ("fail", "warn")]
    if not grave:
        return [Text(_nothing(report))]
    lines = [Text("What to look at next", style="bold")]
    for number, finding in enumerate(grave, 1):
        looks = "; ".join(map(terminal_safe, finding.check_next)) or "the places above"
        lines.append(Text(f"{number}. {finding.check}: {looks}"))
    lines.append(Text(f"roundhouse explain {grave[0].check} says what is measured and how the thresholds were chosen."))
    return lines


def _nothing(report: Report) -> str:
    """The last line of a report without warnings and failures."""
    if not report.findings:
        return "No check was run."
    return f"Nothing to look at next{', in what could be checked' if _without_data(report) else ''}."


def _short(text: str) -> str:
    safe = terminal_safe(text)
    return safe if len(safe) <= TEXT_CHARS else f"{safe[: TEXT_CHARS - 1]}…"
