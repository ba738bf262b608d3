"""The passes over a log: one that feeds every measure, and others over the sessions that a measure asks for again."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import polars as pl

from checks.check import Check
from checks.columns import COUNTED, SCHEMAS
from checks.log import Log
from checks.measure import Measure, MeasureType
from checks.read_ahead import read_ahead

OnBatch = Callable[[int], None]
"""Called after each batch with how many turns it held."""


_MEASURING_THREADS = 2
"""Beside the one that reads ahead: NumPy, Polars and Arrow let go of the interpreter while they work."""
_ONCE = ("turn_id", "place")
"""Texts that no two turns share."""
_TRAINER = ("trainer_step", "trainer_version")
"""What a turn's score says where the turn itself does not."""


def one_pass(
    log: Log,
    checks: Sequence[Check],
    measures: Mapping[str, Measure],
    kinds: Mapping[str, MeasureType],
    on_batch: OnBatch,
) -> pl.DataFrame:
    """Feeds the measures, and keeps the scalar columns of every turn."""
    scalars = list(
        dict.fromkeys(["session_id", "turn", *COUNTED, *(c for check in checks for c in check.turn_columns)])
    )
    plain = [name for name in scalars if name not in COUNTED]
    columns = [*plain, *COUNTED.values(), *(c for name in measures for c in kinds[name].turn_columns)]
    trained = [name for name in _TRAINER if name in plain]
    score_columns = [*trained, *(c for name in measures for c in kinds[name].score_columns)]
    kept: list[pl.DataFrame] = []
    batches = log.batches(list(dict.fromkeys(columns)), list(dict.fromkeys(score_columns)))
    with ThreadPoolExecutor(_MEASURING_THREADS, "measure") as threads, closing(read_ahead(batches)) as ahead:
        for batch in ahead:
            kept.append(_trained(_narrowed(batch.turns, plain), batch.scores, trained))
            # A measure sees the batches one after the other; different measures see one batch at the same time.
            for done in [threads.submit(measure.add, batch) for measure in measures.values()]:
                done.result()
            on_batch(batch.turns.height)
    if kept:
        return pl.concat(kept, how="vertical_relaxed").with_columns(pl.col(pl.Categorical).cast(pl.String))
    return pl.DataFrame(schema={name: pl.Int64() if name in COUNTED else SCHEMAS["turns"][name] for name in scalars})


def _narrowed(turns: pl.DataFrame, plain: Sequence[str]) -> pl.DataFrame:
    """Scalar columns and counts; texts, which repeat from turn to turn, are held once each."""
    lengths = (pl.col(ids).list.len().cast(pl.Int64).alias(name) for name, ids in COUNTED.items())
    texts = [name for name in plain if turns.schema[name] == pl.String and name not in _ONCE]
    return turns.select(*plain, *lengths).with_columns(pl.col(texts).cast(pl.Categorical))


def _trained(narrow: pl.DataFrame, scores: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """The turns with what their first score says of the trainer, where they do not say it themselves."""
    if scores.is_empty() or not any(narrow[name].null_count() for name in names):
        return narrow
    told = scores.filter(pl.any_horizontal(pl.col(names).is_not_null()))
    first = told.select(pl.col("row").cast(pl.Int64), *names).unique("row", keep="first")
    rows = narrow.with_columns(pl.int_range(pl.len()).alias("row"))
    joined = rows.join(first, on="row", how="left", maintain_order="left", suffix="_scored").drop("row")
    filled = joined.with_columns(pl.coalesce(name, f"{name}_scored").alias(name) for name in names)
    return filled.select(narrow.columns)


def further_passes(log: Log, measures: Mapping[str, Measure], kinds: Mapping[str, MeasureType]) -> None:
    """Gives each measure the sessions it asks for, as often as it asks; none twice."""
    for name, measure in measures.items():
        kind = kinds[name]
        columns: tuple[str, ...] = getattr(kind, "again_columns", kind.turn_columns)
        given = set[str]()
        while sessions := measure.again():
            assert given.isdisjoint(sessions), f"{name} asks for a session a third time"
            given.update(sessions)
            with closing(read_ahead(log.batches(columns, kind.score_columns, sessions=sessions))) as ahead:
                for batch in ahead:
                    measure.add_again(batch)
