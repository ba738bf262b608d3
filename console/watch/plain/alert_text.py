"""The words of one alert, for the screens and for their text twins."""

from console.format import number_text
from console.watch.compact import compact
from console.watch.views.alert_lines import AlertLine
from console.watch.views.alerts import AlertsView
from console.watch.views.place import place_text
from console.watch.widgets.palette import STATES, State

COUNTED: dict[State, str] = {
    "critical": "critical",
    "warning": "warning",
    "acked": "acked",
    "pending": "pending",
    "recovering": "recovering",
    "silenced": "silenced",
    "no_data": "no data",
    "error": "error",
}
"""The word of a state in a count."""


def severity_word(line: AlertLine) -> str:
    """CRIT or WARN; N/D where nothing was ever seen."""
    if line.state == "no_data":
        return "N/D"
    return "CRIT" if line.severity == "fail" else "WARN"


def state_word(line: AlertLine) -> str:
    """The state, with how many evaluations it has lasted while it is not decided."""
    word = {"RECOVERING": "RECOV"}.get(line.shown, line.shown)
    counted = line.shown in ("PENDING", "RECOVERING") and line.evaluations
    return f"{word} {line.evaluations}x" if counted else word


def value_text(line: AlertLine) -> str:
    """The value, in percent where it is a share."""
    if line.value is None:
        return "–"
    share = line.unit.partition(" ")[0] == "share"
    return f"{compact(100 * line.value, 5)}%" if share else compact(line.value, 7)


def limit_text(line: AlertLine) -> str:
    """The threshold, with the side that is bad where the value stands on it."""
    if line.threshold is None:
        return "–"
    share = line.unit.partition(" ")[0] == "share"
    limit = f"{compact(100 * line.threshold, 4)}%" if share else compact(line.threshold, 6)
    if line.value is None or line.value == line.threshold:
        return limit
    return ("> " if line.value > line.threshold else "< ") + limit


def age_text(seconds: float | None) -> str:
    """How long, in one unit that has passed whole; no seconds, for what shows it is built anew once a minute."""
    if seconds is None:
        return "–"
    for unit, size, least in (("d", 86_400, 172_800), ("h", 3_600, 7_200), ("m", 60, 60)):
        if seconds >= least:
            return f"{seconds // size:.0f}{unit}"
    return "<1m"


def scope_text(line: AlertLine) -> str:
    """The adapter and its version."""
    if line.adapter is None:
        return "all"
    return line.adapter if line.version is None else f"{line.adapter} v{line.version}"


def who_text(line: AlertLine) -> str:
    """Who acknowledged it, or who silenced it and until when."""
    if line.who is None:
        return "–"
    return line.who if line.until is None else f"{line.who} until {line.until:%H:%MZ}"


def line_text(line: AlertLine) -> str:
    """A whole alert in one sentence."""
    said = [severity_word(line), state_word(line), line.rule]
    if line.value is not None:
        limit = "" if line.threshold is None else f", limit {number_text(line.threshold, line.unit.partition(' ')[0])}"
        said.append(number_text(line.value, line.unit) + limit)
    said += [f"for {age_text(line.for_s)}", scope_text(line), place_text(line.place, short=False), who_text(line)]
    return "  ".join(each for each in said if each != "–")


def counts_text(view: AlertsView) -> str:
    """How many of each state, and when the first silence ends."""
    words = [f"{view.counts[state]} {COUNTED[state]}" for state in STATES if state in view.counts and state != "ok"]
    if view.silences_end is not None:
        words.append(f"silences end from {view.silences_end:%H:%MZ}")
    if view.unreadable:
        words.append(f"✕ {view.unreadable} unreadable")
    return " · ".join([*words, f"{view.ok} ok"])


def evaluator_text(view: AlertsView) -> str:
    """Whether anybody evaluates, and of when the last word of an evaluator is."""
    last = "nothing was written by one yet"
    if view.evaluated_at is not None:
        last = f"last change {view.evaluated_at:%Y-%m-%d %H:%M:%SZ}"
    over = f", over {view.window}" if view.window else ""
    if view.evaluating is None:
        return f"whether an evaluator runs is not known here; {last}{over}"
    if view.evaluating:
        return f"an evaluator runs; {last}{over}"
    return f"NO EVALUATOR RUNS: alerts stand still (start roundhouse check --watch or train); {last}{over}"
