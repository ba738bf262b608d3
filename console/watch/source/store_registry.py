"""The registry of a store as the console holds it: its records, every change, and versions as the checks see them."""

from pathlib import Path
from typing import NamedTuple

import polars as pl

from collector.records import Audit
from collector.store.registry_rows import RegistrySnapshot, open_read_only, read_rows, read_snapshot
from console.watch.held import empty
from console.watch.versions_frame import versions_frame


class StoreRegistry(NamedTuple):
    """Of one revision."""

    snapshot: RegistrySnapshot
    audit: tuple[Audit, ...]
    versions: pl.DataFrame


def read_store_registry(store: Path) -> StoreRegistry:
    """The registry as it is now, in one transaction; an empty one where the store has none."""
    with open_read_only(store) as connection:
        if connection is None:
            return StoreRegistry(RegistrySnapshot(0, (), (), (), {}), (), empty("versions"))
        snapshot = read_snapshot(connection)
        return StoreRegistry(snapshot, tuple(read_rows(connection, Audit)), versions_frame(snapshot.versions))
