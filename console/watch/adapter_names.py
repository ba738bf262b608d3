"""The adapters that are known by name, and the refusal of a name that is none of them."""

from collections.abc import Sequence

import polars as pl

from collector.errors import UserError
from console.watch.held import Held
from console.watch.kept import Kept

_KEPT: Kept[tuple[str, ...]] = Kept()


def adapter_names(held: Held) -> tuple[str, ...]:
    """Every adapter that a record names, whatever time or window is shown; none where only a part of a log was read."""
    if held.source.part is not None:
        return ()
    if held.named is not None:
        return held.named
    frames = (held.turns, held.steps, held.evals, held.versions)
    registered = () if held.registry is None else held.registry.adapters
    named = _KEPT.of(frames, lambda: tuple({name for frame in frames for name in _names(frame)}))
    return tuple(sorted({*named, *(each.adapter for each in registered)}))


def refuse_unknown(adapter: str | None, known: Sequence[str]) -> None:
    """An adapter that no record names would be shown as one without any data; where no name is known, any may come."""
    if adapter is not None and known and adapter not in known:
        raise UserError(f"no record is of the adapter {adapter!r}, expected {', '.join(known)}")


def _names(frame: pl.DataFrame) -> list[str]:
    return frame["adapter"].drop_nulls().unique().to_list()
