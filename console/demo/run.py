"""One demo run: model, engine, collector, agents, cycles, and a look at what was captured and learnt."""

import signal
import tempfile
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from uuid_utils import uuid7

from collector.config import CollectorConfig
from collector.errors import UserError
from collector.store.writer import Writer
from console.demo.agent import SessionResult, TurnResult, run_session
from console.demo.crew import SAMPLES, Budget, Crew
from console.demo.loop import Round, problems
from console.demo.options import Options
from console.demo.report import interrupted_report, report
from console.demo.screen import Screen
from console.demo.serving import serving
from console.demo.summary import Summary, summarize
from console.demo.task import tasks
from trainer.small_model import find_small_model

if TYPE_CHECKING:
    from console.demo.exam import Exam


class Done(NamedTuple):
    """What a run came to."""

    turns: list[TurnResult]
    sessions: list[SessionResult]
    summary: Summary
    rounds: list[Round]
    exam: "Exam | None"
    """None where no version but the first was live, or no cycle was to run."""


def run_demo(options: Options) -> int:
    """Runs the demo and prints what came of it; 0 only if it did what it should."""
    started = time.monotonic()
    run_id = f"demo-{uuid7()}"
    # A store that cannot be written to is refused here, before the engine takes its time.
    Writer(options.store, CollectorConfig().writer).close()
    try:
        with _signals_interrupt():
            done = _run(options, run_id, started)
    except KeyboardInterrupt:
        print(interrupted_report(options.store, run_id=run_id), flush=True)
        raise
    seconds = time.monotonic() - started
    learnt: list[str] = []
    if options.turns is None:
        from console.demo.loop_report import loop_report

        learnt = loop_report(done.rounds, done.exam, options.store)
    print(report(done.summary, options.store, turns=done.turns, sessions=done.sessions, seconds=seconds, learnt=learnt))
    if found := [*done.summary.problems(), *_unlearnt(options, done)]:
        raise UserError("; ".join(found))
    return 0


def _run(options: Options, run_id: str, started: float) -> Done:
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="roundhouse-demo-")))
        screen = stack.enter_context(Screen(plain=options.plain, turns=options.turns or 0))
        model = (options.model or find_small_model(report=screen.say)).resolve()
        rounds: list[Round] = []
        exam = None
        if options.turns is None:
            from console.demo.whole_loop import run_loop

            looped = run_loop(options, model, run_id, scratch, screen, end=started + options.minutes * 60)
            rounds, exam = looped.rounds, looped.exam
            turns = [turn for each in rounds for turn in each.turns]
            sessions = [session for each in rounds for session in each.sessions]
        else:
            crew = _capture(options, options.turns, model, run_id, scratch, screen)
            turns, sessions = crew.turns, crew.sessions
        summary = summarize(
            options.store,
            run_id=run_id,
            response_ids=[turn.response_id for turn in turns],
            tokenizer_file=model / "tokenizer.json",
        )
    return Done(turns, sessions, summary, rounds, exam)


def _capture(options: Options, turns: int, model: Path, run_id: str, scratch: Path, screen: Screen) -> Crew:
    """The file-editing agents alone."""
    with serving(model, options.store, scratch, screen, access=None) as served:
        crew = Crew(
            (
                partial(run_session, served.client, served.model, task)
                for task in tasks(options.seed)
                for _ in range(SAMPLES)
            ),
            run_id=run_id,
            scratch=scratch,
            budget=Budget(turns, options.minutes * 60),
            on_progress=lambda crew: screen.count(
                len(crew.turns), right=sum(turn.right for turn in crew.turns), sessions=len(crew.sessions)
            ),
        )
        screen.say(f"0 of {turns} turns; {crew.agents} agents await their first replies")
        crew.work()
    return crew


def _unlearnt(options: Options, done: Done) -> list[str]:
    """Why the loop did not do what it should."""
    if options.turns is not None:
        return []
    found = problems(done.rounds, sabotage=options.sabotage is not None)
    if done.exam is not None and not done.exam.risen and options.sabotage is None:
        found.append(f"the held-out score did not rise beyond its interval: {done.exam.gain.text('+')}")
    return found


@contextmanager
def _signals_interrupt() -> Generator[None]:
    """Makes a closed terminal or a polite kill end the demo as Ctrl-C does, children included."""
    # What the caller had ignored, as nohup does, stays ignored.
    numbers = [n for n in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) != signal.SIG_IGN]
    before = [signal.signal(number, _interrupt) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    del number, frame
    raise KeyboardInterrupt
