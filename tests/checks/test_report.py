"""The report as JSON: its keys, numbers that JSON lacks, and text that no encoding has."""

import json
import math
from typing import Any

from checks.finding import Evidence, Finding, Series, Threshold
from checks.log import Source, Unreadable
from checks.report import Counts, Report, as_json


def decoded(*findings: Finding, path: str = "log.jsonl") -> Any:
    """What a strict reader makes of the JSON."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    source = Source(path=path, format="native", unreadable=1, unreadable_first=(Unreadable(place="l:3", reason="x"),))
    report = Report(source=source, counts=Counts(turns=2, sessions=1, tokens=72), findings=findings)
    return json.loads(as_json(report), parse_constant=refuse)


BREAK = Finding(
    check="prefix-break",
    status="fail",
    value=1,
    unit="breaks",
    threshold=Threshold(warn=0, fail=0),
    summary="1 break",
    check_next=("the template",),
    evidence=(Evidence(session_id="s", turn=2, previous_turn=1, token_index=18, kind="reasoning_stripped"),),
    metrics={"prefix_breaks": 1},
    series=(Series(name="n", x_label="x", y_label="y", x=(1,), y=(2,)),),
)


def test_a_finding_has_the_keys_of_the_contract_and_evidence_leaves_out_what_does_not_apply() -> None:
    whole = decoded(BREAK)
    assert whole["source"].items() >= {"path": "log.jsonl", "format": "native", "turns": 2, "sessions": 1}.items()
    assert whole["source"]["tokens"] == 72
    assert whole["source"]["unreadable_first"] == [{"place": "l:3", "reason": "x"}]
    [finding] = whole["findings"]
    assert finding["threshold"] == {"warn": 0, "fail": 0}
    assert (finding["check"], finding["status"], finding["value"], finding["unit"]) == (
        "prefix-break",
        "fail",
        1,
        "breaks",
    )
    place = {"session_id": "s", "turn": 2, "previous_turn": 1, "token_index": 18, "kind": "reasoning_stripped"}
    assert finding["evidence"] == [place]
    assert whole["metrics"] == {"prefix_breaks": 1}
    assert not {"metrics", "series"} & finding.keys()


def test_what_is_not_finite_is_null_and_says_so() -> None:
    found = Finding(
        check="grad-norm",
        status="fail",
        value=math.nan,
        summary="not a number",
        evidence=(
            Evidence(step=7, value=math.inf),
            Evidence(step=8, value=2.0),
            Evidence(session_id="s", turn=1, kind="stale", value=-math.inf),
            Evidence(session_id="s", turn=1, kind="stale", value=8.0, detail={"log_w": math.nan}),
            Evidence(session_id="s", turn=2, detail={"log_w": math.nan}),
        ),
        breakdown=({"lag": 0, "max_w": math.inf},),
        metrics={"grad_norm_max": math.inf},
    )
    [finding] = (whole := decoded(found))["findings"]
    assert (finding["value"], finding["kind"]) == (None, "not_finite")
    assert finding["evidence"] == [
        {"step": 7, "kind": "not_finite"} | {"value": None},
        {"step": 8, "value": 2.0},
        {"session_id": "s", "turn": 1, "kind": "not_finite", "value": None},
        {"session_id": "s", "turn": 1, "kind": "stale", "value": 8.0, "detail": {"log_w": None}},
        {"session_id": "s", "turn": 2, "kind": "not_finite", "detail": {"log_w": None}},
    ]
    assert finding["breakdown"] == [{"lag": 0, "max_w": None}]
    assert whole["metrics"] == {"grad_norm_max": None}
    assert "kind" not in decoded(BREAK)["findings"][0]


def test_a_lone_surrogate_is_spelled_out_and_loses_nothing_else() -> None:
    odd = Finding(
        check="c",
        status="info",
        summary="x\ud800",
        evidence=(Evidence(session_id="s", turn=1, text="\udcff", value=math.nan),),
    )
    whole = decoded(odd, path="a\udce9.jsonl")
    assert whole["source"]["path"] == "a\\udce9.jsonl"
    [finding] = whole["findings"]
    assert finding["summary"] == "x\\ud800"
    assert finding["evidence"] == [
        {"session_id": "s", "turn": 1, "kind": "not_finite", "text": "\\udcff", "value": None}
    ]


def test_every_piece_of_evidence_is_listed() -> None:
    evidence = tuple(Evidence(session_id=f"s{n}", turn=n, value=n / 3) for n in range(1, 50_001))
    [finding] = decoded(Finding(check="c", status="fail", summary="", value=1, evidence=evidence, evidence_omitted=5))[
        "findings"
    ]
    assert len(finding["evidence"]) == 50_000
    assert finding["evidence"][-1] == {"session_id": "s50000", "turn": 50_000, "value": 50_000 / 3}
    assert finding["evidence_omitted"] == 5


def test_a_report_reaches_a_gravity_that_one_finding_has() -> None:
    def report(*statuses: Any) -> Report:
        findings = tuple(Finding(check=status, status=status, summary="") for status in statuses)
        return Report(
            source=Source(path="", format=""), counts=Counts(turns=0, sessions=0, tokens=0), findings=findings
        )

    assert [report("ok", "no_data", "info").reaches(grave) for grave in ("warn", "fail")] == [False, False]
    assert [report("ok", "warn").reaches(grave) for grave in ("warn", "fail")] == [True, False]
    assert [report("fail").reaches(grave) for grave in ("warn", "fail")] == [True, True]
