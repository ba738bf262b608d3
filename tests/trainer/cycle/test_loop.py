"""The trainer's process by a schedule: cycles, waiting, alerts in between, and its end."""

import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

from tests.trainer.cycle.scripted import Site, cycle_events, feedback, rows
from trainer.cycle.loop import INTERRUPTED, Stopped, TrainLoop, Watch, run_once
from trainer.cycle.outcome import CycleOutcome
from trainer.cycle.schedule import Due, IdleWindow, Schedule

QUIET = Watch(lambda: None, interval_s=60.0)
HOURLY = Schedule(every=timedelta(hours=1))


class Told:
    """What the loop said, with a deed after each thing."""

    def __init__(self, then: Callable[["Told"], None] = lambda _: None) -> None:
        self.outcomes: list[CycleOutcome] = []
        self.dues: list[Due] = []
        self.problems: list[str] = []
        self.stop = threading.Event()
        self._then = then

    def cycle(self, outcome: CycleOutcome) -> None:
        self.outcomes.append(outcome)
        self._then(self)

    def waiting(self, due: Due) -> None:
        self.dues.append(due)
        self._then(self)

    def problem(self, line: str) -> None:
        self.problems.append(line)
        self._then(self)


def loop(site: Site, schedule: Schedule, then: Callable[[Told], None]) -> tuple[int, Told]:
    """Runs until `then` stops it."""
    told = Told(then)
    return TrainLoop(site.setting, schedule, told.stop, told, QUIET).run(), told


def stop_when_waiting(told: Told) -> None:
    if told.dues:
        told.stop.set()


def test_a_first_cycle_runs_at_once_and_the_next_one_is_announced(tmp_path: Path):
    with Site(tmp_path, {"bot": "acme"}) as site:
        code, told = loop(site, HOURLY, stop_when_waiting)
        assert code == INTERRUPTED
        assert [each.started_by for each in told.outcomes] == ["no cycle has run yet"]
        [due] = told.dues
        assert due.at == told.outcomes[0].began_at + timedelta(hours=1)
    # The time until it was stopped was idle by the schedule, and nothing stalled.
    assert [(span["role"], span["kind"]) for span in rows(tmp_path, "spans")] == [("trainer", "idle_scheduled")]


def test_after_a_restart_the_schedule_goes_on_from_the_store(tmp_path: Path):
    with Site(tmp_path, {"bot": "acme"}) as site:
        _, first = loop(site, HOURLY, stop_when_waiting)
    with Site(tmp_path, {"bot": "acme"}) as site:
        _, second = loop(site, HOURLY, stop_when_waiting)
        assert second.outcomes == []
        assert second.dues[0].at == first.dues[0].at
        # Too long ago for this schedule: the missed one is run once, and the next is an interval after it.
        _, third = loop(site, Schedule(every=timedelta(microseconds=1)), lambda told: told.stop.set())
        assert [each.started_by for each in third.outcomes] == ["a cycle was missed"]


def test_feedback_starts_a_cycle(tmp_path: Path):
    def post(told: Told) -> None:
        if told.outcomes:
            told.stop.set()
        elif len(told.dues) == 1:
            for record in feedback("acme", "a", "b"):
                site.writer.append(record).result(10)

    with Site(tmp_path, {"bot": "acme"}) as site:
        _, told = loop(site, Schedule(min_feedback=2), post)
        assert told.dues[0].reason == "0 of 2 feedback records are in"
        assert [each.started_by for each in told.outcomes] == ["2 feedback records are new, 2 are enough"]
    # No time is set: the trainer waited for its users, before the cycle and after it until it was stopped.
    assert [span["kind"] for span in rows(tmp_path, "spans")] == ["wait"]


def test_waiting_for_feedback_is_stall_and_waiting_for_a_window_is_not(tmp_path: Path):
    now = datetime.now().astimezone()
    later = IdleWindow(*((now + timedelta(hours=hours)).time().replace(microsecond=0) for hours in (2, 3)))

    def post(told: Told) -> None:
        if len(told.dues) == 2:
            told.stop.set()
        else:
            site.writer.append(feedback("acme", "a")[0]).result(10)

    with Site(tmp_path, {"bot": "acme"}) as site:
        _, told = loop(site, Schedule(min_feedback=1, windows=(later,)), post)
    assert [due.at is None for due in told.dues] == [True, False]
    spans = rows(tmp_path, "spans")
    assert [span["kind"] for span in spans] == ["wait", "idle_scheduled"]
    assert spans[0]["to"] <= spans[1]["from"]


def test_an_unreachable_engine_is_waited_for_and_that_is_a_wait(tmp_path: Path):
    def mend(told: Told) -> None:
        site.parts.unreachable = len(told.problems) < 2
        if told.outcomes:
            told.stop.set()

    with Site(tmp_path, {"bot": "acme"}) as site:
        site.parts.unreachable = True
        _, told = loop(site, HOURLY, mend)
        assert len(told.problems) == 2
        assert "a cycle is due (no cycle has run yet) and waits: the engine at http://nowhere" in told.problems[0]
        assert len(told.outcomes) == 1
    assert [span["kind"] for span in rows(tmp_path, "spans")] == ["wait", "wait"]


def test_alerts_are_evaluated_between_and_after_cycles(tmp_path: Path):
    seen: list[int] = []
    with Site(tmp_path, {"bot": "acme"}) as site:
        told = Told()

        def evaluate() -> None:
            seen.append(len(told.outcomes))
            if len(seen) == 3:
                told.stop.set()

        TrainLoop(site.setting, HOURLY, told.stop, told, Watch(evaluate, interval_s=0.0)).run()
        assert seen == [1, 1, 1]
        run_once(site.setting, told, Watch(evaluate, interval_s=0.0))
        assert seen[-1] == 2


def test_a_stop_ends_between_two_stages_and_the_next_run_goes_on(tmp_path: Path):
    def check() -> None:
        if ("prove", "bot@1") in site.parts.calls:
            raise Stopped

    with Site(tmp_path, {"bot": "acme"}) as site:
        site.parts.sessions = {"bot": 1}
        assert run_once(site.setting._replace(check=check), told := Told(), QUIET) == INTERRUPTED
        assert told.outcomes == []
        assert site.states("bot") == ["live", "candidate"]
        assert [call for call, _ in site.parts.calls][-1] == "prove"
        site.parts.sessions = {}
        _, told = loop(site, HOURLY, stop_when_waiting)
        [outcome] = told.outcomes
        assert outcome.started_by == "the last cycle was cut short"
        assert [(each.ending, each.recovered) for each in outcome.adapters] == [
            ("routed", True),
            ("nothing_new", False),
        ]
    assert cycle_events(tmp_path)[-1]["detail"]["stage"] == "end"


def test_one_cycle_tells_how_it_went_by_its_exit_code(tmp_path: Path):
    with Site(tmp_path, {"bot": "acme"}) as site:
        site.parts.sessions, site.parts.verdicts = {"bot": 1}, {"bot": "refuse"}
        told = Told()
        assert run_once(site.setting, told, QUIET) == 1
        site.parts.verdicts = {}
        assert run_once(site.setting, told, QUIET) == 0
        assert [each.exit_code for each in told.outcomes] == [1, 0]
