"""Makes `Held` of frames: whatever columns they have, its own come out."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import polars as pl

from console.watch.held import TABLES, Held, Origin, Tokens, empty
from console.watch.replayed import newest

if TYPE_CHECKING:
    from collector.records import Audit
    from collector.store.registry_rows import RegistrySnapshot

NO_TOKENS = Tokens()
_SCHEMAS = {table: pl.Schema(types) for table, types in TABLES.items()}


def hold(
    frames: Mapping[str, pl.DataFrame],
    *,
    source: Origin,
    read_at: datetime | None = None,
    registry: "RegistrySnapshot | None" = None,
    audit: "tuple[Audit, ...]" = (),
    tokens: Tokens = NO_TOKENS,
    damage: tuple[str, ...] = (),
    revision: int = 1,
    newest_at: datetime | None = None,
    scores: int = 0,
) -> Held:
    """Frames by table, with some of the columns of `held.TABLES`; a table that is not given is empty.

    `newest_at` is the time of the newest of their rows, where that is known already.
    """
    whole = {name: fitted(frames[name], name) if name in frames else empty(name) for name in TABLES}
    changes = [change.at for change in audit]
    return Held(
        turns=whole["turns"],
        rewards=whole["rewards"],
        feedback=whole["feedback"],
        steps=whole["steps"],
        spans=whole["spans"],
        evals=whole["evals"],
        events=whole["events"],
        runs=whole["runs"],
        versions=whole["versions"],
        registry=registry,
        audit=audit,
        tokens=tokens,
        damage=damage,
        source=source,
        read_at=read_at or datetime.now(UTC),
        newest_at=max((time for time in (newest_at or newest(whole), *changes) if time is not None), default=None),
        revision=revision,
        scores=scores,
    )


def fitted(frame: pl.DataFrame, table: str) -> pl.DataFrame:
    """The frame with the columns and types of its table, nulls where it has none; itself, if it is so already."""
    if frame.schema == _SCHEMAS[table]:
        return frame
    given = frame.schema
    # Column by column: for the few rows that come at a time, a query takes longer than all the rest of reading them.
    return pl.DataFrame(
        [
            # Nulls made so take no memory until they are written to.
            pl.Series(name, [None], dtype).new_from_index(0, frame.height)
            if name not in given
            else frame.get_column(name)
            if given[name] == dtype
            else frame.get_column(name).cast(dtype)
            for name, dtype in _SCHEMAS[table].items()
        ]
    )
