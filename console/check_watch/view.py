"""A store under watch on a terminal: alerts by incident, what could not be checked, and what changed last."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from checks.alerting.alert import Alert
from checks.alerting.delivery import Counts
from checks.alerting.evaluator import Evaluated
from checks.alerting.incident import Incident
from checks.readers.store_window import Window
from collector.terminal_text import terminal_safe
from console.check_report.statuses import ASCII, tally
from console.check_watch.change_lines import first_mover_text, place_text, state_word, value_text
from console.format import number_text

SIGNS = {
    "critical": ("◆", "!!", "bold reverse"),
    "firing": ("▲", "!", "bold yellow"),
    "pending": ("△", "?!", "yellow"),
    "recovering": ("▽", "v", "cyan"),
    "acked": ("◇", "(!)", "yellow"),
    "silenced": ("⊘", "z", "dim"),
    "no_data": ("○", "o", "dim"),
    "ok": ("●", ".", "green"),
}
"""State to its sign, the sign in ASCII, and a style that only repeats it."""


Line = tuple[str, str]
"""Words and their style."""


def view(
    evaluated: Evaluated,
    window: Window,
    *,
    changes: Sequence[str],
    problems: Sequence[str],
    delivery: Counts,
    ascii_only: bool,
) -> RenderableType:
    """Everything that is worth a look, in a few lines that the terminal does not break."""
    board, report = evaluated.board, evaluated.report
    lines: list[Line] = [*_header(evaluated, window), ("", "")]
    shown = [alert for alert in board.alerts.values() if alert.shown not in ("ok", "no_data") or alert.alarming]
    grouped = sorted(shown, key=lambda alert: (-(alert.incident or 0), alert.severity != "fail", alert.rule))
    lines += _alerts(grouped, evaluated, ascii_only) if grouped else [("No alert.", "")]
    lines += [("", ""), (f"alerts: {_states([*board.alerts.values()])}", ""), (f"checks: {tally(report.findings)}", "")]
    if delivery != Counts():
        sent = f"{delivery.delivered:,} delivered, {delivery.failed:,} failed"
        lines.append((f"notices: {sent}, {delivery.dropped:,} dropped, {delivery.waiting:,} waiting", ""))
    lines += [(line, "dim") for line in changes]
    lines += [(line, "yellow") for line in problems]
    return Group(*(_drawn(words, style, ascii_only) for words, style in lines))


def _header(evaluated: Evaluated, window: Window) -> list[Line]:
    source, counts = evaluated.report.source, evaluated.report.counts
    read = ", ".join(number_text(getattr(counts, name), name) for name in ("turns", "sessions", "tokens"))
    lines = [(f"{source.path}  at {evaluated.at:%H:%M:%SZ}", "bold"), (f"{window.name}: {read}", "")]
    if source.unreadable:
        lines.append((f"{number_text(source.unreadable, 'pieces')} could not be read", "yellow"))
    return lines


def _drawn(words: str, style: str, ascii_only: bool) -> Text:
    safe = terminal_safe(words.rstrip())
    if ascii_only:
        safe = safe.translate(str.maketrans(ASCII)).encode("ascii", "backslashreplace").decode()
    return Text(safe, style=style, no_wrap=True, overflow="crop" if ascii_only else "ellipsis")


def _alerts(alerts: Sequence[Alert], evaluated: Evaluated, ascii_only: bool) -> list[Line]:
    """Under each incident a line per alert: what has the least room to lose stands first."""
    rows = [_cells(alert, evaluated, ascii_only) for alert in alerts]
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    lines: list[Line] = []
    last = object()
    for alert, row in zip(alerts, rows, strict=True):
        if alert.incident != last:
            last = alert.incident
            lines.append((_incident_text(evaluated.board.incident_of(alert)), "bold"))
        words = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        lines.append((words, SIGNS[_sign_of(alert)][2]))
    return lines


def _incident_text(incident: Incident | None) -> str:
    if incident is None:
        return "no incident yet"
    return f"incident {incident.incident}: first {first_mover_text(incident)}, {incident.began_at:%H:%M:%SZ}"


def _cells(alert: Alert, evaluated: Evaluated, ascii_only: bool) -> list[str]:
    sign, plain, _ = SIGNS[_sign_of(alert)]
    seen = evaluated.seen[alert.rule]
    lasted = "" if alert.began_at is None else f"for {(evaluated.at - alert.began_at).total_seconds():.0f} s"
    cells = (
        f" {plain if ascii_only else sign}",
        alert.rule,
        state_word(alert),
        value_text(seen),
        lasted,
        "" if seen.evidence is None else place_text(seen.evidence),
    )
    return [terminal_safe(cell) for cell in cells]


def _sign_of(alert: Alert) -> str:
    return "critical" if alert.shown == "firing" and alert.severity == "fail" else alert.shown


def _states(alerts: Sequence[Alert]) -> str:
    """How many alerts are in each state, a silenced one counted as that alone."""
    counts = [(sum(alert.shown == state for alert in alerts), state.replace("_", " ")) for state in SIGNS]
    return ", ".join(f"{count} {state}" for count, state in counts if count) or "no rule"
