"""The report of a check run as JUnit XML, as continuous integration reads it: a check is a test case."""

from xml.etree import ElementTree as Xml

from checks.finding import Finding, Status
from checks.report import Report
from collector.terminal_text import terminal_safe
from console.check_report.places import fault_words, omitted_text, place_words, threshold_text
from console.check_report.statuses import SIGNS
from console.format import number_text

SHOWN = 20
"""Faults named in a test case."""


def render_junit(report: Report, *, failing: tuple[Status, ...]) -> str:
    """One suite. Findings of the `failing` statuses are failures; what could not be checked is skipped."""
    count = sum(finding.status in failing for finding in report.findings)
    skipped = sum(finding.status == "no_data" for finding in report.findings)
    totals = {"tests": str(len(report.findings)), "failures": str(count), "errors": "0", "skipped": str(skipped)}
    suites = Xml.Element("testsuites", totals)
    suite = Xml.SubElement(suites, "testsuite", {"name": _safe(f"roundhouse check {report.source.path}"), **totals})
    properties = Xml.SubElement(suite, "properties")
    for name, value in _properties(report).items():
        Xml.SubElement(properties, "property", {"name": name, "value": _safe(value)})
    for finding in report.findings:
        _case(suite, finding, failing)
    said = _left_out(report)
    if said:
        Xml.SubElement(suite, "system-err").text = "\n".join(map(_safe, said))
    Xml.indent(suites)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + Xml.tostring(suites, encoding="unicode") + "\n"


def _left_out(report: Report) -> list[str]:
    """What could not be read, and which files of the folder are no logs, the first of each by name."""
    source = report.source
    parts = (
        (source.unreadable, "pieces could not be read", source.unreadable_first),
        (source.skipped, "files are of no known format", source.skipped_first),
    )
    return [
        line
        for count, what, first in parts
        if count
        for line in (f"{count} {what}", *(f"{each.place}: {each.reason}" for each in first))
    ]


def _properties(report: Report) -> dict[str, str]:
    source, counts = report.source, report.counts
    return {
        "format": source.format,
        "recognised_by": source.reason,
        "turns": str(counts.turns),
        "sessions": str(counts.sessions),
        "tokens": str(counts.tokens),
        "unreadable": str(source.unreadable),
        "skipped_files": str(source.skipped),
    }


def _case(suite: Xml.Element, finding: Finding, failing: tuple[Status, ...]) -> None:
    case = Xml.SubElement(suite, "testcase", {"classname": "roundhouse.check", "name": finding.check})
    if finding.status in failing:
        message = f"{SIGNS[finding.status].word}: {finding.summary}"
        failure = Xml.SubElement(case, "failure", {"type": finding.status, "message": _safe(message)})
        failure.text = _faults(finding)
    elif finding.status == "no_data":
        missing = f"; missing: {', '.join(finding.missing)}" if finding.missing else ""
        advice = "".join(f"; {said}" for said in finding.check_next)
        Xml.SubElement(case, "skipped", {"message": _safe(f"{finding.summary}{missing}{advice}")})
    elif finding.status != "ok":
        said = f"{SIGNS[finding.status].word}: {_safe(finding.summary)}\n{_faults(finding)}"
        Xml.SubElement(case, "system-out").text = said


def _faults(finding: Finding) -> str:
    """Value, thresholds, the first faults a line each, and what to look at."""
    value = number_text(finding.value, finding.unit)
    threshold = threshold_text(finding)
    shown = finding.evidence[:SHOWN]
    faults = [" · ".join([*place_words(finding.check, each), *fault_words(finding, each)]) for each in shown]
    more = omitted_text(finding, len(shown))
    lines = [f"{value}{f' ({threshold})' if threshold else ''}", *faults, *([more] if more else [])]
    if finding.check_next:
        lines.append(f"check next: {'; '.join(finding.check_next)}")
    return "\n".join(map(_safe, lines))


def _safe(text: str) -> str:
    """No control character: XML has no way to write most of them, and none of a lone surrogate."""
    return terminal_safe(text)
