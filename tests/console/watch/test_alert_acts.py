"""Acts on alerts: records in the store, read back; what is refused is said and writes nothing."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from checks.alerting.alert_event import ACTS as KINDS
from checks.alerting.alert_event import act_of
from checks.readers.event_tail import EventTail
from collector.records import Event
from collector.store.reader import Reader
from collector.store.writer import Writer
from console.watch.alert_acts import WRITER, ActRefused, Acts, silence_end
from console.watch.topic import Ask
from console.watch.views.alert_lines import AlertLine
from console.watch.views.alerts import AlertsBuilder
from tests.console.watch.alert_history import as_frame, evaluated
from tests.console.watch.fake_feed import held, no_log

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """An empty one that nobody writes."""
    Writer(tmp_path / "store", "collector").close()
    return tmp_path / "store"


def line(letters: str = "ff", acts: tuple[Event, ...] = ()) -> AlertLine:
    """An alert after these evaluations."""
    shown = AlertsBuilder().build(held(events=as_frame(evaluated({"entropy": letters}, acts=acts))), Ask(), no_log)
    return shown.groups[0].alerts[0]


def written(store: Path) -> list[Event]:
    """What people did, of the store."""
    with Reader(store).snapshot(["events"]) as snapshot:
        return EventTail().new(snapshot, KINDS)


def test_each_act_is_an_event_that_the_evaluator_understands(store: Path) -> None:
    acts = Acts(store, True, "ana")
    until = datetime.now(UTC) + timedelta(hours=1)
    acts.acknowledge(line())
    acts.silence(line(), until, "known until the engine is updated")
    acts.comment(line(), "looks like the fp8 engine")
    found = written(store)
    assert [(each.kind, each.actor, each.text) for each in found] == [
        ("acknowledge", "ana", None),
        ("silence", "ana", "known until the engine is updated"),
        ("comment", "ana", "looks like the fp8 engine"),
    ]
    told = [act_of(each) for each in found]
    assert [(act.kind, act.rule) for act in told if act is not None] == [(kind, "entropy") for kind in KINDS]
    assert told[1] is not None
    assert told[1].until == until


def test_read_only_writes_nothing_and_says_so(store: Path) -> None:
    before = sorted(path.name for path in (store / "journals").iterdir())
    with pytest.raises(ActRefused, match="read-only; start it with --rw"):
        Acts(store, False, "ana").acknowledge(line())
    assert sorted(path.name for path in (store / "journals").iterdir()) == before


@pytest.mark.parametrize(
    ("shown", "said"),
    [("w", "is pending: only an alert that has fired"), ("gn", "is no data: only an alert that has fired")],
)
def test_what_has_not_fired_cannot_be_acknowledged(store: Path, shown: str, said: str) -> None:
    with pytest.raises(ActRefused, match=said):
        Acts(store, True, "ana").acknowledge(line(shown))
    assert written(store) == []


def test_what_is_acknowledged_is_not_acknowledged_twice(store: Path) -> None:
    event = Acts(store, True, "ana").acknowledge(line())
    with pytest.raises(ActRefused, match="was acknowledged by ana"):
        Acts(store, True, "bo").acknowledge(line(acts=(event,)))


def test_a_silence_needs_a_reason_and_an_end_that_is_to_come(store: Path) -> None:
    acts = Acts(store, True, "ana")
    with pytest.raises(ActRefused, match="needs a reason"):
        acts.silence(line(), datetime.now(UTC) + timedelta(hours=1), "  ")
    with pytest.raises(ActRefused, match="is past"):
        acts.silence(line(), datetime.now(UTC) - timedelta(hours=1), "why")
    with pytest.raises(ActRefused, match="needs words"):
        acts.comment(line(), "")
    assert written(store) == []


def test_another_console_that_writes_is_named(store: Path) -> None:
    with Writer(store, WRITER), pytest.raises(ActRefused, match=r"another console is writing.*pid"):
        Acts(store, True, "ana").comment(line(), "words")


def test_a_log_has_nothing_to_write_to_and_no_selection_nothing_to_act_on() -> None:
    assert "not a store" in (Acts(None, True, "ana").refusal("comment", line()) or "")
    assert Acts(Path("s"), True, "ana").refusal("comment", None) == "no alert is selected"


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("1h", NOW + timedelta(hours=1)),
        (" 4H ", NOW + timedelta(hours=4)),
        ("30m", NOW + timedelta(minutes=30)),
        ("until 13:00", NOW + timedelta(hours=1)),
        ("11:30", NOW + timedelta(hours=23.5)),
        ("2026-12-01T08:00", datetime(2026, 12, 1, 8, tzinfo=UTC)),
        ("2026-12-01 08:00+02:00", datetime(2026, 12, 1, 6, tzinfo=UTC)),
    ],
)
def test_the_end_of_a_silence_is_read(text: str, end: datetime) -> None:
    assert silence_end(text, NOW) == end


@pytest.mark.parametrize("text", ["", "h", "0h", "25:00", "soon", "99999999999d", "-1h"])
def test_what_is_no_end_is_refused_with_what_would_be(text: str) -> None:
    with pytest.raises(ActRefused, match="expected 1h, 4h"):
        silence_end(text, NOW)
