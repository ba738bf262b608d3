"""The feed reads and builds in threads of its own: what it posts, when, and what it does not wait for."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from datetime import datetime, timedelta

import polars as pl
import pytest

from collector.errors import UserError
from console.watch.builder import Built, Failed
from console.watch.feed import Feed
from console.watch.held import Held, Origin
from console.watch.log_part import LogPart
from console.watch.status import Status
from console.watch.topic import Ask, OpenLog, Topic, View
from tests.console.watch.fake_source import AT, COUNT, Count, FakeSource, Posted, count, steps

NOW = AT + timedelta(seconds=30)


@contextmanager
def feeding(source: FakeSource, **settings: object) -> Generator[tuple[Feed, Posted]]:
    """A feed that was started, on a clock that stands still unless another one is given."""
    feed = Feed(lambda: source, interval_s=0.005, **{"clock": lambda: NOW, **settings})  # pyright: ignore[reportArgumentType]
    posted = Posted()
    feed.start(posted)
    try:
        yield feed, posted
    finally:
        source.go_on.set()
        feed.close()


def test_a_view_is_built_when_it_is_asked_for_and_again_when_more_is_held():
    source = FakeSource(steps(2))
    with feeding(source) as (feed, posted):
        feed.ask(COUNT, Ask())
        posted.wait_for(Count(steps=2))
        source.next = steps(5)
        posted.wait_for(Count(steps=5))
    assert posted.views() == [Count(steps=2), Count(steps=5)]
    assert posted.states() == ["live"]


def part_of(number: int, turns: int = 3) -> Held:
    """So many steps as the part of a log."""
    return steps(number)._replace(source=Origin(path="run", format="native", part=LogPart(turns=turns)))


WHOLE = Origin(path="run", format="native")
OF_PART: Topic[Ask] = Topic("of_part", count, of_part=True)


def test_of_a_part_only_what_can_be_told_of_one_is_built_and_all_of_the_whole():
    source = FakeSource(part_of(2))
    with feeding(source) as (feed, posted):
        feed.ask(COUNT, Ask())
        feed.ask(OF_PART, Ask())
        posted.wait_for(Count(steps=2))
        source.next = part_of(3)
        posted.wait_for(Count(steps=3))
        source.next = steps(9)._replace(source=WHOLE)
        posted.wait_for(lambda each: isinstance(each, Built) and (each.topic, each.view) == ("count", Count(steps=9)))
        posted.wait_for(lambda each: isinstance(each, Built) and (each.topic, each.view) == ("of_part", Count(steps=9)))
    assert [each.view for each in posted.all if isinstance(each, Built) and each.topic == "count"] == [Count(steps=9)]
    assert posted.states() == ["part", "finished"]


def test_how_far_a_log_is_read_is_told_and_nothing_is_built_for_it():
    first = part_of(2)
    built: list[Held] = []

    def noted(held: Held, ask: Ask, log: OpenLog) -> Count:
        built.append(held)
        return count(held, ask, log)

    source = FakeSource(first)
    with feeding(source) as (feed, posted):
        feed.ask(Topic("noted", noted, of_part=True), Ask())
        posted.wait_for(Count(steps=2))
        further = LogPart(turns=3, share=0.5)
        source.next = first._replace(source=Origin(path="run", format="native", part=further))
        posted.wait_for(lambda each: isinstance(each, Status) and each.part == further)
        source.next = steps(9)._replace(source=WHOLE)
        posted.wait_for(Count(steps=9))
    assert [held.steps.height for held in built] == [2, 9]


def test_before_a_part_can_be_shown_nothing_is_built():
    source = FakeSource(part_of(0, turns=0))
    with feeding(source) as (feed, posted):
        feed.ask(OF_PART, Ask())
        source.next = part_of(0, turns=0)
        source.next = steps(9)._replace(source=WHOLE)
        posted.wait_for(Count(steps=9))
    assert posted.views() == [Count(steps=9)]


def test_a_replay_and_a_window_are_of_the_whole_log():
    for settings in ({"at": lambda held: AT}, {"within": lambda held, now: held}):
        source = FakeSource(part_of(2))
        with feeding(source, **settings) as (feed, posted):
            feed.ask(OF_PART, Ask())
            posted.wait_for(lambda each: isinstance(each, Status) and each.state == "part")
            for _ in range(3):
                source.polled.acquire(timeout=30)
            source.next = steps(9)._replace(source=WHOLE)
            # Of the replay at the time of the first step there is that one alone.
            posted.wait_for(Count(steps=1 if "at" in settings else 9))
        assert len(posted.views()) == 1


def test_a_pause_does_not_hold_a_part():
    source = FakeSource(part_of(2))
    with feeding(source) as (feed, posted):
        feed.ask(OF_PART, Ask())
        posted.wait_for(Count(steps=2))
        feed.pause()
        source.next = steps(9)._replace(source=WHOLE)
        posted.wait_for(Count(steps=9))
    assert posted.states() == ["part", "paused"]


def test_nothing_is_built_again_while_neither_what_is_held_nor_what_is_asked_changed():
    built: list[Ask] = []

    def noted(held: Held, ask: Ask, log: OpenLog) -> Count:
        built.append(ask)
        return count(held, ask, log)

    source = FakeSource(steps(2))
    with feeding(source) as (feed, posted):
        topic = Topic("count", noted)
        feed.ask(topic, Ask())
        posted.wait_for(Count(steps=2))
        for _ in range(20):
            source.polled.acquire(timeout=30)
        feed.ask(topic, Ask())
        feed.ask(topic, Ask(first=50))
        posted.wait_for(lambda each: isinstance(each, Built) and each.ask == Ask(first=50))
    assert built == [Ask(), Ask(first=50)]


def test_a_source_that_signals_is_not_looked_at_before_it_does():
    source = FakeSource(steps(2))
    ours, theirs = os.pipe()
    source.descriptors = (ours,)
    with feeding(source) as (feed, posted):
        feed.ask(COUNT, Ask())
        posted.wait_for(Count(steps=2))
        assert source.polled.acquire(timeout=30)
        assert source.polled.acquire(timeout=30)
        assert not source.polled.acquire(timeout=0.5)
        source.next = steps(5)
        os.write(theirs, b".")
        posted.wait_for(Count(steps=5))
        os.read(ours, 1)
    os.close(theirs)
    os.close(ours)


def test_a_view_that_shows_the_same_is_not_posted_again():
    source = FakeSource(steps(2))
    with feeding(source) as (feed, posted):
        feed.ask(COUNT, Ask())
        posted.wait_for(Count(steps=2))
        source.next = steps(2, revision=7)
        posted.wait_for(Count(steps=2))
        source.next = steps(3)
        posted.wait_for(Count(steps=3))
    assert posted.views() == [Count(steps=2), Count(steps=3)]


def test_what_is_asked_while_a_look_sleeps_is_answered_before_it_ends():
    source = FakeSource(steps(2))
    with feeding(source) as (feed, posted):
        feed.ask(COUNT, Ask())
        posted.wait_for(Count(steps=2))
        source.go_on.clear()
        source.looking.clear()
        assert source.looking.wait(30)
        feed.ask(COUNT, Ask(first=50))
        posted.wait_for(lambda each: isinstance(each, Built) and each.ask == Ask(first=50))
        assert not source.go_on.is_set()
        feed.pause()
        posted.wait_for(lambda each: isinstance(each, Status) and each.state == "paused")
        assert not source.go_on.is_set()


def test_a_topic_that_waits_for_tokens_does_not_stop_another():
    source = FakeSource(steps(2))
    slow_began = Posted()

    def slow(held: Held, ask: Ask, log: OpenLog) -> Count:
        slow_began(Status(state="reading"))
        source.go_on.wait(60)
        return Count(steps=-1)

    with feeding(source) as (feed, posted):
        feed.ask(COUNT, Ask())
        posted.wait_for(Count(steps=2))
        source.go_on.clear()
        feed.ask(Topic("slow", slow), Ask())
        slow_began.wait_for(Status(state="reading"))
        feed.ask(COUNT, Ask(first=1))
        posted.wait_for(lambda each: isinstance(each, Built) and each.ask == Ask(first=1))
        assert Count(steps=-1) not in posted.views()
        source.go_on.set()
        posted.wait_for(Count(steps=-1))


def test_a_hidden_screen_is_not_built():
    source = FakeSource(steps(2))
    with feeding(source) as (feed, posted):
        feed.ask(COUNT, Ask())
        posted.wait_for(Count(steps=2))
        feed.forget("count")
        source.next = steps(3)
        posted.wait_for(lambda each: isinstance(each, Status) and each.at == AT + timedelta(seconds=2))
        feed.ask(Topic("other", count), Ask())
        posted.wait_for(lambda each: isinstance(each, Built) and each.topic == "other")
    assert [each.topic for each in posted.all if isinstance(each, Built)] == ["count", "other"]


def test_pause_freezes_the_view_and_says_how_far_behind_it_is():
    source = FakeSource(steps(2))
    with feeding(source) as (feed, posted):
        feed.ask(COUNT, Ask())
        posted.wait_for(Count(steps=2))
        feed.pause()
        source.next = steps(9)
        posted.wait_for(lambda each: isinstance(each, Status) and each.behind_s == 7.0)
        feed.ask(COUNT, Ask(first=1))
        posted.wait_for(lambda each: isinstance(each, Built) and each.ask == Ask(first=1))
        assert posted.views()[-1] == Count(steps=2)
        feed.live()
        posted.wait_for(Count(steps=9))
    assert posted.states() == ["live", "paused", "live"]


def test_replay_shows_a_time_and_steps_through_the_moments():
    source = FakeSource(steps(5))
    with feeding(source) as (feed, posted):
        feed.ask(COUNT, Ask())
        posted.wait_for(Count(steps=5))
        feed.seek(AT + timedelta(seconds=2))
        posted.wait_for(Count(steps=3))
        assert feed.status == Status(state="replay", at=AT + timedelta(seconds=2), lag_s=26.0, behind_s=2.0)
        feed.step(-1)
        posted.wait_for(Count(steps=2))
        feed.step(-9)
        posted.wait_for(Count(steps=1))
        feed.step(3)
        posted.wait_for(Count(steps=4))
        feed.step(9)
        posted.wait_for(lambda each: isinstance(each, Status) and each.state == "live" and each is not posted.all[0])
    assert feed.status.state == "live"
    assert posted.states() == ["live", "replay", "live"]


def test_it_begins_in_replay_where_a_time_is_given():
    source = FakeSource(steps(5))
    with feeding(source, at=lambda held: AT + timedelta(seconds=1)) as (feed, posted):
        feed.ask(COUNT, Ask())
        posted.wait_for(Count(steps=2))
    assert posted.states() == ["replay"]
    assert posted.views() == [Count(steps=2)]


def test_a_time_that_is_none_in_what_was_read_is_said_and_the_feed_is_live():
    def no_time(held: Held) -> object:
        raise UserError("no step 9")

    source = FakeSource(steps(5))
    with feeding(source, at=no_time) as (feed, posted):
        feed.ask(COUNT, Ask())
        posted.wait_for(Count(steps=5))
        assert (feed.status.state, feed.status.error) == ("live", "no step 9")
        feed.live()
        assert feed.status.error is None


def test_a_window_is_cut_out_of_what_is_shown():
    def last_two(held: Held, now: object) -> Held:
        return held._replace(steps=held.steps.tail(2))

    source = FakeSource(steps(5))
    with feeding(source, within=last_two) as (feed, posted):
        feed.ask(COUNT, Ask())
        posted.wait_for(Count(steps=2))
        feed.seek(AT)
        posted.wait_for(Count(steps=1))


def test_a_source_that_fails_is_disconnected_keeps_what_it_had_and_comes_back():
    source = FakeSource(steps(2))
    with feeding(source, retry_s=(0.01,)) as (feed, posted):
        feed.ask(COUNT, Ask())
        posted.wait_for(Count(steps=2))
        source.error = "store: gone,\n expected a store"
        posted.wait_for(lambda each: isinstance(each, Status) and each.state == "disconnected")
        assert feed.status.error == "store: gone, expected a store"
        assert feed.status.at == AT + timedelta(seconds=1)
        assert source.closed
        feed.ask(COUNT, Ask(first=1))
        posted.wait_for(lambda each: isinstance(each, Built) and each.ask == Ask(first=1))
        source.next, source.error = steps(4), None
        posted.wait_for(Count(steps=4))
    assert posted.states() == ["live", "disconnected", "live"]


def test_a_view_that_cannot_be_built_is_said_in_its_place():
    def refused(held: Held, ask: Ask, log: OpenLog) -> Count:
        raise UserError("no session 7f3a")

    with feeding(FakeSource(steps(1))) as (feed, posted):
        feed.ask(Topic("count", refused), Ask())
        posted.wait_for(Failed("count", Ask(), "no session 7f3a"))


class Clock:
    """A clock that a test turns."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


class Age(View, frozen=True, kw_only=True):
    """How long before the time it is built for the first step was."""

    seconds: float


def age_of(held: Held, ask: Ask, log: OpenLog) -> Age:
    """Tells it."""
    return Age(seconds=((held.replayed_at or held.read_at) - AT).total_seconds())


AGE: Topic[Ask] = Topic("age", age_of, tells_ages=True)


def test_what_tells_ages_is_built_anew_each_minute_though_nothing_is_written_and_nothing_else_is():
    built: list[Held] = []

    def noted(held: Held, ask: Ask, log: OpenLog) -> Count:
        built.append(held)
        return count(held, ask, log)

    source, clock = FakeSource(steps(2)), Clock()
    with feeding(source, clock=clock) as (feed, posted):
        feed.ask(AGE, Ask())
        feed.ask(Topic("noted", noted), Ask())
        posted.wait_for(Age(seconds=30.0))
        posted.wait_for(Count(steps=2))
        clock.now += timedelta(seconds=59)
        looked(source)
        assert Age(seconds=89.0) not in posted.views()
        clock.now += timedelta(seconds=1)
        posted.wait_for(Age(seconds=90.0))
        clock.now += timedelta(hours=1)
        posted.wait_for(Age(seconds=3690.0))
        looked(source)
    assert [each for each in posted.views() if isinstance(each, Age)] == [
        Age(seconds=30.0), Age(seconds=90.0), Age(seconds=3690.0),
    ]  # fmt: skip
    assert len(built) == 1


def looked(source: FakeSource) -> None:
    """Until it was looked at some more times."""
    while source.polled.acquire(blocking=False):
        pass
    for _ in range(5):
        assert source.polled.acquire(timeout=30)


def test_a_pause_keeps_the_ages_that_it_froze():
    source, clock = FakeSource(steps(2)), Clock()
    with feeding(source, clock=clock) as (feed, posted):
        feed.ask(AGE, Ask())
        posted.wait_for(Age(seconds=30.0))
        clock.now += timedelta(seconds=60)
        posted.wait_for(Age(seconds=90.0))
        feed.pause()
        clock.now += timedelta(hours=1)
        looked(source)
        feed.forget("age")
        feed.ask(AGE, Ask(first=1))
        posted.wait_for(lambda each: isinstance(each, Built) and each.ask == Ask(first=1))
        assert posted.views()[-1] == Age(seconds=90.0)
        feed.live()
        posted.wait_for(Age(seconds=3690.0))


@pytest.mark.parametrize("settings", [{"at": lambda held: AT + timedelta(seconds=1)}, {}])
def test_for_a_replay_and_a_saved_log_no_time_passes(settings: dict[str, object]):
    held = steps(2)._replace(read_at=NOW)
    source, clock = FakeSource(held if settings else held._replace(source=WHOLE)), Clock()
    shown = Age(seconds=1.0 if settings else 30.0)
    with feeding(source, clock=clock, **settings) as (feed, posted):
        feed.ask(AGE, Ask())
        posted.wait_for(shown)
        clock.now += timedelta(hours=1)
        looked(source)
        feed.ask(AGE, Ask(first=1))
        posted.wait_for(lambda each: isinstance(each, Built) and each.ask == Ask(first=1))
    assert posted.views() == [shown, shown]


def test_of_a_store_that_cannot_be_read_no_age_is_told_anew():
    source, clock = FakeSource(steps(2)), Clock()
    with feeding(source, clock=clock, retry_s=(0.01,)) as (feed, posted):
        feed.ask(AGE, Ask())
        posted.wait_for(Age(seconds=30.0))
        source.error = "gone"
        posted.wait_for(lambda each: isinstance(each, Status) and each.state == "disconnected")
        clock.now += timedelta(hours=1)
        looked(source)
        assert posted.views() == [Age(seconds=30.0)]
        source.error = None
        posted.wait_for(Age(seconds=3630.0))


def test_a_window_by_time_moves_on_though_nothing_is_written():
    def last_minute(held: Held, now: datetime) -> Held:
        return held._replace(steps=held.steps.filter(pl.col("at") >= now - timedelta(minutes=1)))

    source, clock = FakeSource(steps(5)), Clock()
    with feeding(source, clock=clock, within=last_minute) as (feed, posted):
        feed.ask(COUNT, Ask())
        posted.wait_for(Count(steps=5))
        # 62 s after the first step: those of the seconds 2, 3 and 4 are within the last minute.
        clock.now += timedelta(seconds=32)
        posted.wait_for(Count(steps=3))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_fault_of_ours_in_a_view_is_shown_and_the_topic_can_be_asked_again():
    faults = [ZeroDivisionError("of ours")]

    def faulty(held: Held, ask: Ask, log: OpenLog) -> Count:
        if faults:
            raise faults.pop()
        return count(held, ask, log)

    with feeding(FakeSource(steps(1))) as (feed, posted):
        topic = Topic("count", faulty)
        feed.ask(topic, Ask())
        posted.wait_for(lambda each: isinstance(each, Failed) and "of ours" in each.error)
        posted.wait_for(lambda _: not _alive(feed))
        feed.ask(topic, Ask())
        posted.wait_for(Count(steps=1))


def _alive(feed: Feed) -> bool:
    builder = feed._builders["count"]
    builder._thread.join(30)
    return builder.alive


class FaultySource(FakeSource):
    """Falls over at its second look."""

    def poll(self) -> Held | None:
        """The first look, and no more."""
        if self.looking.is_set():
            raise ZeroDivisionError("of ours")
        return super().poll()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_fault_of_ours_in_reading_is_a_state_with_what_was_read_still_shown():
    source = FaultySource(steps(3))
    with feeding(source) as (feed, posted):
        feed.ask(COUNT, Ask())
        posted.wait_for(Count(steps=3))
        posted.wait_for(lambda each: isinstance(each, Status) and each.state == "disconnected")
        assert feed.status.error is not None
        assert "of ours" in feed.status.error
        assert feed.status.retry_in_s is None
        feed.ask(COUNT, Ask(first=1))
        posted.wait_for(lambda each: isinstance(each, Built) and each.ask == Ask(first=1))
    feed._reader._thread.join(30)
