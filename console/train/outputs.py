"""What `roundhouse train` shows: a live line under what has happened on a terminal, plain lines or JSON elsewhere."""

import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

import msgspec

from collector.records import Event, Record, Step
from collector.terminal_text import terminal_safe
from console.format import number_text
from trainer.cycle.cycle_log import KIND
from trainer.cycle.loop import Shown
from trainer.cycle.outcome import CycleOutcome
from trainer.cycle.schedule import Due

if TYPE_CHECKING:
    from rich.status import Status


class Outputs(Shown, Protocol):
    """Where the trainer's work appears."""

    def record(self, record: Record) -> None:
        """A record has been written."""
        ...

    def lines(self, lines: Sequence[str]) -> None:
        """A funnel or a report of the gate, line by line."""
        ...


@contextmanager
def shown_on(*, as_json: bool, plain: bool) -> Generator[Outputs]:
    """JSON lines, a live line where stdout is a terminal, else plain lines."""
    if as_json:
        yield JsonLines()
    elif plain or not sys.stdout.isatty():
        yield Lines()
    else:
        with LiveLines() as live:
            yield live


class JsonLines:
    """One JSON object per cycle on stdout; what goes wrong on stderr."""

    def cycle(self, outcome: CycleOutcome) -> None:
        """The whole of it."""
        sys.stdout.buffer.write(msgspec.json.encode(outcome) + b"\n")
        sys.stdout.buffer.flush()

    def waiting(self, due: Due) -> None:
        """Nothing: a reader of JSON waits for the next cycle."""

    def problem(self, line: str) -> None:
        """A line on stderr."""
        with suppress(BrokenPipeError):
            print(terminal_safe(line), file=sys.stderr, flush=True)

    def record(self, record: Record) -> None:
        """Nothing: the cycle says it at its end."""

    def lines(self, lines: Sequence[str]) -> None:
        """Nothing: it is in the cycle's numbers."""


class Lines:
    """A line for each thing that was done."""

    def cycle(self, outcome: CycleOutcome) -> None:
        """How long it took, and one line per adapter."""
        for line in outcome_lines(outcome):
            self._print(line)

    def waiting(self, due: Due) -> None:
        """When the next one starts."""
        self._print(waiting_text(due))

    def problem(self, line: str) -> None:
        """A line like the others."""
        self._print(f"{_clock(datetime.now(UTC))}  ! {line}")

    def record(self, record: Record) -> None:
        """What a stage came to, and each step."""
        if (text := record_text(record)) is not None and not is_begun(record):
            self._print(text)

    def lines(self, lines: Sequence[str]) -> None:
        """As they are."""
        for line in lines:
            self._print(line)

    def _print(self, line: str) -> None:
        encoded = terminal_safe(line).encode(sys.stdout.encoding or "utf-8", "backslashreplace")
        sys.stdout.buffer.write(encoded + b"\n")
        sys.stdout.buffer.flush()


class LiveLines(Lines):
    """The same, above a line that says what goes on now."""

    def __init__(self) -> None:
        from rich.console import Console

        self._console = Console(highlight=False, markup=False, emoji=False)
        self._status: Status = self._console.status("starting")

    def __enter__(self) -> "LiveLines":
        self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._status.stop()

    def waiting(self, due: Due) -> None:
        """On the live line."""
        self._now(waiting_text(due))

    def record(self, record: Record) -> None:
        """What began on the live line, what is done above it."""
        super().record(record)
        if is_begun(record) and isinstance(record, Event):
            self._now(record.text or "")

    def _now(self, text: str) -> None:
        from rich.text import Text

        self._status.update(Text(terminal_safe(text), no_wrap=True, overflow="ellipsis"))

    def _print(self, line: str) -> None:
        self._console.print(terminal_safe(line), soft_wrap=True)


def record_text(record: Record) -> str | None:
    """One line of a record that is worth one; None for the others."""
    if isinstance(record, Event) and record.kind == KIND:
        sign = {"info": " ", "warn": "!", "fail": "!"}[record.severity]
        return f"{_clock(record.at)}  {sign} {record.text}"
    if isinstance(record, Step):
        numbers = {
            "loss": record.loss,
            "grad norm": record.grad_norm,
            "entropy": record.entropy,
            "max w": record.max_w,
            "reward": record.reward_mean,
        }
        said = ", ".join(f"{name} {number_text(value)}" for name, value in numbers.items())
        return f"{_clock(record.at)}    {record.adapter}: step {record.step}: {said}"
    return None


def is_begun(record: Record) -> bool:
    """Whether a record says that a stage of an adapter has begun."""
    detail = record.detail if isinstance(record, Event) and record.kind == KIND else None
    return detail is not None and detail.get("state") == "begun" and detail.get("stage") != "begin"


def outcome_lines(outcome: CycleOutcome) -> list[str]:
    """How long a cycle took, and how it ended for each adapter."""
    took = (outcome.ended_at - outcome.began_at).total_seconds()
    lines = [f"cycle {outcome.cycle} took {number_text(round(took, 1), 's')}"]
    for each in outcome.adapters:
        again = " (left behind by an earlier run)" if each.recovered else ""
        lines.append(f"  {each.adapter}: {each.ending.replace('_', ' ')}{again}: {each.reason}")
    return lines


def waiting_text(due: Due) -> str:
    """When the next cycle starts, in local time, or what it waits for."""
    if due.at is None:
        return f"next cycle: when there is enough feedback; {due.reason}"
    return f"next cycle: {due.at.astimezone():%Y-%m-%d %H:%M:%S}; {due.reason}"


def _clock(at: datetime) -> str:
    return f"{at.astimezone(UTC):%H:%M:%SZ}"
