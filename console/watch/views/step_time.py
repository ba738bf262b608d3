"""When an optimizer step ended: what `:at @1826` asks before it goes there."""

from datetime import datetime

import msgspec
import polars as pl

from console.watch.held import Held
from console.watch.topic import OpenLog, Topic, View


class StepTimeAsk(msgspec.Struct, frozen=True, kw_only=True):
    """Which step; of this adapter, or of the first that reached it."""

    step: int
    adapter: str | None = None


class StepTime(View, frozen=True, kw_only=True):
    """Its end; None when there is no such step, or none with a time."""

    step: int
    at: datetime | None


def build_step_time(held: Held, ask: StepTimeAsk, _log: OpenLog) -> StepTime:
    """The end of a step."""
    rows = held.steps.filter(pl.col("step") == ask.step)
    if ask.adapter is not None:
        rows = rows.filter(pl.col("adapter") == ask.adapter)
    return StepTime(step=ask.step, at=rows["at"].drop_nulls().min())  # pyright: ignore[reportArgumentType]


TOPIC: Topic[StepTimeAsk] = Topic("step_time", build_step_time)
