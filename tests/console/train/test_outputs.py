"""What `roundhouse train` shows: plain lines, JSON lines, and when the next cycle starts."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from collector.records import Event, Step
from console.train.outputs import JsonLines, Lines, is_begun, outcome_lines, record_text, shown_on, waiting_text
from trainer.cycle.outcome import AdapterOutcome, CycleOutcome
from trainer.cycle.schedule import Due

AT = datetime(2026, 3, 1, 12, 0, 5, tzinfo=UTC)
OUTCOME = CycleOutcome(
    cycle=3,
    began_at=AT,
    ended_at=AT + timedelta(seconds=90.04),
    started_by="the time has come",
    adapters=(
        AdapterOutcome(adapter="bot", ending="nothing_new", reason="no session is new"),
        AdapterOutcome(adapter="bat", ending="refused", reason="worse\x1b[31m", version=4, parent=3, recovered=True),
    ),
)


def event(state: str, severity: str = "info") -> Event:
    detail: dict[str, object] = {"cycle": 3, "stage": "load", "state": state}
    return Event(at=AT, kind="cycle", severity=severity, text=f"bot@4: load {state}", detail=detail)  # type: ignore[arg-type]


def test_a_cycle_is_one_line_per_adapter_after_how_long_it_took():
    assert outcome_lines(OUTCOME) == [
        "cycle 3 took 90 s",
        "  bot: nothing new: no session is new",
        "  bat: refused (left behind by an earlier run): worse\x1b[31m",
    ]


def test_plain_lines_show_what_is_done_and_not_what_begins_and_escape_what_is_not_text(
    capfd: pytest.CaptureFixture[str],
):
    lines = Lines()
    lines.record(event("begun"))
    lines.record(event("done"))
    lines.record(event("failed", "fail"))
    lines.record(Step(adapter="bot", step=7, at=AT, loss=0.25, max_w=1.5))
    lines.cycle(OUTCOME)
    assert capfd.readouterr().out.splitlines() == [
        "12:00:05Z    bot@4: load done",
        "12:00:05Z  ! bot@4: load failed",
        "12:00:05Z    bot: step 7: loss 0.25, grad norm n/a, entropy n/a, max w 1.5, reward n/a",
        "cycle 3 took 90 s",
        "  bot: nothing new: no session is new",
        "  bat: refused (left behind by an earlier run): worse\\x1b[31m",
    ]


def test_json_is_one_object_per_cycle_and_nothing_else_on_stdout(capfd: pytest.CaptureFixture[str]):
    with shown_on(as_json=True, plain=False) as shown:
        assert isinstance(shown, JsonLines)
        shown.record(event("done"))
        shown.lines(["captured"])
        shown.waiting(Due(False, AT, "later"))
        shown.problem("the engine is away")
        shown.cycle(OUTCOME)
    said = capfd.readouterr()
    found = json.loads(said.out)
    assert [each["ending"] for each in found["adapters"]] == ["nothing_new", "refused"]
    assert said.err == "the engine is away\n"


def test_what_is_no_event_of_a_cycle_has_no_line():
    assert record_text(Event(at=AT, kind="proof", text="x")) is None
    assert is_begun(event("begun"))
    assert not is_begun(event("done"))


def test_the_next_start_is_in_local_time_or_what_is_waited_for():
    assert waiting_text(Due(False, AT, "the time has come")).startswith(f"next cycle: {AT.astimezone():%Y-%m-%d %H:%M}")
    assert waiting_text(Due(False, None, "1 of 2 feedback records are in")) == (
        "next cycle: when there is enough feedback; 1 of 2 feedback records are in"
    )
