"""A gate report as text for a person, at most 100 columns."""

import textwrap

from collector.store.adapter_names import engine_name
from collector.terminal_text import terminal_safe
from trainer.gate.decide import title
from trainer.gate.report import Criterion, GateReport

WIDTH = 100
_HEAD = ("", "against", "candidate", "other", "diff", "lower", "limit", "MDE", "tasks", "need")
_FORMAT = "  {:<8}{:>8}{:>11}{:>8}{:>9}{:>9}{:>9}{:>8}{:>7}{:>8}  {}"
_WORDS = {"pass": "ok", "refuse": "REFUSED", "inconclusive": "not shown", "no_data": "NO DATA"}
_NOTES = (
    "diff: candidate less other, mean over tasks; lower: its one-sided 95 % bound, clustered by task; it must be "
    "above limit. MDE: the difference that so many tasks show with a chance of 80 %; need: tasks for an MDE of the "
    "margin.",
    "A candidate that is worse by the margin passes with a chance of at most 5 %, judged once. Over many cycles, or "
    "tried again on another slice, it has that chance each time; the pinned best keeps such steps from adding up.",
)


def report_lines(report: GateReport) -> list[str]:
    """Verdict, table of numbers, the other criteria, what to do next, and what is and is not controlled."""
    name = engine_name(report.adapter, report.version)
    others = f"live @{report.live}" if report.best == report.live else f"live @{report.live} and best @{report.best}"
    score = report.numbers.held_out_score
    shown = "no held-out score" if score is None else f"held-out score {score:.3f} on {report.numbers.tasks} tasks"
    lines = [f"gate: {name} against {others}: {report.verdict.upper()} ({shown})", ""]
    compared = [each for each in report.criteria if each.difference is not None]
    if compared:
        lines += [_FORMAT.format(*_HEAD, "").rstrip(), *(_row(each) for each in compared), ""]
    for each in report.criteria:
        if each.difference is None or each.status != "pass":
            lines += _wrapped(f"{_WORDS[each.status]:<10}", f"{title(each)}: {each.text}")
    steps = list(dict.fromkeys(each.next for each in report.criteria if each.next and each.status != "pass"))
    lines += ["", "next:", *(line for step in steps for line in _wrapped("- ", step))] if steps else []
    if compared:
        lines += ["", *(line for note in _NOTES for line in textwrap.wrap(note, WIDTH))]
    return lines


def _row(each: Criterion) -> str:
    return _FORMAT.format(
        each.name,
        f"@{each.against}",
        _number(each.candidate),
        _number(each.other),
        _number(each.difference, sign=True),
        _number(each.lower_bound, sign=True),
        _number(each.limit, sign=True),
        _number(each.minimum_detectable),
        each.tasks,
        "-" if each.tasks_needed is None else f"{each.tasks_needed}",
        _WORDS[each.status],
    )


def _number(value: float | None, *, sign: bool = False) -> str:
    if value is None:
        return "-"
    return f"{value:+.3f}" if sign else f"{value:.3f}"


def _wrapped(first: str, text: str) -> list[str]:
    return textwrap.wrap(
        terminal_safe(text), WIDTH, initial_indent=f"  {first}", subsequent_indent=" " * (2 + len(first))
    )
