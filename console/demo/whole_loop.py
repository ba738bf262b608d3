"""A run of the whole loop: settings and suites written, engine and collector started, rounds, the exam at the end."""

from pathlib import Path
from typing import NamedTuple

from collector.keys import new_key
from collector.store.writer import Writer
from console.demo.cycle_run import CycleResult, arguments, run_cycle
from console.demo.exam import Exam, examine
from console.demo.gate_verdict import live_version
from console.demo.lesson import held_out, suite
from console.demo.loop import Round, Traffic, run_rounds
from console.demo.options import Options
from console.demo.screen import Screen
from console.demo.serving import Access, serving
from console.demo.settings import ADAPTER, updates_of, write_settings
from trainer.config import TrainerConfig

EXAM_RESERVE_S = 45.0
"""Time kept for the comparison at the end, and for stopping."""
CYCLE_EXTRA_S = 1800.0
"""How much longer than the time left a cycle may take before it is taken to hang: machines differ, and are shared."""


class Looped(NamedTuple):
    """What the loop came to."""

    rounds: list[Round]
    exam: Exam | None


def run_loop(options: Options, model: Path, run_id: str, scratch: Path, screen: Screen, *, end: float) -> Looped:
    """Runs it until `end`, on the monotonic clock, or until enough rounds were run."""
    orders = held_out(options.seed)
    gate_suite, exam_suite = scratch / "held-out.jsonl", scratch / "exam.jsonl"
    gate_suite.write_bytes(suite(orders.gate))
    exam_suite.write_bytes(suite(orders.exam))
    key, sabotage = new_key(), options.sabotage is not None
    config = write_settings(scratch, gate_suite, key, updates=updates_of(1, sabotage=sabotage))
    store = options.store.resolve()
    with serving(model, store, scratch, screen, access=Access(config, key)) as served:
        words = arguments(store=store, engine=served.engine_url, model=model, config=config)

        def cycle(number: int, left_s: float) -> CycleResult:
            write_settings(scratch, gate_suite, key, updates=updates_of(number, sabotage=sabotage))
            return run_cycle(words, scratch, number=number, limit_s=left_s + CYCLE_EXTRA_S)

        rounds = run_rounds(
            Traffic(served.client, served.model, run_id, options.seed, scratch),
            cycle,
            store=store,
            sabotage=sabotage,
            end=end,
            reserve_s=EXAM_RESERVE_S,
            screen=screen,
        )
        version = live_version(store, ADAPTER)
        exam = None
        if version:
            screen.say(f"held-out orders that no version was chosen by: version 0 against version {version}")
            exam = examine(served.engine_url, model, exam_suite, version, say=screen.note)
            _record(store, exam)
    return Looped(rounds, exam)


def _record(store: Path, exam: Exam) -> None:
    """Keeps the exam's replies in the store, as the trainer keeps those of its cycles."""
    with Writer(store, TrainerConfig().writer) as writer:
        for written in [writer.append(record) for record in exam.evals]:
            written.result()
