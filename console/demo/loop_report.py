"""The end of the loop in words: each cycle, the first version against the last, and the signals."""

from pathlib import Path

from console.demo.exam import Exam
from console.demo.loop import Round, round_lines
from console.demo.signals import signal_lines


def loop_report(rounds: list[Round], exam: Exam | None, store: Path) -> list[str]:
    """Blocks of lines."""
    cycles = ["cycles", *(f"  {line}" for each in rounds for line in round_lines(each))]
    return ["\n".join(cycles), "\n".join(_exam_lines(exam)), "\n".join(signal_lines(store))]


def _exam_lines(exam: Exam | None) -> list[str]:
    if exam is None:
        return ["held-out: no version but the first was live"]
    verdict = "it rose beyond the interval" if exam.risen else "it did NOT rise beyond the interval"
    tasks = len(exam.evals) // 2
    return [
        f"held-out, {tasks} orders in words that no traffic had; no version was chosen by them (95 % intervals)",
        f"  version 0  {exam.before.text()}",
        f"  version {exam.version}  {exam.after.text()}",
        f"  gain       {exam.gain.text('+')}: {verdict}",
    ]
