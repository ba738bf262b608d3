"""The versions of a registry as the checks see them."""

from collections.abc import Sequence

import msgspec
import polars as pl

from collector.records import Version
from console.watch.held import TABLES, empty


def versions_frame(versions: Sequence[Version]) -> pl.DataFrame:
    """A row for each."""
    types = TABLES["versions"]
    rows = [{name: value for name, value in msgspec.structs.asdict(each).items() if name in types} for each in versions]
    return pl.DataFrame(rows, schema_overrides=dict(types)).select([*types]) if rows else empty("versions")
