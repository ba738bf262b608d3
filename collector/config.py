"""The `[collector]` section of roundhouse.toml."""

import msgspec


class StoreConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[collector.store]`: how records reach the disk."""

    group_commit_rows: int = 256
    """Most records in one commit."""
    queue_rows: int = 4096
    """Records held in memory before writers are pushed back."""
    seal_rows: int = 20_000
    """Hot rows of a table that are sealed into a Parquet segment."""
    seal_interval_s: float = 60.0
    """Longest a row stays hot before it is sealed."""
    grace_s: float = 60.0
    """How long a replaced file stays for readers that still hold the list."""
