"""All that happened, as one log: events of every part, changes of the registry, optimizer steps and runs."""

from datetime import datetime, timedelta
from typing import Literal

import msgspec
import polars as pl

from collector.records import Audit, Severity
from console.watch.frame.filter import Field, Fields, read_filter
from console.watch.held import Held
from console.watch.kept import Kept
from console.watch.topic import OpenLog, Topic, View, of_part
from console.watch.views.levels import level

FIELDS: Fields = {
    "level": Field("level", "text", {"w": "warn", "f": "fail", "i": "info"}),
    "source": Field("source"),
    "kind": Field("kind"),
    "adapter": Field("adapter"),
    "version": Field("version", "number"),
    "session": Field("session_id"),
    "turn": Field("turn", "number"),
    "text": Field("text"),
}
"""What the log can be filtered by."""
_SCHEMA: dict[str, type[pl.DataType] | pl.DataType] = {
    "at": pl.Datetime("us", "UTC"),
    "level": pl.String,
    "source": pl.String,
    "kind": pl.String,
    "adapter": pl.String,
    "version": pl.Int64,
    "session_id": pl.String,
    "turn": pl.Int64,
    "text": pl.String,
}
_KEPT: Kept[pl.DataFrame] = Kept()


class Jump(msgspec.Struct, frozen=True, kw_only=True):
    """To another line, seen from one."""

    to: Literal["fault", "minute"]
    """The next line that warns or fails, or the first a minute on."""
    row: int
    by: Literal[-1, 1]


class LogsAsk(msgspec.Struct, frozen=True, kw_only=True):
    """Which lines."""

    adapter: str | None = None
    filter: str = ""
    faults: bool = False
    """Only lines that warn or fail."""
    first: int | None = None
    """None for the newest."""
    count: int = 50
    jump: Jump | None = None
    """Given, the window lies around where it leads."""


class LogLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line. Its text may be a model's or a client's."""

    at: datetime | None
    level: Severity
    source: str
    """Whose journal it is in, or `registry`."""
    kind: str
    adapter: str | None
    version: int | None
    session_id: str | None
    turn: int | None
    text: str


class LogsView(View, frozen=True, kw_only=True):
    """A window of the log, oldest first."""

    total: int
    """Lines that meet the filter."""
    lines: int
    """All of them."""
    warns: int
    fails: int
    first: int
    rows: tuple[LogLine, ...]
    jumped: int | None
    """The line that was jumped to; None when there is none, or no jump was asked."""


def logs_view(held: Held, ask: LogsAsk, _log: OpenLog) -> LogsView:
    """The lines that are asked for. FilterError where the filter cannot be used."""
    everything = log_lines(held)
    rows = everything
    if ask.adapter is not None:
        rows = rows.filter(pl.col("adapter").is_null() | (pl.col("adapter") == ask.adapter))
    if ask.faults:
        rows = rows.filter(pl.col("level") != "info")
    if ask.filter:
        rows = rows.filter(read_filter(ask.filter, FIELDS).expression())
    jumped = _jumped(rows, ask.jump) if ask.jump else None
    first = rows.height - ask.count if ask.first is None else ask.first
    if jumped is not None and not first <= jumped < first + ask.count:
        first = jumped - ask.count // 2
    first = max(0, min(first, rows.height - 1))
    levels = rows["level"]
    return LogsView(
        total=rows.height,
        lines=everything.height,
        warns=int((levels == "warn").sum()),
        fails=int((levels == "fail").sum()),
        first=first,
        rows=tuple(LogLine(**row) for row in rows.slice(first, ask.count).iter_rows(named=True)),
        jumped=jumped,
    )


def log_lines(held: Held) -> pl.DataFrame:
    """Every line, oldest first; made once for the same frames."""
    return _KEPT.of((held.events, held.steps, held.runs, held.audit), lambda: _log_lines(held))


def _log_lines(held: Held) -> pl.DataFrame:
    events = held.events.select(
        "at",
        level=level(),
        source=pl.coalesce("writer", "actor", pl.lit("log")),
        kind=pl.col("kind"),
        adapter=pl.col("adapter"),
        version=pl.col("version").cast(pl.Int64),
        session_id=pl.col("session_id"),
        turn=pl.col("turn").cast(pl.Int64),
        text=pl.coalesce("text", "kind"),
    )
    audit = pl.DataFrame([_audited(one) for one in held.audit], schema=_SCHEMA, orient="row")
    parts = [events, audit, _steps(held.steps), _runs(held.runs)]
    return pl.concat([part.cast(_SCHEMA) for part in parts]).sort("at", nulls_last=False, maintain_order=True)  # pyright: ignore[reportArgumentType]


def _audited(one: Audit) -> tuple[object, ...]:
    text = f"{one.action.replace('_', ' ')} by {one.actor}: {one.reason}"
    return (one.at, "info", "registry", one.action, one.adapter, one.version, None, None, text)


def _steps(steps: pl.DataFrame) -> pl.DataFrame:
    """A line for each optimizer step, with what was observed of it."""
    said = [
        pl.format(f"{name} {{}}", pl.col(column).round_sig_figs(4)).fill_null("")
        for name, column in (
            (" loss", "loss"),
            (" grad", "grad_norm"),
            (" entropy", "entropy"),
            (" reward", "reward_mean"),
            (" max w", "max_w"),
            (" seconds", "duration_s"),
        )
    ]
    return _filled(
        steps.select(
            "at",
            "adapter",
            source=pl.coalesce("writer", pl.lit("trainer")),
            kind=pl.lit("step"),
            text=pl.concat_str([pl.format("step {}", "step"), *said]),
        )
    )


def _runs(runs: pl.DataFrame) -> pl.DataFrame:
    began = pl.concat_str(
        [
            pl.lit("run began on "),
            pl.col("hardware").fill_null("n/d"),
            pl.lit("; "),
            pl.col("precision").fill_null("n/d"),
        ]
    )
    return _filled(runs.select("at", source=pl.coalesce("writer", pl.lit("trainer")), kind=pl.lit("run"), text=began))


def _filled(frame: pl.DataFrame) -> pl.DataFrame:
    """With the columns of the log that it lacks."""
    missing = [pl.lit(None, dtype).alias(name) for name, dtype in _SCHEMA.items() if name not in frame.columns]
    return frame.with_columns(missing).with_columns(level=pl.lit("info")).select(list(_SCHEMA))


def _jumped(rows: pl.DataFrame, jump: Jump) -> int | None:
    """The row that a jump leads to; None where there is none."""
    numbered = rows.with_row_index("row").with_columns(pl.col("row").cast(pl.Int64))
    there = numbered.filter(pl.col("row") > jump.row if jump.by > 0 else pl.col("row") < jump.row)
    if jump.to == "fault":
        there = there.filter(pl.col("level") != "info")
    else:
        at = rows["at"][jump.row] if 0 <= jump.row < rows.height else None
        if at is None:
            return None
        minute = timedelta(minutes=1)
        there = there.filter(pl.col("at") >= at + minute if jump.by > 0 else pl.col("at") <= at - minute)
    found = there["row"].min() if jump.by > 0 else there["row"].max()
    return found if isinstance(found, int) else None


TOPIC: Topic[LogsAsk] = of_part("logs", logs_view)
"""The log."""
