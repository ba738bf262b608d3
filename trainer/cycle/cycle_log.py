"""The events of a cycle: each stage's begin and end, durable before the next thing is done.

Every one is an `event` record of kind `cycle`, with adapter and version where it is about one, and the detail
{"cycle": number, "stage": name, "state": "begun" | "done" | "failed" | "ended", ...}: `done` carries what the stage
counted and measured, `failed` the error, and `ended` how the cycle ended for the adapter ("ending"). The stages `begin`
and `end` are of the whole cycle: `begin` carries "started_by" and "feedback_seen", the feedback that was there (writer
to last seq), and `end` carries "endings", adapter to ending.
"""

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Final, Literal, get_args

from collector.errors import EngineError, UserError
from collector.records import Event, Record, Severity, Span
from trainer.cycle.outcome import BAD, AdapterOutcome

KIND: Final = "cycle"
Stage = Literal[
    "collect", "train", "register", "load", "prove", "evaluate", "gate", "route", "drain", "unload", "prune"
]
STAGES: Final[tuple[Stage, ...]] = get_args(Stage)
"""In their order."""
_OWN_SPANS: Final = ("collect", "train", "register", "gate", "prune")
"""Stages in which the trainer works, or which write spans of their own; in the others it waits for the engine."""


class CycleLog:
    """Writes the events of one cycle."""

    def __init__(
        self, number: int, write: Callable[[Record], None], clock: Callable[[], datetime], *, actor: str
    ) -> None:
        """`write` returns when the record is durable."""
        self.number = number
        self._write = write
        self._clock = clock
        self._actor = actor

    def begin(self, started_by: str, feedback_seen: Mapping[str, int]) -> datetime:
        """The cycle begins; when that is."""
        detail = {"started_by": started_by, "feedback_seen": dict(feedback_seen)}
        return self._event("begin", "begun", f"cycle {self.number} begins: {started_by}", detail=detail)

    def end(self, outcomes: tuple[AdapterOutcome, ...]) -> datetime:
        """The cycle has ended; when that is."""
        endings = {each.adapter: each.ending for each in outcomes}
        # One that was left behind and the one of this cycle may both be of one adapter.
        said = ", ".join(f"{each.adapter} {each.ending.replace('_', ' ')}" for each in outcomes)
        severity: Severity = "warn" if any(each.ending in BAD for each in outcomes) else "info"
        detail = {"endings": endings}
        return self._event("end", "done", f"cycle {self.number} ended: {said}", detail=detail, severity=severity)

    def ended(self, outcome: AdapterOutcome, stage: str) -> None:
        """How the cycle ended for one adapter, and at which stage."""
        self._event(
            stage,
            "ended",
            f"{outcome.adapter}: {outcome.reason}",
            adapter=outcome.adapter,
            version=outcome.version,
            severity="warn" if outcome.ending in BAD else "info",
            detail={"ending": outcome.ending, "recovered": outcome.recovered},
        )

    def done(self, stage: Stage, adapter: str, text: str, numbers: Mapping[str, object]) -> None:
        """What a stage that is of several adapters at once found for one of them."""
        self._event(stage, "done", f"{adapter}: {text}", adapter=adapter, detail=numbers)

    def note(self, stage: str, text: str, *, adapter: str | None = None, version: int | None = None) -> None:
        """Something found on the way that a person should know."""
        self._event(stage, "note", text, adapter=adapter, version=version, severity="warn")

    @contextmanager
    def stage(
        self, stage: Stage, adapter: str | None = None, version: int | None = None
    ) -> Generator[dict[str, object]]:
        """A stage: begun, and done or failed. What is put into the dict given is written with `done`."""
        name = "" if adapter is None else f"{adapter}@{version}: " if version is not None else f"{adapter}: "
        began = self._event(stage, "begun", f"{name}{stage}", adapter=adapter, version=version)
        found: dict[str, object] = {}
        try:
            yield found
        except (EngineError, UserError) as error:
            detail = {"error": str(error)}
            self._event(
                stage,
                "failed",
                f"{name}{stage} failed: {error}",
                adapter=adapter,
                version=version,
                detail=detail,
                severity="fail",
            )
            raise
        said = found.pop("text", None)
        text = f"{name}{stage} done" + ("" if said is None else f": {said}")
        ended = self._event(stage, "done", text, adapter=adapter, version=version, detail=found)
        if stage not in _OWN_SPANS:
            self._write(Span(role="trainer", kind="wait", from_=began, to=ended, adapter=adapter))

    def _event(
        self,
        stage: str,
        state: str,
        text: str,
        *,
        adapter: str | None = None,
        version: int | None = None,
        detail: Mapping[str, object] | None = None,
        severity: Severity = "info",
    ) -> datetime:
        at = self._clock()
        self._write(
            Event(
                at=at,
                kind=KIND,
                severity=severity,
                adapter=adapter,
                version=version,
                actor=self._actor,
                text=text,
                detail={"cycle": self.number, "stage": stage, "state": state, **(detail or {})},
            )
        )
        return at
