"""The whole loop: traffic with feedback, a cycle, and again, then how much better the last version is than the first.

Traffic and cycle take turns instead of running at once: on two cores, agents at work would take from the trainer what
it computes with, and one core's memory is all that an engine and a trainer have. `roundhouse collect` and
`roundhouse train --every 5h` need no such pause.
"""

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from openai import OpenAI

from console.demo.agent import SessionResult, TurnResult
from console.demo.crew import SAMPLES, Budget, Crew, Job
from console.demo.cycle_run import CycleResult
from console.demo.gate_verdict import GateVerdict, read_verdict, verdict_line
from console.demo.lesson import Lesson, lessons
from console.demo.pupil import run_lesson
from console.demo.screen import Screen
from console.demo.settings import ADAPTER, AGENTS, WINDOW_S

ROUND_TURNS = 128
"""Turns of traffic before a cycle."""
MOST_ROUNDS = 4
TRAFFIC_SHARE = 0.35
"""Most of the time left that one round's traffic may take."""
SLACK_S = 1.0
"""Wait beyond the feedback window, so that the last session's has surely closed."""


class Round(NamedTuple):
    """Traffic, and the cycle after it."""

    inverted: bool
    """Whether the feedback of its traffic was the opposite of what was true."""
    turns: tuple[TurnResult, ...]
    sessions: tuple[SessionResult, ...]
    result: CycleResult
    verdicts: tuple[GateVerdict | None, ...]
    """Of each of the cycle's endings."""
    seconds: float


class Traffic(NamedTuple):
    """What the agents need."""

    client: OpenAI
    model: str
    run_id: str
    seed: int
    scratch: Path
    turns: int = ROUND_TURNS
    """In each round."""
    wait_s: float = WINDOW_S + SLACK_S
    """After its traffic, so that every session's feedback window has closed."""


def run_rounds(
    traffic: Traffic,
    cycle: Callable[[int, float], CycleResult],
    *,
    store: Path,
    sabotage: bool,
    end: float,
    reserve_s: float,
    screen: Screen,
) -> list[Round]:
    """Rounds until they are done or the time is: `end`, on the monotonic clock, less what comes after them.

    `cycle` runs one, given its number and how long it may take.
    """
    given = lessons(traffic.seed)
    rounds: list[Round] = []
    for number in range(1, MOST_ROUNDS + 1):
        left = end - reserve_s - time.monotonic()
        # What there is to see is run however long it takes: one round, or until sabotage has come to a version.
        if sabotage and rounds and _made_of_lies(rounds[-1]):
            break
        if rounds and not sabotage and left < max(each.seconds for each in rounds):
            screen.say(f"no time for round {number}: {max(left, 0):.0f} s left")
            break
        inverted = sabotage and number > 1
        began = time.monotonic()
        crew = _traffic(
            traffic, given, number, inverted=inverted, limit_s=TRAFFIC_SHARE * max(left, 60.0), screen=screen
        )
        time.sleep(traffic.wait_s)
        screen.say(f"cycle {number}: train, load, prove, evaluate, judge")
        result = cycle(number, max(left, 60.0))
        verdicts = tuple(read_verdict(store, ADAPTER, ending.version) for ending in result.adapters)
        seconds = time.monotonic() - began
        rounds.append(Round(inverted, tuple(crew.turns), tuple(crew.sessions), result, verdicts, seconds))
        for line in round_lines(rounds[-1]):
            screen.note(line)
    return rounds


def _made_of_lies(done: Round) -> bool:
    """Whether a version learnt from inverted feedback; none does where all of it was the same."""
    return done.inverted and any(ending.version and not ending.recovered for ending in done.result.adapters)


def _traffic(
    traffic: Traffic, given: Iterator[Lesson], number: int, *, inverted: bool, limit_s: float, screen: Screen
) -> Crew:
    """One round's sessions, all of them over when it returns."""
    screen.begin_count(traffic.turns, f"round {number}{', feedback inverted' if inverted else ''}")
    crew = Crew(
        _jobs(traffic, given, inverted),
        run_id=f"{traffic.run_id}-{number}",
        scratch=traffic.scratch,
        budget=Budget(traffic.turns, limit_s),
        on_progress=lambda crew: screen.count(
            len(crew.turns), right=sum(turn.right for turn in crew.turns), sessions=len(crew.sessions)
        ),
        most_agents=AGENTS,
    )
    crew.work()
    return crew


def _jobs(traffic: Traffic, given: Iterator[Lesson], inverted: bool) -> Iterator[Job]:
    for lesson in given:
        for _ in range(SAMPLES):
            yield partial(run_lesson, traffic.client, traffic.model, lesson, inverted=inverted)


def round_lines(done: Round) -> list[str]:
    """What a round came to: how much of its traffic was right, and how its cycle ended."""
    right = sum(turn.right for turn in done.turns)
    told = ", and the user said the opposite" if done.inverted else ""
    lines = [f"cycle {done.result.cycle}: traffic {right} of {len(done.turns)} as asked{told}"]
    for ending, verdict in zip(done.result.adapters, done.verdicts, strict=True):
        name = ADAPTER if ending.version is None else f"{ADAPTER}@{ending.version}"
        again = " (left behind by an earlier cycle)" if ending.recovered else ""
        said = ending.reason if verdict is None else f"gate {verdict_line(verdict)}"
        lines.append(f"  {name} {ending.ending.replace('_', ' ')}{again}; {said}")
    return lines


def problems(rounds: list[Round], *, sabotage: bool) -> list[str]:
    """Why the rounds were not what they should be; empty when they were."""
    endings = [(done, ending) for done in rounds for ending in done.result.adapters if not ending.recovered]
    failed = [
        f"cycle {done.result.cycle} failed: {ending.reason}" for done, ending in endings if ending.ending == "failed"
    ]
    routed = [done for done, ending in endings if ending.ending == "routed"]
    if not any(not done.inverted for done in routed):
        failed.append("no version passed the gate")
    if sabotage:
        failed += [
            f"cycle {done.result.cycle} learnt from inverted feedback and was routed: the gate let it through"
            for done in routed
            if done.inverted
        ]
        if not any(done.inverted and ending.ending == "refused" for done, ending in endings):
            failed.append("the gate refused no version that learnt from inverted feedback")
    return failed
