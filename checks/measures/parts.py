"""Several small frames carried as one: a row whose columns are lists of structs."""

from collections.abc import Callable, Mapping

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


def narrowed(parts: pl.DataFrame, names: str, keep: Callable[[pl.DataFrame], pl.DataFrame]) -> pl.DataFrame:
    """The frames with what `keep` leaves of those that have the column `names`.

    Where it leaves none of their rows, the measure has seen nothing: what a check is given is then the same as of a
    log that holds nothing of the kind, and its counts are 0.
    """
    frames = {name: part(parts, name) for name in parts.columns}
    kept = {name: keep(frame) if names in frame.columns else frame for name, frame in frames.items()}
    named = [name for name, frame in frames.items() if names in frame.columns and frame.height]
    if named and all(kept[name].is_empty() for name in named):
        zero = pl.all() * 0
        return as_parts({"counts": frames["counts"].select(zero)} if "counts" in frames else {})
    return as_parts({name: frame for name, frame in kept.items() if frame.height or frames[name].is_empty()})
