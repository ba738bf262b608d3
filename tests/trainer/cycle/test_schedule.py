"""When a cycle starts: by the clock, by feedback, inside windows, and once after it was missed."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from collector.errors import UserError
from trainer.cycle.schedule import Past, Schedule, due, duration, idle_window, schedule_of
from trainer.cycle.schedule_config import ScheduleConfig

NOON = datetime(2026, 3, 10, 12, 0, tzinfo=UTC)
HOURLY = Schedule(every=timedelta(hours=1))
NIGHT = (idle_window("22:00-06:00"),)


def past(ago: timedelta | None, *, ended: bool = True, new_feedback: int = 0) -> Past:
    return Past(None if ago is None else NOON - ago, ended, new_feedback)


@pytest.mark.parametrize(("text", "seconds"), [("45s", 45), ("30m", 1800), ("5h", 18000), ("1d", 86400), ("90m", 5400)])
def test_a_duration_is_a_number_and_a_unit(text: str, seconds: int) -> None:
    assert duration(text, "--every").total_seconds() == seconds


@pytest.mark.parametrize("text", ["", "5", "h", "0h", "-5h", "5 h", "1.5h", "5w", "5h30m", "٥h"])
def test_another_duration_is_refused_by_the_name_of_its_option(text: str) -> None:
    with pytest.raises(UserError, match=r"--every is .*expected a number and s, m, h or d"):
        duration(text, "--every")


@pytest.mark.parametrize("text", ["1:00-6:00", "01:00", "01:00-01:00", "24:00-06:00", "01:60-02:00", "01:00-06:00 "])
def test_a_window_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="expected two different local times"):
        idle_window(text)


def test_the_command_line_goes_before_the_section() -> None:
    config = ScheduleConfig(every="5h", min_feedback=10, idle_windows=("01:00-06:00",))
    assert schedule_of(config).every == timedelta(hours=5)
    assert schedule_of(config, every="30m", min_feedback=3) == Schedule(
        timedelta(minutes=30), 3, (idle_window("01:00-06:00"),)
    )
    with pytest.raises(UserError, match=r"\[trainer.schedule\] every is 'often'"):
        schedule_of(ScheduleConfig(every="often"))


def test_the_first_cycle_is_due_at_once_and_the_next_one_an_interval_after_its_start() -> None:
    assert due(HOURLY, past(None), NOON).now
    waiting = due(HOURLY, past(timedelta(minutes=20)), NOON)
    assert not waiting.now
    assert waiting.at == NOON + timedelta(minutes=40)
    assert due(HOURLY, past(timedelta(hours=1)), NOON).now


def test_however_many_were_missed_one_is_run() -> None:
    missed = due(HOURLY, past(timedelta(days=3)), NOON)
    assert missed.now
    assert missed.reason == "a cycle was missed"
    # It began now, so the next one is an interval away, not one of the 71 others.
    assert due(HOURLY, past(timedelta(0)), NOON).at == NOON + timedelta(hours=1)


def test_a_cycle_that_was_cut_short_is_due_at_once_under_any_schedule() -> None:
    for schedule in (HOURLY, Schedule(min_feedback=100)):
        found = due(schedule, past(timedelta(minutes=1), ended=False), NOON)
        assert found.now
        assert found.reason == "the last cycle was cut short"


def test_feedback_starts_a_cycle_from_the_number_on_and_before_the_time() -> None:
    by_feedback = Schedule(min_feedback=5)
    short = due(by_feedback, past(timedelta(days=9), new_feedback=4), NOON)
    assert (short.now, short.at) == (False, None)
    assert short.reason == "4 of 5 feedback records are in"
    assert due(by_feedback, past(timedelta(0), new_feedback=5), NOON).now
    both = Schedule(timedelta(hours=1), 5)
    assert due(both, past(timedelta(minutes=1), new_feedback=5), NOON).now
    assert due(both, past(timedelta(minutes=61), new_feedback=0), NOON).now


def test_without_a_schedule_nothing_is_ever_due() -> None:
    found = due(Schedule(), past(timedelta(days=1), new_feedback=10**6), NOON)
    assert (found.now, found.at) == (False, None)
    assert not Schedule().repeats


def test_a_start_written_by_a_clock_that_was_ahead_does_not_stop_the_schedule() -> None:
    assert due(HOURLY, past(-timedelta(days=365)), NOON).now


def test_a_cycle_waits_for_its_window_and_a_window_reaches_over_midnight() -> None:
    nightly = Schedule(timedelta(hours=1), windows=NIGHT)
    by_day = due(nightly, past(timedelta(hours=2)), NOON, UTC)
    assert (by_day.now, by_day.at) == (False, datetime(2026, 3, 10, 22, 0, tzinfo=UTC))
    assert "cycles start within 22:00-06:00" in by_day.reason
    for hour, inside in ((21, False), (22, True), (23, True)):
        at = datetime(2026, 3, 10, hour, 0, tzinfo=UTC)
        assert due(nightly, Past(None, True, 0), at, UTC).now is inside
    for minute, inside in ((59, True), (60, False)):
        at = datetime(2026, 3, 11, 5, 0, tzinfo=UTC) + timedelta(minutes=minute)
        assert due(nightly, Past(None, True, 0), at, UTC).now is inside


def test_a_time_that_lies_in_a_window_already_is_not_put_off() -> None:
    nightly = Schedule(timedelta(hours=11), windows=NIGHT)
    found = due(nightly, past(timedelta(0)), NOON, UTC)
    assert found.at == NOON + timedelta(hours=11)


def test_windows_follow_the_clock_on_the_wall_through_a_change_of_daylight_saving() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    mornings = Schedule(timedelta(hours=1), windows=(idle_window("04:00-05:00"),))
    # 29 March 2026: clocks went from 02:00 CET (UTC+1) to 03:00 CEST (UTC+2).
    saturday_noon = datetime(2026, 3, 28, 11, 0, tzinfo=UTC)
    assert due(mornings, Past(None, True, 0), saturday_noon, berlin).at == datetime(2026, 3, 29, 2, 0, tzinfo=UTC)
    friday_noon = datetime(2026, 3, 27, 11, 0, tzinfo=UTC)
    assert due(mornings, Past(None, True, 0), friday_noon, berlin).at == datetime(2026, 3, 28, 3, 0, tzinfo=UTC)


def test_feedback_outside_a_window_waits_for_it() -> None:
    nightly = Schedule(min_feedback=1, windows=NIGHT)
    found = due(nightly, past(timedelta(minutes=1), new_feedback=3), NOON, UTC)
    assert (found.now, found.at) == (False, datetime(2026, 3, 10, 22, 0, tzinfo=UTC))


def test_a_window_that_the_clocks_skip_waits_for_the_next_day():
    # On 8 March 2026 New York went from 02:00 to 03:00: 02:30 is read as 03:30, after the window's end at 03:15.
    zone = ZoneInfo("America/New_York")
    schedule = Schedule(every=timedelta(hours=1), windows=(idle_window("02:30-03:15"),))
    at = datetime(2026, 3, 8, 6, 0, tzinfo=UTC)
    past = Past(at - timedelta(hours=5), True, 0)
    for now in (at, datetime(2026, 3, 8, 7, 5, tzinfo=UTC), datetime(2026, 3, 8, 7, 30, tzinfo=UTC)):
        found = due(schedule, past, now, zone)
        assert (found.now, found.at) == (False, datetime(2026, 3, 9, 6, 30, tzinfo=UTC))
    opened = due(schedule, past, datetime(2026, 3, 9, 6, 30, tzinfo=UTC), zone)
    assert opened.now


def test_the_time_has_come_only_when_it_has():
    began = datetime(2026, 3, 8, 6, 0, tzinfo=UTC)
    schedule = Schedule(every=timedelta(hours=5))
    reasons = [due(schedule, Past(began, True, 0), began + timedelta(hours=hours)).reason for hours in (1, 5, 11)]
    assert reasons == ["by the time since the last one began", "the time has come", "a cycle was missed"]
