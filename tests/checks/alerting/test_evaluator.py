"""Evaluations: which records they write, what is delivered, and that a restart from those records goes on alike."""

import math
from datetime import datetime
from typing import Any

import msgspec

from checks.alerting.alert_event import act_of, alert_of, status_of
from checks.alerting.config import AlertsConfig, RuleConfig
from checks.alerting.evaluator import Evaluated, Evaluator
from checks.alerting.rule import rules_of
from checks.alerts import acknowledge, silence
from checks.finding import Evidence, Finding, Status, Threshold
from checks.log import Source
from checks.report import Counts, Report
from collector.records import Event
from tests.checks.alerting.timeline import second

CONFIG = AlertsConfig(rules={"w": RuleConfig(metric="max_w", above=5.0, severity="fail")})


def evaluator() -> Evaluator:
    return Evaluator(rules_of(CONFIG, ["c"]), window="the last 1 h", actor="evaluator", incident_window_s=600)


def report(status: Status, value: float, max_w: float = 1.0) -> Report:
    place = Evidence(
        session_id="s", turn=3, token_index=7, kind="stale", text="secret words", adapter="bot", value=value
    )
    finding = Finding(
        check="c",
        status=status,
        value=value,
        unit="share of turns",
        threshold=Threshold(warn=0.1, fail=0.5),
        summary="one of two",
        check_next=("look there",),
        evidence=(place,) if status in ("warn", "fail") else (),
        metrics={"max_w": max_w},
    )
    counts = Counts(turns=2, sessions=1, tokens=9)
    return Report(source=Source(path="store", format="native"), counts=counts, findings=(finding,))


def evaluated(of: Evaluator, number: int, given: Report, *events: Event) -> Evaluated:
    return of.evaluate(given, events, second(number))


def kinds(result: Evaluated) -> list[Any]:
    return [(each.kind, (each.detail or {}).get("rule") or (each.detail or {}).get("check")) for each in result.records]


def test_findings_are_written_when_their_status_changes_and_alerts_when_they_do() -> None:
    of = evaluator()
    assert kinds(evaluated(of, 0, report("ok", 0.0))) == [("finding", "c"), ("alert", "c"), ("alert", "w")]
    assert kinds(evaluated(of, 10, report("ok", 0.01))) == []
    assert kinds(evaluated(of, 20, report("warn", 0.2))) == [("finding", "c"), ("alert", "c")]
    assert kinds(evaluated(of, 30, report("warn", 0.3))) == [("alert", "c")]
    assert kinds(evaluated(of, 40, report("warn", 0.3))) == []


def test_an_alert_event_has_the_numbers_the_window_and_the_place_but_no_text_of_a_model() -> None:
    of = evaluator()
    evaluated(of, 0, report("fail", 0.75))
    fired = evaluated(of, 10, report("fail", 0.8)).records[0]
    detail = dict(fired.detail or {})
    alert = detail.pop("alert")
    assert detail == {
        "rule": "c",
        "state": "firing",
        "previous_state": "pending",
        "change": "fired",
        "severity": "fail",
        "check": "c",
        "value": 0.8,
        "unit": "share of turns",
        "threshold": 0.5,
        "window": "the last 1 h",
        "incident": 1,
        "first_mover": "c",
        "evidence": {"session_id": "s", "turn": 3, "token_index": 7, "adapter": "bot", "kind": "stale", "value": 0.8},
    }
    assert (fired.kind, fired.severity, fired.adapter, fired.actor) == ("alert", "fail", "bot", "evaluator")
    assert fired.text == "c fired; over the last 1 h: one of two"
    assert alert_of(fired) == of.board.alerts["c"]
    assert isinstance(alert, dict)
    assert "secret" not in str(fired)


def test_a_finding_event_has_its_thresholds_and_how_many_faults() -> None:
    found = evaluated(evaluator(), 0, report("fail", math.nan)).records[0]
    detail = found.detail or {}
    assert (detail["status"], detail["value"], detail["faults"]) == ("fail", None, 1)
    assert detail["threshold"] == {"warn": 0.1, "fail": 0.5}
    assert (found.severity, status_of(found)) == ("fail", ("c", "fail"))
    assert "secret" not in str(found)


def test_what_is_notable_is_delivered_with_where_to_look() -> None:
    of = evaluator()
    assert evaluated(of, 0, report("fail", 0.75)).notices == ()
    (notice,) = evaluated(of, 10, report("fail", 0.75)).notices
    said = msgspec.json.decode(msgspec.json.encode(notice))
    assert said["text"] == "c fired; over the last 1 h: one of two"
    assert (said["store"], said["began_at"], said["at"]) == ("store", "2026-11-29T12:00:00Z", "2026-11-29T12:00:10Z")
    assert (said["check_next"], said["window"]) == (["look there"], "the last 1 h")


def test_a_silenced_alert_is_recorded_and_not_delivered() -> None:
    of = evaluator()
    evaluated(of, 0, report("fail", 0.75), silence("c", until=second(1000), actor="bo", at=second(-1)))
    fired = evaluated(of, 10, report("fail", 0.75))
    assert [(each.change, each.after.shown) for each in fired.transitions] == [("fired", "silenced")]
    assert fired.notices == ()


def test_two_alerts_of_one_moment_are_one_incident() -> None:
    of = evaluator()
    for number in (0, 10):
        result = evaluated(of, number, report("fail", 0.75, max_w=9.0))
    assert [each.title for each in result.board.incidents] == ["c = w"]
    assert [notice["rule"] for notice in result.notices] == ["c", "w"]


def test_a_restart_goes_on_where_the_records_end() -> None:
    timeline = [("ok", 0.0), ("warn", 0.2), ("warn", 0.2), ("fail", 0.6), ("ok", 0.0), ("ok", 0.0), ("warn", 0.3)]
    acked = acknowledge("c", actor="ana", at=second(25))
    for cut in range(len(timeline)):
        straight, other = evaluator(), evaluator()
        stored: list[Event] = []
        for number, (status, value) in enumerate(timeline):
            now = 10 * number
            new = [acked] if number == 3 else []
            if number == cut:
                other = evaluator()
                other.restore([*stored, *new] if number <= 3 else [*stored, acked])
                known = [*stored, *([acked] if number >= 3 else [])]
            else:
                known = new
            expected = straight.evaluate(report(status, value), new, second(now))  # type: ignore[arg-type]
            found = other.evaluate(report(status, value), known, second(now))  # type: ignore[arg-type]
            assert found.records == expected.records
            assert found.notices == expected.notices
            assert other.board == straight.board
            stored += [stored_form(each) for each in expected.records]


def stored_form(event: Event) -> Event:
    """The event as it comes out of JSON."""
    return msgspec.json.decode(msgspec.json.encode(event), type=Event)


def test_a_slow_evaluation_is_no_gap() -> None:
    at: list[datetime] = [second(0), second(1000)]
    slow, fast = evaluator(), evaluator()
    for now in at:
        slow.evaluate(report("fail", 0.75), (), now, took_s=900.0)
        fast.evaluate(report("fail", 0.75), (), now)
    assert slow.board.alerts["c"].state == "firing"
    assert fast.board.alerts["c"].state == "pending"


def test_events_of_others_are_passed_over() -> None:
    at = second(0)
    odd = [
        Event(at=at, kind="alert", text="somebody else's"),
        Event(at=at, kind="alert", detail={"alert": {"rule": 5}}),
        Event(at=at, kind="alert", detail={"alert": None}),
        Event(at=at, kind="finding", detail={"check": "c", "status": "odd"}),
        Event(at=at, kind="finding", detail={"check": 1}),
        Event(at=at, kind="acknowledge"),
        Event(at=at, kind="acknowledge", detail={"rule": 7}),
        Event(at=at, kind="silence", detail={"rule": "c"}),
        Event(at=at, kind="silence", detail={"rule": "c", "until": "soon"}),
        Event(at=at, kind="silence", detail={"rule": "c", "until": "2026-11-29T12:00:00"}),
        Event(at=at, kind="compaction", detail={"rule": "c"}),
    ]
    assert [act_of(each) for each in odd] == [None] * len(odd)
    of = evaluator()
    of.restore(odd)
    assert of.board.alerts == {}
    evaluated(of, 1, report("ok", 0.0), *odd)
    assert of.board.alerts["c"].state == "ok"
