"""The events of a store as they come: each is given once."""

# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false, reportAttributeAccessIssue=false
# (pyarrow carries no types)

from collections.abc import Collection
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from collector.records import Event
from collector.store.snapshot import Snapshot

_COLUMNS = tuple(Event.__struct_fields__)


class EventTail:
    """Remembers how far each journal was read."""

    def __init__(self) -> None:
        self._since: dict[str, int] = {}

    def new(self, snapshot: Snapshot, kinds: Collection[str]) -> list[Event]:
        """Events of some kinds that were not seen before, the oldest first."""
        found: list[tuple[str, int, Event]] = []
        for batch in snapshot.batches("events", columns=[*_COLUMNS, "writer", "seq"], since=self._since):
            if not batch.num_rows:
                continue
            writer = batch["writer"][0].as_py()
            self._since[writer] = max(self._since.get(writer, 0), pc.max(batch["seq"]).as_py() + 1)
            wanted = batch.filter(pc.is_in(batch["kind"], value_set=pa.array([*kinds])))
            found += [(row.pop("writer"), row.pop("seq"), _event(row)) for row in wanted.to_pylist()]
        found.sort(key=lambda each: (each[2].at, each[0], each[1]))
        return [event for _, _, event in found]


# Any: a row as Arrow gives it; its detail is JSON text.
def _event(row: dict[str, Any]) -> Event:
    detail = row["detail"]
    return msgspec.convert(row | {"detail": None if detail is None else msgspec.json.decode(detail)}, Event)
