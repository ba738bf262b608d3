"""What the store says of earlier cycles: when they ran, how they ended, and how much feedback is new since."""

# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false, reportAttributeAccessIssue=false
# (pyarrow carries no types)

from collections.abc import Iterable, Mapping
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from checks.readers.event_tail import EventTail
from collector.records import Event
from collector.store.snapshot import Snapshot
from trainer.cycle.cycle_log import KIND
from trainer.cycle.schedule import Past

TABLES = ("events", "feedback")
"""What a look needs of a snapshot."""


class History:
    """The cycles of a store. Each look reads only what has come since the last one."""

    def __init__(self, tenants: Iterable[str]) -> None:
        """Only the feedback of these tenants counts."""
        self._tenants = pa.array(sorted(set(tenants)), pa.string())
        self._tail = EventTail()
        self._since: dict[str, int] = {}
        self._new_feedback = 0
        self._began_at: datetime | None = None
        self._ended = True
        self.number = 0
        """Of the last cycle; 0 when there was none."""
        self.begun: set[tuple[str, int]] = set()
        """Versions that a cycle has done anything about."""
        self.endings: dict[tuple[str, int], str] = {}
        """Version to how a cycle ended for it; absent while none has come to an end."""

    def look(self, snapshot: Snapshot) -> Past:
        """Where things stand in a snapshot that holds `TABLES`."""
        for event in self._tail.new(snapshot, (KIND,)):
            self._take(event)
        self._count(snapshot)
        return Past(self._began_at, self._ended, self._new_feedback)

    @property
    def feedback_seen(self) -> dict[str, int]:
        """Writer to the seq of its last feedback record that a look has counted."""
        return {writer: since - 1 for writer, since in self._since.items()}

    def _take(self, event: Event) -> None:
        detail = event.detail or {}
        number, stage = detail.get("cycle"), detail.get("stage")
        if event.adapter is not None and event.version is not None:
            self._take_version((event.adapter, event.version), detail)
        if not isinstance(number, int):
            return
        if stage == "begin" and number > self.number:
            self.number, self._began_at, self._ended = number, event.at, False
            seen = detail.get("feedback_seen")
            self._new_feedback = 0
            if isinstance(seen, dict):
                self._since = {str(writer): int(seq) + 1 for writer, seq in seen.items()}
        elif stage == "end" and number == self.number:
            self._ended = True

    def _take_version(self, version: tuple[str, int], detail: Mapping[str, object]) -> None:
        self.begun.add(version)
        if detail.get("state") == "ended":
            self.endings[version] = str(detail.get("ending"))

    def _count(self, snapshot: Snapshot) -> None:
        columns = ["tenant", "writer", "seq"]
        for batch in snapshot.batches("feedback", columns=columns, since=self._since):
            if not batch.num_rows:
                continue
            writer = batch["writer"][0].as_py()
            self._since[writer] = max(self._since.get(writer, 0), pc.max(batch["seq"]).as_py() + 1)
            self._new_feedback += batch.filter(pc.is_in(batch["tenant"], value_set=self._tenants)).num_rows
