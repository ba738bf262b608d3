"""How far the trainer's newest cycle is, from the `cycle` events it writes."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

import msgspec
import polars as pl

from trainer.cycle.cycle_log import KIND, STAGES, Stage

StageState = Literal["waits", "begun", "done", "failed", "ended"]


class StageProgress(msgspec.Struct, frozen=True, kw_only=True):
    """One stage of the newest cycle."""

    stage: Stage
    state: StageState = "waits"
    """`ended`: the cycle ended here for an adapter; `waits`: nothing is known of it yet."""
    at: datetime | None = None
    """Of the last thing that is known."""
    adapter: str | None = None
    """Which adapter that was about."""
    text: str | None = None
    """What the trainer said then."""


class CycleProgress(msgspec.Struct, frozen=True, kw_only=True):
    """The newest cycle."""

    number: int
    began_at: datetime
    ended_at: datetime | None
    """None while it runs, or when its trainer died."""
    started_by: str
    stages: tuple[StageProgress, ...]
    endings: dict[str, str]
    """Adapter to how the cycle ended for it, as far as it has."""
    new_feedback: int | None
    """Feedback records since it began; None where nothing tells."""


def cycle_progress(events: pl.DataFrame, feedback: pl.DataFrame) -> CycleProgress | None:
    """The newest cycle that has begun; None when there was none.

    `events` has `at, kind, adapter, text, detail` (JSON text); `feedback` has `writer, seq`.
    """
    known = events.filter(pl.col("kind") == KIND).sort("at", maintain_order=True)
    rows = known.select("at", "adapter", "text", "detail").iter_rows()
    told = [(at, adapter, text, _decoded(detail)) for at, adapter, text, detail in rows]
    told = [each for each in told if isinstance(each[3].get("cycle"), int)]
    begins = [each for each in told if each[3].get("stage") == "begin"]
    if not begins:
        return None
    began_at, _, _, begin = max(begins, key=lambda each: each[3]["cycle"])
    own = [each for each in told if each[3]["cycle"] == begin["cycle"]]
    stages = {stage: StageProgress(stage=stage) for stage in STAGES}
    endings: dict[str, str] = {}
    ended_at: datetime | None = None
    for at, adapter, text, detail in own:
        stage, state = detail.get("stage"), detail.get("state")
        if stage == "end":
            ended_at, endings = at, {**endings, **detail.get("endings", {})}
        elif stage in stages and state in ("begun", "done", "failed", "ended"):
            stages[stage] = StageProgress(stage=stage, state=state, at=at, adapter=adapter, text=text)
        if state == "ended" and adapter is not None:
            endings[adapter] = str(detail.get("ending"))
    return CycleProgress(
        number=begin["cycle"],
        began_at=began_at,
        ended_at=ended_at,
        started_by=str(begin.get("started_by", "")),
        stages=tuple(stages.values()),
        endings=endings,
        new_feedback=_new_feedback(feedback, begin.get("feedback_seen")),
    )


# Any: the JSON of an event.
def _decoded(detail: str | None) -> dict[str, Any]:
    return msgspec.json.decode(detail) if detail else {}


def _new_feedback(feedback: pl.DataFrame, seen: object) -> int | None:
    if not isinstance(seen, Mapping):
        return None
    last = {str(writer): int(seq) for writer, seq in seen.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return sum(seq > last.get(writer, 0) for writer, seq in feedback.select("writer", "seq").iter_rows())
