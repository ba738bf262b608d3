"""What the store says of publish proofs: which worker, as which process, was seen to serve what was trained."""

# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false, reportAttributeAccessIssue=false
# (pyarrow carries no types)

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from collector.engine.address import checked_address
from collector.errors import UserError
from collector.store.adapter_names import engine_name
from collector.store.reader import Reader
from collector.store.snapshot import Snapshot

KINDS = ("proof", "probe")
"""Events of a proof before a version is routed to, and of a live probe of one that is."""
_STARTED_ANEW = "the engine was started anew since its proof"
_COLUMNS = ("at", "kind", "adapter", "version", "detail", "writer", "seq")


class _Detail(msgspec.Struct, frozen=True):
    verdict: str | None = None
    worker: str | None = None
    process: str | None = None


class Told(NamedTuple):
    """The newest proof of one kind."""

    at: datetime
    verdict: str | None


class Proofs:
    """The newest proof and the newest probe of each version on each worker, read as they come."""

    def __init__(self) -> None:
        self._since: dict[str, int] = {}
        self._told: dict[tuple[str, str], dict[str, Told]] = {}
        self._seen: set[tuple[str, str]] = set()

    def read(self, store: Path) -> None:
        """Takes in what has been written since; StoreError where the store cannot be read."""
        if not (store / "journals").is_dir():
            return
        with Reader(store).snapshot(["events"]) as snapshot:
            self.take(snapshot)

    def take(self, snapshot: Snapshot) -> None:
        """Takes in the events of a snapshot that were not seen before."""
        wanted = pa.array([*KINDS])
        for batch in snapshot.batches("events", columns=_COLUMNS, since=self._since):
            if not batch.num_rows:
                continue
            writer = batch["writer"][0].as_py()
            self._since[writer] = max(self._since.get(writer, 0), pc.max(batch["seq"]).as_py() + 1)
            for row in batch.filter(pc.is_in(batch["kind"], value_set=wanted)).to_pylist():
                self._add(row)

    def why_not(self, worker: str, process: str | None, name: str, *, lost_at: datetime | None = None) -> str | None:
        """Why a version is not proved on a worker, by its URL and process; None when it is.

        A process that can be told is the same one under whatever address the trainer knows it by. Where it cannot,
        the address decides, and `lost_at`, when the worker last did not answer.
        """
        address = checked_address(worker)
        told = self._told.get((process or address, name), {})
        proof, probe = told.get("proof"), told.get("probe")
        if proof is None:
            return _STARTED_ANEW if (address, name) in self._seen else "it was never proved there"
        if proof.verdict != "proved":
            return f"its last proof there says {proof.verdict}"
        if probe is not None and probe.at >= proof.at and probe.verdict != "proved":
            return f"its last probe there says {probe.verdict}"
        return _STARTED_ANEW if process is None and lost_at is not None and proof.at < lost_at else None

    def _add(self, row: Mapping[str, object]) -> None:
        adapter, version, text, at = row["adapter"], row["version"], row["detail"], row["at"]
        if not (isinstance(adapter, str) and isinstance(version, int) and isinstance(text, str)):
            return
        try:
            detail = msgspec.json.decode(text, type=_Detail)
            worker = checked_address(detail.worker or "")
        except (msgspec.DecodeError, UserError):
            # Not of an engine: somebody else's event of the same kind.
            return
        assert isinstance(at, datetime)
        name = engine_name(adapter, version)
        self._seen.add((worker, name))
        newest = self._told.setdefault((detail.process or worker, name), {})
        kind = str(row["kind"])
        if kind not in newest or newest[kind].at <= at:
            newest[kind] = Told(at, detail.verdict)
