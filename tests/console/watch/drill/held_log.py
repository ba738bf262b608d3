"""What is held of frames in memory, with what the checks' measures say of them; and turns to make them from."""

from datetime import timedelta
from typing import Any

import polars as pl

from checks.columns import COUNTED, SCHEMAS, TABLES
from checks.log import MemoryLog
from checks.measure import Measure, Tools
from checks.measures.importance_weights import ImportanceWeights
from checks.measures.prefix_breaks import PrefixBreaks
from checks.measures.round_trip import RoundTrip
from console.watch.held import TABLES as HELD
from console.watch.held import Held, Origin, Tokens
from tests.console.watch.fake_feed import NOW, held

SAMPLED_AT = NOW - timedelta(minutes=13)


def turn(turn: int = 1, **more: Any) -> dict[str, Any]:
    """A turn of session s; names and values as in the native log."""
    at = SAMPLED_AT + timedelta(seconds=10 * turn)
    times = {"started_at": at, "first_token_at": at + timedelta(seconds=0.2), "finished_at": at + timedelta(seconds=3)}
    return {"session_id": "s", "turn": turn, "turn_id": f"{more.get('session_id', 's')}-{turn}", **times, **more}


def log_of(turns: list[dict[str, Any]], **tables: list[dict[str, Any]]) -> MemoryLog:
    """Rows as a log."""
    frames = {name: _frame(name, rows) for name, rows in {"turns": turns, **tables}.items()}
    return MemoryLog(frames)


def held_of(log: MemoryLog, tools: Tools | None = None, *, store: bool = False, **changed: Any) -> Held:
    """What is held of a log, its tokens read to the end."""
    tools = tools or Tools()
    turns = log.table("turns")
    narrow = turns.with_columns(pl.col(ids).list.len().cast(pl.Int64).alias(name) for name, ids in COUNTED.items())
    frames = {"turns": _held("turns", narrow)}
    frames |= {name: _held(name, log.table(name)) for name in TABLES if name != "turns"}
    breaks = None if store else _measured(PrefixBreaks(tools), log)
    drift = None if tools.tokenizer is None else _measured(RoundTrip(tools), log)
    tokens = Tokens(share=1.0, weights=_measured(ImportanceWeights(Tools()), log), breaks=breaks, drift=drift)
    origin = Origin(path="/logs/run", format="store" if store else "native")
    return held(**{**frames, "tokens": tokens, "source": origin, **changed})


def _measured(measure: Measure, log: MemoryLog) -> pl.DataFrame:
    columns = tuple(SCHEMAS["turns"])
    scored = ("adapter", "trainer_step", "trainer_version", "trainer_logprobs", "sampling_version_logprobs")
    for batch in log.batches(columns, (*scored, "reference_logprobs")):
        measure.add(batch)
    while sessions := measure.again():
        for batch in log.batches(columns, (), sessions=sessions):
            measure.add_again(batch)
    return measure.frame()


def _frame(table: str, rows: list[dict[str, Any]]) -> pl.DataFrame:
    names = {name: SCHEMAS[table][name] for row in rows for name in row}
    return pl.DataFrame(rows, schema=names)


def _held(table: str, frame: pl.DataFrame) -> pl.DataFrame:
    """With every column that is held, and no other."""
    missing = [pl.lit(None, dtype).alias(name) for name, dtype in HELD[table].items() if name not in frame.columns]
    return frame.with_columns(missing).select(HELD[table].keys())
