"""What `--at` means, once something was read."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from collector.errors import UserError

if TYPE_CHECKING:
    from checks.log import Log
    from console.watch.held import Held


def checked_at(text: str) -> str:
    """The text, or a UserError where it is no time, before anything is read."""
    from console.watch.frame.typed_time import step_asked, typed_time

    if step_asked(text) is None:
        typed_time(text, datetime.now(UTC))
    return text


def time_meant(text: str, held: "Held", adapter: str | None) -> datetime:
    """The time that was typed; of a step, when it ended. UserError where there is no such time."""
    from console.watch.frame.typed_time import step_asked, typed_time
    from console.watch.views.step_time import StepTimeAsk, build_step_time

    step = step_asked(text)
    if step is None:
        if held.newest_at is None:
            raise UserError(f"--at {text}: no record of {held.source.path} has a time; leave --at out")
        return typed_time(text, held.newest_at)
    at = build_step_time(held, StepTimeAsk(step=step, adapter=adapter), _no_log).at
    if at is None:
        raise UserError(f"--at {text}: no step {step} with a time in {held.source.path}; give another step or a time")
    return at


def _no_log() -> "Log":
    raise AssertionError("a step's time is told without reading tokens")
