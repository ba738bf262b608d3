"""The alerts as the evaluator wrote them: states, incidents, evidence, and whether anybody evaluates."""

from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from checks.alerts import acknowledge, comment, silence
from checks.finding import Evidence
from checks.readers.open_log import open_log
from checks.suite import CHECKS, run, select_checks
from collector.records import Event
from collector.store.writer import Writer
from console.watch.evaluator_lock import evaluator_running
from console.watch.held import Held, Origin
from console.watch.holding import hold
from console.watch.plain.alert_text import evaluator_text
from console.watch.plain.alerts import plain_alerts
from console.watch.source.log_rows import rows_of
from console.watch.topic import Ask
from console.watch.views.alert_board import alert_counts
from console.watch.views.alert_lines import AlertLine, alert_lines
from console.watch.views.alerts import AlertsBuilder, AlertsView
from console.watch.views.place import Place
from console.watch.views.signal_findings import SignalChecks
from tests.console.watch.alert_history import EVERY_S, START, as_frame, evaluated
from tests.console.watch.fake_feed import held, no_log
from tests.console.watch.small_held import frame, turn

SAMPLES = Path(__file__).parents[4] / "samples"
WORST = Evidence(session_id="7f3a91c2", turn=4, token_index=1187, adapter="refund", value=8.32, kind="stale")


def holding(events: list[Event], **changed: object) -> Held:
    """What is held, read after the last event."""
    return held(events=as_frame(events), read_at=START + timedelta(seconds=EVERY_S * 20), **changed)


def view(events: list[Event], *selected: str, **changed: object) -> AlertsView:
    """As the screen has it."""
    return AlertsBuilder().build(holding(events, **changed), Ask(selected=selected), no_log)


def lines(shown: AlertsView) -> dict[str, AlertLine]:
    """Rule to its line."""
    return {line.rule: line for group in shown.groups for line in group.alerts}


@pytest.mark.parametrize(
    ("letters", "shown", "state"),
    [
        ("w", "PENDING", "pending"),
        ("ww", "FIRING", "warning"),
        ("ff", "FIRING", "critical"),
        ("wwf", "FIRING", "critical"),
        ("wwg", "RECOVERING", "recovering"),
        ("ggn", "NO DATA", "no_data"),
        ("ffn", "NO DATA, WAS FIRING", "critical"),
        ("wwn", "NO DATA, WAS FIRING", "warning"),
    ],
)
def test_each_state_is_shown_as_the_evaluator_left_it(letters: str, shown: str, state: str) -> None:
    line = lines(view(evaluated({"truncation": letters})))["truncation"]
    assert (line.shown, line.state) == (shown, state)


def test_what_is_ok_is_counted_and_not_listed() -> None:
    found = view(evaluated({"truncation": "ww", "mfu": "gg", "entropy": "wwgg"}))
    assert set(lines(found)) == {"truncation"}
    assert found.ok == 2


def test_alerts_that_began_together_are_one_incident_and_the_first_is_its_title() -> None:
    found = view(evaluated({"staleness": "wwwww", "grad-norm": "ggwww", "mfu": "ggggw"}))
    incident, other = found.groups
    assert (incident.incident, incident.title, incident.began_at) == (1, "staleness", START)
    assert [line.rule for line in incident.alerts] == ["staleness", "grad-norm"]
    assert other.incident is None
    assert [line.rule for line in other.alerts] == ["mfu"]


def test_two_that_began_at_one_time_are_a_tie() -> None:
    (incident,) = view(evaluated({"staleness": "www", "entropy": "www"})).groups
    assert incident.title == "entropy = staleness"


def test_the_gravest_is_first_and_chosen() -> None:
    found = view(evaluated({"staleness": "www", "importance-weight": "gff"}))
    assert [line.rule for line in found.groups[0].alerts] == ["importance-weight", "staleness"]
    assert found.detail is not None
    assert found.detail.line.rule == "importance-weight"


def test_an_acknowledgement_after_the_last_evaluation_is_shown_at_once() -> None:
    at = START + timedelta(seconds=EVERY_S * 5)
    events = evaluated({"truncation": "fff"}, acts=[acknowledge("truncation", actor="ana", at=at)])
    line = lines(view(events))["truncation"]
    assert (line.state, line.shown, line.who) == ("acked", "ACKED", "ana")


def test_a_silence_is_shown_with_its_end_and_lapses_by_itself() -> None:
    at, until = START + timedelta(seconds=35), START + timedelta(seconds=EVERY_S * 30)
    events = evaluated(
        {"truncation": "fff"}, acts=[silence("truncation", until=until, actor="bo", at=at, text="known")]
    )
    found = view(events)
    line = lines(found)["truncation"]
    assert (line.state, line.who, line.until) == ("silenced", "bo", until)
    assert found.silences_end == until
    later = lines(AlertsBuilder().build(holding(events)._replace(read_at=until), Ask(), no_log))["truncation"]
    assert (later.state, later.until) == ("critical", None)


def test_a_rule_that_is_watched_no_more_is_gone() -> None:
    events = evaluated({"truncation": "ff"})
    last = [each for each in events if each.kind == "alert"][-1]
    gone = {"rule": "truncation", "change": "dropped", "alert": {"rule": "truncation", "since": last.at}}
    events.append(msgspec.structs.replace(last, detail=gone))
    assert view(events).groups == ()


def test_the_detail_has_the_place_the_comment_and_the_timeline_in_order() -> None:
    at = START + timedelta(seconds=EVERY_S * 2 + 1)
    acts = [comment("importance-weight", actor="ana", at=at, text="fp8 engine?")]
    events = evaluated({"staleness": "wwww", "importance-weight": "gfff"}, acts=acts,
                       evidence={"importance-weight": WORST})  # fmt: skip
    detail = view(events, "importance-weight").detail
    assert detail is not None
    assert detail.line.place == Place(session_id="7f3a91c2", turn=4, token_index=1187, adapter="refund", kind="stale",
                                      value=8.32)  # fmt: skip
    assert [fault.place for fault in detail.evidence] == [detail.line.place]
    assert detail.first_mover == "staleness"
    said = [(moment.what, moment.who, moment.text) for moment in detail.timeline]
    assert said == [
        ("staleness began", None, None),
        ("importance-weight ok", None, None),
        ("importance-weight pending", None, None),
        ("importance-weight firing", None, None),
        ("comment", "ana", "fp8 engine?"),
    ]
    assert detail.history[-1][1] == 0.3


CUT = frame("turns", [turn("s-cut", 1, 60, finish_reason="length"), turn("s-cut", 2, 50, finish_reason="stop"),
                      turn("s-long", 1, 40, finish_reason="length", completion_tokens=4096)])  # fmt: skip


def test_a_check_of_rows_alone_shows_all_it_names_now_and_its_hints() -> None:
    events = evaluated({"truncation": "ww"}, evidence={"truncation": Evidence(session_id="s-cut", turn=1)})
    detail = view(events, "truncation", turns=CUT).detail
    assert detail is not None
    assert [(each.place.session_id, each.place.turn) for each in detail.evidence] == [("s-cut", 1), ("s-long", 1)]
    assert (detail.evidence_total, detail.evidence_of) == (2, "what is read now")
    assert detail.check_next == ("max_tokens", "the context limit", "reward-eval-gap (a cut answer earns nothing)")


@pytest.mark.parametrize("check", ["truncation", "feedback"])
def test_what_such_a_check_names_is_what_the_report_says_of_the_same_log(check: str) -> None:
    path = SAMPLES / check / "fires.jsonl"
    (expected,) = run(open_log(path), checks=select_checks([check])).findings
    rows = rows_of(open_log(path))
    found = SignalChecks().of_check(hold(rows.frames, source=Origin(path="x", format=rows.format)), check)
    assert found is not None
    assert found.evidence
    assert (found.status, found.value, found.check_next) == (expected.status, expected.value, expected.check_next)
    assert found.evidence == expected.evidence[: len(found.evidence)]
    assert len(found.evidence) + found.evidence_omitted == len(expected.evidence)


def test_a_check_of_other_tokens_says_that_more_is_not_read_and_has_the_hints_of_its_page() -> None:
    events = evaluated({"length-mismatch": "ww"}, evidence={"length-mismatch": Evidence(session_id="s-cut", turn=1)})
    shown = view(events, "length-mismatch", turns=CUT)
    detail = shown.detail
    assert detail is not None
    assert [(each.place.session_id, each.place.turn) for each in detail.evidence] == [("s-cut", 1)]
    assert (detail.evidence_total, detail.evidence_of) == (None, "the alert's own records")
    assert detail.check_next[0].startswith("the code that joins ids and log-probabilities")
    text = "\n".join(plain_alerts(shown, 120))
    assert "EVIDENCE (worst first, the alert's own records; what else the check found is not read here)" in text
    assert "1 of 1" not in text


@pytest.mark.parametrize("check", [check.name for check in CHECKS if check.name != "first-mover"])
def test_every_check_has_hints(check: str) -> None:
    detail = view(evaluated({check: "ff"}), check).detail
    assert detail is not None
    assert detail.check_next
    assert all(detail.check_next)


def test_a_filter_narrows_the_list_by_the_words_of_its_fields() -> None:
    builder = AlertsBuilder()
    events = evaluated({"staleness": "www", "importance-weight": "fff", "mfu": "gnn"})
    found = builder.build(holding(events), Ask(filter="state:firing sev:warn"), no_log)
    assert set(lines(found)) == {"staleness"}


def test_the_counts_of_row_one_leave_out_what_is_quiet() -> None:
    events = evaluated(
        {"staleness": "www", "importance-weight": "fff", "mfu": "gnn", "entropy": "ggg", "grad-norm": "ggw"}
    )
    assert alert_counts(holding(events)) == {"warning": 1, "critical": 1, "pending": 1}


def test_an_event_that_says_nothing_readable_is_counted_and_breaks_nothing() -> None:
    broken = Event(at=START, kind="alert", detail={"rule": "x", "alert": {"rule": 5}})
    found = view([broken, *evaluated({"staleness": "ww"})])
    assert found.unreadable == 1
    assert "✕ 1 unreadable" in plain_alerts(found, 80)[0]
    assert set(lines(found)) == {"staleness"}


def test_a_replay_shows_the_alerts_as_they_stood() -> None:
    events = evaluated({"staleness": "wwwgg"})
    whole = holding(events)
    then = whole._replace(events=whole.events.filter(whole.events["at"] <= START + timedelta(seconds=EVERY_S)),
                          replayed_at=START + timedelta(seconds=EVERY_S))  # fmt: skip
    assert alert_lines(whole) == ()
    assert [line.shown for line in alert_lines(then)] == ["FIRING"]


def test_no_evaluator_is_said_in_capitals(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with Writer(store, "collector"):
        events = evaluated({"staleness": "ww"})
        source = Origin(path=str(store), format="store")
        assert view(events, source=source).evaluating is False
        with Writer(store, "evaluator"):
            assert view(events, source=source).evaluating is True
            silent = "an evaluator runs; nothing was written by one yet"
            assert evaluator_text(view([], source=source)) == silent
        stopped = view(events, source=source)
    assert stopped.evaluating is False
    assert "NO EVALUATOR RUNS" in evaluator_text(stopped)
    assert any("NO EVALUATOR RUNS" in line for line in plain_alerts(stopped, 80))


def test_of_a_log_and_of_a_replay_it_is_not_known_who_evaluates(tmp_path: Path) -> None:
    events = evaluated({"staleness": "ww"})
    assert view(events, source=Origin(path="x.jsonl", format="native")).evaluating is None
    assert view(events, replayed_at=START).evaluating is None
    assert evaluator_running(tmp_path / "nothing") is None


def test_the_text_twin_says_every_alert_with_its_limit_place_and_person() -> None:
    at = START + timedelta(seconds=EVERY_S * 5)
    events = evaluated({"importance-weight": "fff"}, acts=[acknowledge("importance-weight", actor="ana", at=at)],
                       evidence={"importance-weight": WORST})  # fmt: skip
    said = plain_alerts(view(events), 80)
    assert said[0] == "ALERTS  1 acked · 0 ok"
    line = next(each for each in said if each.startswith("  ◇"))
    for word in ("CRIT", "ACKED", "importance-weight", "0.3 nats, limit 0.1", "refund", "7f3a91c2·4·1187", "ana"):
        assert word in line


def test_control_sequences_in_a_comment_do_not_reach_the_terminal() -> None:
    evil = comment("staleness", actor="a\x1b[31m", at=START + timedelta(seconds=40), text="\x1b]52;c;ZXZpbA==\x07")
    said = "\n".join(plain_alerts(view(evaluated({"staleness": "www"}, acts=[evil])), 80))
    assert "\x1b" not in said
    assert "\\x1b]52" in said
