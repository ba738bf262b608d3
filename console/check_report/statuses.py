"""How a status is shown: a word and a sign, and a colour that is never alone."""

from typing import NamedTuple

from checks.finding import STATUSES, Finding, Status


class Sign(NamedTuple):
    """One status on paper."""

    word: str
    symbol: str
    style: str
    """As rich names it."""


SIGNS: dict[Status, Sign] = {
    "fail": Sign("FAIL", "✗", "bold red"),
    "warn": Sign("WARN", "!", "yellow"),
    "info": Sign("info", "i", "cyan"),
    "no_data": Sign("no data", "?", "dim"),
    "ok": Sign("ok", "✓", "green"),
}
ASCII = {"✗": "x", "✓": "+", "…": "...", "·": "-", "–": "-", "π": "pi"}
"""What stands for our own signs where the output's encoding has none of them."""


def worst_first(findings: tuple[Finding, ...]) -> list[Finding]:
    """The findings, gravest first, otherwise in the order of the suite."""
    return sorted(findings, key=lambda finding: -STATUSES.index(finding.status))


def tally(findings: tuple[Finding, ...]) -> str:
    """How many of each status, gravest first."""
    words = {"fail": "failed", "warn": "warned", "info": "informed", "no_data": "could not be checked", "ok": "ok"}
    counts = [(sum(each.status == status for each in findings), words[status]) for status in reversed(STATUSES)]
    return ", ".join(f"{count} {word}" for count, word in counts if count) or "no check"
