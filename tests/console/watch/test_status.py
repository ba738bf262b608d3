"""What row 1 says: the state by what was read, and how rarely ages are told."""

from datetime import timedelta

import msgspec

from console.watch.held import Origin
from console.watch.holding import hold
from console.watch.log_part import LogPart
from console.watch.reading import Reading
from console.watch.status import Status, status_of, worth_telling
from tests.console.watch.fake_source import AT, steps

EMPTY = hold({}, source=Origin(path="store", format="store"))


def test_before_the_first_read_it_is_reading():
    assert status_of(Reading(), "live", None, AT) == Status(state="reading")


def test_a_store_without_a_record_is_no_data_and_not_zero_seconds_old():
    assert status_of(Reading(EMPTY), "live", None, AT) == Status(state="no_data")


def test_nothing_new_for_more_than_a_minute_is_stale():
    reading = Reading(steps(1))
    assert status_of(reading, "live", None, AT + timedelta(seconds=60)).state == "live"
    found = status_of(reading, "live", None, AT + timedelta(seconds=61))
    assert found == Status(state="stale", at=AT, lag_s=61.0, quiet_s=61.0)


def test_records_of_an_old_time_that_come_now_are_live_and_old():
    old = steps(1)._replace(came_at=AT + timedelta(hours=3))
    found = status_of(Reading(old), "live", None, AT + timedelta(hours=3, seconds=60))
    assert found == Status(state="live", at=AT, lag_s=10_860.0)
    later = status_of(Reading(old), "live", None, AT + timedelta(hours=3, seconds=61))
    assert (later.state, later.quiet_s, later.lag_s) == ("stale", 61.0, 10_861.0)


def test_a_record_ahead_of_the_clock_hides_nothing_and_is_said():
    ahead = steps(1)._replace(ahead_at=AT + timedelta(hours=24), came_at=AT)
    found = status_of(Reading(ahead), "live", None, AT + timedelta(seconds=61))
    assert found == Status(state="stale", at=AT, lag_s=61.0, quiet_s=61.0, ahead_s=24 * 3600 - 61.0)
    assert status_of(Reading(ahead), "live", None, AT + timedelta(hours=24, seconds=-60)).ahead_s is None


def test_where_every_record_is_ahead_no_age_is_told_and_what_came_tells_whether_it_is_written():
    newest = AT + timedelta(hours=24)
    ahead = steps(1)._replace(newest_at=newest, ahead_at=newest, came_at=AT)
    assert status_of(Reading(ahead), "live", None, AT) == Status(state="live", at=newest, ahead_s=86_400.0)
    assert status_of(Reading(ahead), "live", None, AT + timedelta(seconds=61)).state == "stale"


def test_a_clock_that_is_a_little_behind_gives_no_negative_age():
    found = status_of(Reading(steps(1)), "live", None, AT - timedelta(seconds=60))
    assert found == Status(state="live", at=AT, lag_s=0.0)


def test_a_log_is_read_whole_and_never_stale():
    log = steps(1)._replace(source=Origin(path="run.jsonl", format="verl"))
    found = status_of(Reading(log), "live", None, AT + timedelta(days=900))
    assert (found.state, found.at) == ("finished", AT)


def test_a_log_of_which_a_part_was_read_says_so_in_every_mode():
    part = LogPart(turns=3, share=0.25)
    log = steps(1)._replace(source=Origin(path="run.jsonl", format="verl", part=part))
    for mode in ("live", "paused", "replay"):
        found = status_of(Reading(log), mode, None, AT)
        assert (found.state, found.part) == ("part", part)
    failed = status_of(Reading(log, "gone"), "live", None, AT)
    assert (failed.state, failed.part) == ("disconnected", None)


def test_a_log_of_which_nothing_can_be_shown_yet_is_being_read_and_not_without_data():
    part = LogPart(turns=0, share=0.25)
    found = status_of(Reading(EMPTY._replace(source=Origin(path="run", format="", part=part))), "live", None, AT)
    assert found == Status(state="reading", part=part)


def test_how_far_a_log_is_read_is_told_by_whole_percents():
    told = Status(state="part", part=LogPart(turns=3, share=0.250))
    assert not worth_telling(told, msgspec.structs.replace(told, part=LogPart(turns=3, share=0.259)))
    assert worth_telling(told, msgspec.structs.replace(told, part=LogPart(turns=3, share=0.260)))


def test_a_failed_read_says_why_and_when_it_is_tried_again():
    reading = Reading(steps(1), "gone", AT + timedelta(seconds=12))
    found = status_of(reading, "live", None, AT + timedelta(seconds=10))
    assert found == Status(state="disconnected", at=AT, lag_s=10.0, error="gone", retry_in_s=2.0)


def test_a_replay_stands_at_its_own_time():
    found = status_of(Reading(steps(4)), "replay", AT + timedelta(seconds=1), AT + timedelta(seconds=5))
    assert found == Status(state="replay", at=AT + timedelta(seconds=1), lag_s=2.0, behind_s=2.0)


def test_ages_are_told_ever_more_rarely_and_states_at_once():
    live = Status(state="live", at=AT, lag_s=100.0)
    assert not worth_telling(live, msgspec.structs.replace(live, lag_s=109.0))
    assert worth_telling(live, msgspec.structs.replace(live, lag_s=112.0))
    assert worth_telling(live, msgspec.structs.replace(live, state="paused"))
    assert worth_telling(live, msgspec.structs.replace(live, error="gone"))
    young = Status(state="live", at=AT, lag_s=1.0)
    assert not worth_telling(young, msgspec.structs.replace(young, lag_s=1.9))
    assert worth_telling(young, msgspec.structs.replace(young, lag_s=2.0))
