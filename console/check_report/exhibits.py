"""The faults that a report for people shows: the first of each check, with the tokens around them."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from checks.finding import Evidence, Finding
from checks.log import Batch, Log
from checks.measure import Tools
from checks.passes import OnBatch
from checks.report import Report
from checks.token_context import SCORE_COLUMNS, TURN_COLUMNS, Shown, TokenContext, sessions_of, token_contexts
from console.check_report.token_view import TokenView, token_view

FAULTY = ("info", "warn", "fail")
"""Statuses whose evidence is shown."""


class Exhibit(NamedTuple):
    """One fault as it is shown."""

    evidence: Evidence
    place: str | None
    """`file:line` of the turn, where the log has one."""
    tokens: TokenView


def exhibits(
    report: Report, log: Log, tools: Tools, *, per_check: int, around: int, on_batch: OnBatch = lambda _: None
) -> dict[str, list[Exhibit]]:
    """The first faults of each check that is not ok. Reads the turns they are in once more, and no others."""
    shown = [Shown(finding.check, each) for finding in faulty(report) for each in finding.evidence[:per_check]]
    sessions = sessions_of(shown)
    contexts: list[TokenContext | None] = [None] * len(shown)
    if sessions:
        batches = log.batches(TURN_COLUMNS, SCORE_COLUMNS, sessions=sessions)
        contexts = token_contexts(_counted(batches, on_batch), shown)
    found: dict[str, list[Exhibit]] = {}
    for each, context in zip(shown, contexts, strict=True):
        tokens = TokenView() if context is None else token_view(each, context, tools, around=around)
        found.setdefault(each.check, []).append(Exhibit(each.evidence, context and context.place, tokens))
    return found


def _counted(batches: Iterable[Batch], on_batch: OnBatch) -> Iterator[Batch]:
    for batch in batches:
        on_batch(batch.turns.height)
        yield batch


def faulty(report: Report) -> list[Finding]:
    """The findings that have something to show."""
    return [finding for finding in report.findings if finding.status in FAULTY]
