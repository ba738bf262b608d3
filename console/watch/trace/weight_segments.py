"""Why the importance weights of one turn are what they are: the check's own kinds, for each run of one version."""

import msgspec
import numpy as np
import polars as pl

from checks.lag import with_lag
from checks.measure import Tools
from checks.measures.importance_weights import CELL, SETTING, ImportanceWeights
from checks.measures.parts import part
from checks.measures.sampled_tokens import UNKNOWN, trained_as
from checks.measures.weight_causes import weight_causes
from checks.weights.kinds import GROUP, with_kinds
from console.watch.trace.session_turns import SessionTurns
from console.watch.trace.turn_tokens import TurnTokens


class Segment(msgspec.Struct, frozen=True, kw_only=True):
    """Completion tokens of one turn that one version sampled."""

    start: int
    end: int
    version: int | None
    """The version that sampled them, where the log says it as a number."""
    lag: int | None
    """Of the chosen scoring, as the checks count it."""
    tokens: int
    """Those that count and have a finite ratio."""
    mean_abs: float | None
    """Their mean |log w|."""
    kind: str | None
    """A kind of importance-weight; None where the log cannot tell."""
    text: str
    """What speaks for it."""


def segments(
    session: SessionTurns, row: int, tokens: TurnTokens, versions: pl.DataFrame, wide: pl.DataFrame | None = None
) -> tuple[Segment, ...]:
    """The segments of a turn under its chosen scoring. `wide`: the cells of the measure over the whole log, where they
    were folded; else those of the session stand for it."""
    scored = tokens.scored()
    if scored is None or tokens.chosen is None or scored.where is None:
        return ()
    batch = session.batch(row, tokens.chosen)
    start = np.flatnonzero(np.append(True, np.diff(tokens.version) != 0))
    end = np.append(start[1:], len(tokens.version))
    begin, finish = (np.searchsorted(scored.where, edges) for edges in (start, end))
    full = np.flatnonzero(finish > begin)
    chosen = _keys(batch.turns, batch.scores, tokens.version[start[full]])
    if chosen.is_empty():
        return ()
    spans = [(int(begin[each]), int(finish[each])) for each in full]
    causes = weight_causes(chosen, batch.scores, scored, spans, CELL)
    cells = with_lag(_cells(session, wide, chosen), versions)
    told = with_kinds(cells, with_lag(causes, versions))
    rows = with_lag(chosen, versions).with_columns(of_base=pl.col("sampling_version") == 0)
    rows = rows.join(told, on=GROUP, how="left", nulls_equal=True, maintain_order="left")
    return tuple(
        Segment(
            start=int(start[each]),
            end=int(end[each]),
            version=found["sampling_version"],
            lag=found["lag"],
            tokens=last - first,
            mean_abs=float(np.abs(scored.log_w(slice(first, last))).mean()),
            kind=found["kind"],
            text=found["why"] or "",
        )
        for each, (first, last), found in zip(full, spans, rows.iter_rows(named=True), strict=True)
    )


def _keys(turns: pl.DataFrame, scores: pl.DataFrame, version: np.ndarray) -> pl.DataFrame:
    """The cell of each segment, and its number."""
    turn = trained_as(turns, scores["adapter"]).select("adapter", *SETTING)
    one = turn.with_columns(scores["trainer_version"], scores["trainer_step"])
    each = one[np.zeros(len(version), np.int64)]
    return each.with_columns(
        sampling_version=pl.Series(version, dtype=pl.Int64).replace(UNKNOWN, None),
        index=pl.int_range(pl.len()),
        row=pl.lit(0, pl.Int64),
    )


def _cells(session: SessionTurns, wide: pl.DataFrame | None, chosen: pl.DataFrame) -> pl.DataFrame:
    """The cells that the kinds are told among; those of the turn are always there."""
    wanted = [*CELL, "n", "sum_abs"]
    if wide is not None and chosen.join(wide, on=CELL, how="anti", nulls_equal=True).is_empty():
        return wide.select(wanted)
    measure = ImportanceWeights(Tools())
    measure.add(session.batch())
    own = part(measure.frame(), "cells").select(wanted)
    if wide is None:
        return own
    return pl.concat([wide.select(wanted), own.join(wide, on=CELL, how="anti", nulls_equal=True)])
