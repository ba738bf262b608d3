"""Rounds of traffic and cycle: scripted replies, a scripted trainer, and what is made of how the cycles end."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from openai import OpenAI

from console.demo.cycle_run import CycleResult, Ending
from console.demo.gate_verdict import Compared, GateVerdict
from console.demo.loop import Round, Traffic, problems, round_lines, run_rounds
from console.demo.screen import Screen
from tests.console.demo.scripted_server import Script, scripted_server

TURNS = 12


@pytest.fixture
def script() -> Iterator[Script]:
    with scripted_server() as script:
        yield script


def ending(name: str, version: int | None = 1, *, recovered: bool = False) -> Ending:
    return Ending(adapter="demo", ending=name, reason="because", version=version, recovered=recovered)


def done(name: str, *, inverted: bool = False, number: int = 1, recovered: bool = False) -> Round:
    result = CycleResult(cycle=number, adapters=(ending(name, recovered=recovered),))
    return Round(inverted, (), (), result, (None,), 1.0)


class Trainer:
    """Ends cycles as it is told, and remembers how much feedback was there."""

    def __init__(self, script: Script, *endings: Ending) -> None:
        """The endings of its cycles; when there are no more, nothing is new."""
        self._script = script
        self._endings = list(endings)
        self.seen: list[tuple[int, int]] = []

    def __call__(self, number: int, left_s: float) -> CycleResult:
        assert left_s >= 60.0
        self.seen.append((number, sum(each["kind"] == "accept" for each in self._script.feedback)))
        ends = self._endings.pop(0) if self._endings else ending("nothing_new", None)
        return CycleResult(cycle=number, adapters=(ends,))


def rounds(script: Script, tmp_path: Path, trainer: Trainer, *, sabotage: bool, seconds: float) -> list[Round]:
    script.replies = ["no line"] * 100
    with OpenAI(base_url=script.url, api_key="k", max_retries=0) as client:
        return run_rounds(
            Traffic(client, "m", "run", 0, tmp_path, turns=TURNS, wait_s=0.0),
            trainer,
            store=tmp_path / "store",
            sabotage=sabotage,
            end=time.monotonic() + seconds,
            reserve_s=0.0,
            screen=Screen(plain=True, turns=0),
        )


def test_a_cycle_follows_each_rounds_traffic_and_never_runs_beside_it(script: Script, tmp_path: Path) -> None:
    trainer = Trainer(script)
    found = rounds(script, tmp_path, trainer, sabotage=False, seconds=3600)
    assert trainer.seen == [(1, 12), (2, 24), (3, 36), (4, 48)]
    assert [len(each.turns) for each in found] == [12, 12, 12, 12]
    assert not any(each.inverted for each in found)
    assert len(script.requests) == 48
    sessions = {headers["x-session-id"] for headers in script.headers}
    assert {name.rsplit("-", 1)[0] for name in sessions} == {"run-1", "run-2", "run-3", "run-4"}


def test_feedback_is_inverted_from_the_second_round_on(script: Script, tmp_path: Path) -> None:
    trainer = Trainer(script, ending("routed", 1), ending("refused", 2))
    found = rounds(script, tmp_path, trainer, sabotage=True, seconds=3600)
    assert [each.inverted for each in found] == [False, True]
    values = [each["value"] for each in script.feedback if each["kind"] == "accept"]
    # No reply has the form, so every one is wrong.
    assert values == [0.0] * 12 + [1.0] * 12


def test_the_first_round_is_always_run_and_none_is_begun_that_would_be_too_late(script: Script, tmp_path: Path) -> None:
    assert len(rounds(script, tmp_path, Trainer(script), sabotage=False, seconds=0.0)) == 1


def test_sabotage_goes_on_until_a_version_came_of_it_however_little_time_there_is(
    script: Script, tmp_path: Path
) -> None:
    trainer = Trainer(script, ending("routed", 1), ending("nothing_new", None), ending("refused", 2))
    assert len(rounds(script, tmp_path, trainer, sabotage=True, seconds=0.0)) == 3


def test_an_honest_loop_needs_a_version_that_passed() -> None:
    assert problems([done("routed"), done("inconclusive")], sabotage=False) == []
    assert problems([done("inconclusive")], sabotage=False) == ["no version passed the gate"]
    assert problems([done("routed"), done("failed", number=2)], sabotage=False) == ["cycle 2 failed: because"]


def test_a_sabotaged_loop_needs_a_refusal_and_no_version_of_the_sabotaged_rounds() -> None:
    assert problems([done("routed"), done("refused", inverted=True)], sabotage=True) == []
    assert problems([done("routed"), done("inconclusive", inverted=True)], sabotage=True) == [
        "the gate refused no version that learnt from inverted feedback"
    ]
    assert problems([done("routed"), done("routed", inverted=True, number=2)], sabotage=True) == [
        "cycle 2 learnt from inverted feedback and was routed: the gate let it through",
        "the gate refused no version that learnt from inverted feedback",
    ]


def test_a_version_that_an_earlier_cycle_left_behind_says_nothing_of_this_rounds_feedback() -> None:
    assert problems([done("routed"), done("refused", inverted=True, recovered=True)], sabotage=True) == [
        "the gate refused no version that learnt from inverted feedback"
    ]


def test_the_lines_name_the_version_the_ending_and_what_the_gate_said() -> None:
    score = Compared("score", "refuse", against=1, candidate=0.25, other=0.75, difference=-0.5, lower_bound=-0.625)
    verdict = GateVerdict("refuse", ("score: worse",), (score,), live=1)
    result = CycleResult(cycle=2, adapters=(ending("refused", 2), ending("nothing_new", None)))
    assert round_lines(Round(True, (), (), result, (verdict, None), 1.0)) == [
        "cycle 2: traffic 0 of 0 as asked, and the user said the opposite",
        "  demo@2 refused; gate refuse: held-out 0.75 → 0.25 (-0.50, at least -0.62)",
        "  demo nothing new; because",
    ]
