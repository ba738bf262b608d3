"""The JUnit report: a check is a test, and any text makes valid XML."""

from xml.etree import ElementTree as Xml

import pytest

from checks.finding import Status
from console.check_report.junit import render_junit
from tests.console.check_report.made_report import HOSTILE, report

FAIL: tuple[Status, ...] = ("fail",)


def suite(text: str = "plain", failing: tuple[Status, ...] = FAIL) -> Xml.Element:
    """The one suite of the made report, as a parser reads it."""
    root = Xml.fromstring(render_junit(report(text), failing=failing))
    [only] = root
    assert root.tag == "testsuites"
    return only


def cases(element: Xml.Element, tag: str) -> set[str]:
    """The checks that have such an element."""
    return {case.attrib["name"] for case in element.iter("testcase") if case.find(tag) is not None}


def test_every_check_is_a_case_and_the_counts_agree() -> None:
    found = suite()
    assert len(list(found.iter("testcase"))) == int(found.attrib["tests"]) == 19
    assert len(cases(found, "failure")) == int(found.attrib["failures"]) == 5
    assert len(cases(found, "skipped")) == int(found.attrib["skipped"]) == 5
    assert found.attrib["errors"] == "0"
    assert found.find(".//error") is None


def test_a_failure_says_where_the_first_faults_are() -> None:
    [failure] = suite().findall("testcase[@name='prefix-break']/failure")
    assert failure.attrib == {"type": "fail", "message": "FAIL: 1 turn does not extend the turn it continues"}
    assert (failure.text or "").splitlines() == [
        "1 break (warn 0, fail 0)",
        "session s · turn 2 · continues turn 1 · prompt token 35 · reasoning_stripped · previous_id 259",
        "check next: the chat template",
    ]


def test_a_warning_passes_unless_warnings_fail() -> None:
    assert "truncation" not in cases(suite(), "failure")
    assert "truncation" in cases(suite(), "system-out")
    assert "truncation" in cases(suite(failing=("warn", "fail")), "failure")
    assert cases(suite(failing=()), "failure") == set()


def test_what_could_not_be_checked_is_skipped_with_the_reason() -> None:
    [skipped] = suite().findall("testcase[@name='staleness']/skipped")
    assert skipped.attrib["message"] == "not logged; missing: steps.staleness"


@pytest.mark.parametrize("text", [HOSTILE, "]]>", "\ufffe\uffff", "".join(map(chr, range(32)))])
def test_any_text_makes_valid_xml(text: str) -> None:
    written = render_junit(report(text), failing=("fail",)).encode()
    for element in Xml.fromstring(written).iter():
        for said in (element.text or "", *element.attrib.values()):
            assert all(letter.isprintable() or letter == "\n" for letter in said)


def test_what_could_not_be_read_stands_with_the_suite() -> None:
    [said] = suite().findall("system-err")
    assert (said.text or "").startswith("25 pieces could not be read\nplain:0: not JSON: plain\n")
