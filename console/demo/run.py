"""One demo run: model, engine, collector, agents, and a look at what was captured."""

import signal
import tempfile
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import NamedTuple, NoReturn

from openai import APIError, OpenAI
from uuid_utils import uuid7

from collector.config import CollectorConfig
from collector.errors import UserError
from collector.store.writer import Writer
from console.demo.children import Child, stop_all
from console.demo.crew import Budget, Crew
from console.demo.report import interrupted_report, report
from console.demo.screen import Screen
from console.demo.summary import Summary, summarize
from console.demo.task import tasks
from trainer.small_model import find_small_model

ENGINE_LIMIT_S = 300.0
"""Longest the engine may take to load the model."""
COLLECTOR_LIMIT_S = 60.0
REQUEST_LIMIT_S = 120.0
"""Longest one reply may take."""


class Options(NamedTuple):
    """What was asked for on the command line."""

    store: Path
    turns: int
    minutes: float
    plain: bool
    model: Path | None
    seed: int


def run_demo(options: Options) -> int:
    """Runs the demo and prints what came of it; 0 only if it did what it should."""
    started = time.monotonic()
    run_id = f"demo-{uuid7()}"
    # A store that cannot be written to is refused here, before the engine takes its time.
    Writer(options.store, CollectorConfig().writer).close()
    try:
        with _signals_interrupt():
            crew, summary = _captured(options, run_id)
    except KeyboardInterrupt:
        print(interrupted_report(options.store, run_id=run_id), flush=True)
        raise
    seconds = time.monotonic() - started
    print(report(summary, options.store, turns=crew.turns, sessions=crew.sessions, seconds=seconds))
    if problems := summary.problems():
        raise UserError("; ".join(problems))
    return 0


def _captured(options: Options, run_id: str) -> tuple[Crew, Summary]:
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="roundhouse-demo-")))
        screen = stack.enter_context(Screen(plain=options.plain, turns=options.turns))
        model = (options.model or find_small_model(report=screen.say)).resolve()
        crew = _work(options, model, run_id, scratch, screen)
        summary = summarize(
            options.store,
            run_id=run_id,
            response_ids=[turn.response_id for turn in crew.turns],
            tokenizer_file=model / "tokenizer.json",
        )
    return crew, summary


def _work(options: Options, model: Path, run_id: str, scratch: Path, screen: Screen) -> Crew:
    """Starts the children, lets the agents work, and stops the children whatever happens."""
    children: list[Child] = []
    try:
        screen.say(f"loading {model.name} into the engine")
        engine = Child("engine", ["--model", str(model)], scratch)
        children.append(engine)
        engine_url = engine.wait_until_ready(ENGINE_LIMIT_S)
        screen.say("starting the collector")
        arguments = ["--engine", engine_url, "--model", str(model), "--store", str(options.store.resolve())]
        collector = Child("collect", arguments, scratch)
        children.append(collector)
        url = collector.wait_until_ready(COLLECTOR_LIMIT_S)
        client = OpenAI(base_url=f"{url}/v1", api_key="demo", timeout=REQUEST_LIMIT_S)
        name = client.models.list().data[0].id
        screen.say(f"agents at work through {url}")
        crew = Crew(
            client,
            name,
            tasks(options.seed),
            run_id=run_id,
            scratch=scratch,
            budget=Budget(options.turns, options.minutes * 60),
            on_progress=lambda crew: _show(crew, screen),
        )
        screen.say(f"0 of {options.turns} turns; {crew.agents} agents await their first replies")
        crew.work()
    except KeyboardInterrupt:
        screen.stopping()
        raise
    except APIError as error:
        dead = [child.ended() for child in children if not child.running]
        raise UserError("; ".join([f"a call through the collector failed: {error}", *dead])) from error
    finally:
        # The collector first: it finishes its records before the engine goes away.
        failed = stop_all(list(reversed(children)))
    if failed:
        raise UserError(f"the {' and the '.join(failed)} did not stop with exit code 0")
    return crew


def _show(crew: Crew, screen: Screen) -> None:
    right = sum(turn.right for turn in crew.turns)
    screen.count(len(crew.turns), right=right, sessions=len(crew.sessions))


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
