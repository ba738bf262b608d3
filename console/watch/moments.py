"""The times at which something was recorded, for stepping through them."""

from datetime import datetime

import polars as pl

from console.watch.held import Held

_TIMES = {"steps": "at", "events": "at", "rewards": "closed_at", "feedback": "at"}


def moment_after(held: Held, at: datetime, by: int) -> datetime | None:
    """The moment so many before (negative) or after a time; the first where there are not as many before; None past
    the last.

    Moments are when optimizer steps ended; where none has a time, when turns ended and anything else was recorded.
    """
    moments = held.steps["at"].drop_nulls().unique().sort()
    if moments.is_empty():
        columns = [getattr(held, table)[name] for table, name in _TIMES.items()]
        ended = held.turns.select(pl.coalesce("finished_at", "started_at").alias("at")).to_series()
        moments = pl.concat([ended, *columns]).drop_nulls().unique().sort()
    if moments.is_empty():
        return None
    before = int(moments.search_sorted(at, side="left"))
    place = before + by if by < 0 else int(moments.search_sorted(at, side="right")) + by - 1
    if place >= len(moments):
        return None
    found = moments[max(place, 0)]
    assert isinstance(found, datetime)
    return found
