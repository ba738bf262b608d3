"""Several small frames carried as one: a row whose columns are lists of structs."""

from collections.abc import Mapping

import polars as pl


def as_parts(frames: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """One row, one column per frame."""
    return pl.DataFrame(
        {name: frame.select(pl.struct(pl.all()).implode()).to_series() for name, frame in frames.items()}
    )


def part(parts: pl.DataFrame, name: str) -> pl.DataFrame:
    """One of the frames again."""
    structs = parts[name].explode() if parts[name].list.len().sum() else parts[name].explode().clear()
    return structs.struct.unnest()
