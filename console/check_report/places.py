"""Where a fault is, in words."""

import math

from checks.finding import Evidence, Finding
from checks.log import Source
from checks.report import Report
from checks.token_context import side_of
from collector.terminal_text import terminal_safe
from console.format import number_text

NAME_CHARS = 120
"""Longest name of a session or a group that is written out."""
_VALUE_UNITS = {"mfu": "of peak", "staleness": "optimizer steps", "truncation": "tokens"}
"""Of a fault's value, for the checks whose remark on a fault does not hold the number already."""


def place_words(check: str, evidence: Evidence) -> list[str]:
    """Session, turn, token and so on, outermost first; names from the log are escaped."""
    words: list[str] = []
    if evidence.adapter is not None:
        words.append(f"adapter {_name(evidence.adapter)}")
    if evidence.group_id is not None:
        words.append(f"group {_name(evidence.group_id)}")
    if evidence.session_id is not None:
        words.append(f"session {_name(evidence.session_id)}")
    if evidence.turn is not None:
        words.append(f"turn {evidence.turn}")
    if evidence.previous_turn is not None:
        words.append(f"continues turn {evidence.previous_turn}")
    if evidence.token_index is not None:
        words.append(f"{side_of(check, evidence)} token {evidence.token_index}")
    if evidence.step is not None:
        words.append(f"step {evidence.step}")
    return words


def fault_words(finding: Finding, evidence: Evidence, *, detail: bool = False) -> list[str]:
    """Kind, gravity, number with its unit and remark of one fault; text from the log is escaped.

    Where there is no remark, or `detail` asks for it, the further numbers too.
    """
    words = [terminal_safe(evidence.kind)] if evidence.kind else []
    if evidence.status is not None and evidence.status != finding.status:
        words.append(f"alone {evidence.status}")
    text = terminal_safe(evidence.text or "")
    unit = _VALUE_UNITS.get(finding.check) if text else finding.unit
    if evidence.value is not None and unit is not None:
        words.append(number_text(evidence.value, unit))
    words += [text] if text else []
    if detail or not text:
        shown = {name: value for name, value in evidence.detail.items() if name != "side" and value is not None}
        words += [f"{terminal_safe(name)} {_detail(name, value)}" for name, value in shown.items()]
    return words


def counts_text(report: Report) -> str:
    """How much was read; a log of text, or of numbers by step, has no tokens to count."""
    counts = report.counts
    if not counts.turns:
        return "no turns: only metrics by step, evaluations and the like"
    tokens = number_text(counts.tokens, "tokens") if counts.tokens else "no token ids: text only"
    return f"{number_text(counts.turns, 'turns')}, {number_text(counts.sessions, 'sessions')}, {tokens}"


def skipped_text(source: Source) -> str:
    """Files of the folder that are no log of a known format, with the reason for the first; empty without any."""
    if not source.skipped:
        return ""
    first = "".join(f": {each.place}: {each.reason}" for each in source.skipped_first[:1])
    more = ", the first" if source.skipped > 1 else ""
    return f"{number_text(source.skipped, 'files')} left out{more}{terminal_safe(first)}"


def threshold_text(finding: Finding) -> str:
    """The thresholds of a finding; empty without any. An infinite one was turned off."""
    if finding.threshold is None:
        return ""
    pairs = (("warn", finding.threshold.warn), ("fail", finding.threshold.fail))
    unit = "share" if finding.unit.startswith("share") else ""
    return ", ".join(
        f"{name} {'off' if math.isinf(value) else number_text(value, unit)}"
        for name, value in pairs
        if value is not None
    )


def columns_with_values(finding: Finding) -> list[str]:
    """The columns of the breakdown that are not empty throughout."""
    names = finding.breakdown[0] if finding.breakdown else {}
    return [name for name in names if any(row.get(name) is not None for row in finding.breakdown)]


def omitted_text(finding: Finding, shown: int) -> str:
    """How many faults are not shown; empty when all are."""
    more = len(finding.evidence) - shown + finding.evidence_omitted
    lists = f"the first {len(finding.evidence):,}" if finding.evidence_omitted else "all"
    return f"… and {more:,} more (--format json lists {lists})" if more > 0 else ""


def _name(text: str) -> str:
    safe = terminal_safe(text)
    return safe if len(safe) <= NAME_CHARS else f"{safe[: NAME_CHARS - 1]}…"


def _detail(name: str, value: int | float | str | None) -> str:
    """A number with separators, unless it is a name of something."""
    if isinstance(value, str):
        return terminal_safe(value)
    return str(value) if name.endswith("id") and isinstance(value, int) else number_text(value)
