"""Proves that a store is whole: every seq once, every crc32, no lost tail, no orphan; sets aside what is damaged."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false
# (pyarrow carries no types)

import sqlite3
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from collector.errors import StoreError
from collector.records import TABLES
from collector.store import codec
from collector.store.compaction import next_generation
from collector.store.expert_check import expert_faults
from collector.store.expert_strays import stray_routes
from collector.store.health import Fault, Health, inspect_journal, ranges, ranges_text
from collector.store.journal import Journal, Loss, Segment, now_text, open_for_reading, read_hot
from collector.store.layout import Layout, SegmentName, existing_store, fsync_folder
from collector.store.salvage import finish_salvage
from collector.store.segment_check import CheckedSegment, TurnKeys, check_segment, turn_keys, whole_rows
from collector.store.segments import no_hook, write_segment
from collector.store.startup import orphans, repair_journal
from collector.store.writer_lock import LockHeld, WriterLock

_LIVE_TRIES = 5
_LIVE_WAIT_S = 0.4


class Verified(NamedTuple):
    """What a verification found."""

    records: int
    segments: int
    erased: int
    faults: list[Fault]
    losses: list[tuple[str, Loss]]
    """Losses that were set aside before or now, with their writer."""

    @property
    def clean(self) -> bool:
        """Whether nothing is wrong and no loss is left that nobody accepted."""
        return not self.faults and all(loss.accepted for _, loss in self.losses)


def verify(store: Path, *, accept: bool = False) -> Verified:
    """Checks every journal and segment. Where no writer runs, what is damaged is also set aside."""
    layout = existing_store(store)
    parts = [_verify_writer(layout, writer, accept) for writer in layout.writers()]
    faults = [fault for part in parts for fault in part.faults]
    return Verified(
        records=sum(part.records for part in parts),
        segments=sum(part.segments for part in parts),
        erased=sum(part.erased for part in parts),
        faults=[*faults, *_strangers(layout), *_registry_faults(layout), *expert_faults(layout), *stray_routes(layout)],
        losses=[entry for part in parts for entry in part.losses],
    )


def _verify_writer(layout: Layout, writer: str, accept: bool) -> Verified:
    try:
        lock = WriterLock(layout, writer)
    except LockHeld:
        return _only_look(layout, writer, "stop the writer and run verify again to set it aside")
    except StoreError:
        return _only_look(layout, writer, "run verify where the store can be written to set it aside")
    try:
        finish_salvage(layout, writer)
        health = inspect_journal(layout, writer)
        if health.faults:
            repair_journal(layout, writer)
        found = _look(layout, writer, health.faults)
        _set_aside(layout, writer, found)
        if accept:
            _accept(layout, writer)
        return _verified(layout, writer, found)
    finally:
        lock.release()


def _only_look(layout: Layout, writer: str, action: str) -> Verified:
    """The same checks without a change; what a running writer has half done is given time to finish."""
    found = _look(layout, writer, inspect_journal(layout, writer).faults)
    for _ in range(_LIVE_TRIES):
        if not found.faults:
            break
        time.sleep(_LIVE_WAIT_S)
        found = _look(layout, writer, inspect_journal(layout, writer).faults)
    found = found._replace(faults=[fault._replace(action=action) for fault in found.faults])
    return _verified(layout, writer, found)


class _Found(NamedTuple):
    health: Health
    checked: list[tuple[Segment, CheckedSegment]]
    missing: list[int]
    strays: list[Path]
    faults: list[Fault]


def _look(layout: Layout, writer: str, faults: list[Fault]) -> _Found:
    files = orphans(layout, writer, set())
    health = inspect_journal(layout, writer)
    if not health.hot:
        # Not readable, though a repair may have come between the two looks.
        faults = [*faults, *(fault for fault in health.faults if fault not in faults)]
    checked = [(segment, check_segment(layout, segment)) for segment in health.segments]
    faults = [*faults, *(check.fault for _, check in checked if check.fault is not None)]
    counts = Counter(seq for seqs in health.hot.values() for seq in seqs)
    counts.update(seq for _, check in checked for seq in check.seqs)
    counts.update(health.tombstones)
    lost = {seq for loss in health.losses for seq in range(loss.lo, loss.hi + 1)}
    missing = sorted(set(range(1, max(health.last_seq, health.mark or 0) + 1)) - counts.keys() - lost)
    where = f"journals/{writer}.sqlite"
    if missing:
        faults.append(Fault(where, f"no record {ranges_text(missing)}", "every seq once", "they are noted as lost"))
    twice = [seq for seq, count in counts.items() if count > 1]
    if twice:
        found = f"record {ranges_text(twice)} more than once"
        faults.append(Fault(where, found, "every seq once", "report this: it should not be possible"))
    named = {segment.name for segment in health.segments} | set(health.retired)
    strays = [path for path in files if path.name not in named]
    action = "it is moved to quarantine/"
    faults += [
        Fault(str(path.relative_to(layout.root)), "an orphan", "only files of the catalogue", action) for path in strays
    ]
    try:
        hot = _hot_turn_keys(layout, writer) if health.hot.get("turns") else {}
    except sqlite3.Error as error:
        faults.append(Fault(where, str(error), "readable turns", "run verify again"))
        return _Found(health, checked, missing, strays, faults)
    faults += _broken_chains(where, checked, hot, lost.union(missing, health.tombstones))
    return _Found(health, checked, missing, strays, faults)


def _broken_chains(
    where: str, checked: list[tuple[Segment, CheckedSegment]], hot: dict[int, TurnKeys], gone: set[int]
) -> list[Fault]:
    """Turns whose prompt extends one that is gone or has another length."""
    turns: dict[int, TurnKeys] = {}
    for _, check in checked:
        turns |= check.turns
    turns |= hot
    broken: list[int] = []
    for seq in sorted(turns):
        before = turns[seq].prefix_seq
        if before is None:
            continue
        held = turns[seq].prefix_tokens
        fits = before < seq and before in turns and before not in broken and held in (0, turns[before].tokens)
        if not fits:
            broken.append(seq)
    if not broken:
        return []
    cause = "is lost" if gone else "does not fit"
    found = f"the turn that record {ranges_text(broken)} extends {cause}"
    return [Fault(where, found, "its tokens", "these prompts read as null")]


def _hot_turn_keys(layout: Layout, writer: str) -> dict[int, TurnKeys]:
    db = open_for_reading(layout.journal(writer))
    try:
        rows = [(row.seq, row.crc32, codec.open_row(row)) for row in read_hot(db, "turns")]
    finally:
        db.close()
    return turn_keys(codec.to_arrow("turns", writer, [(s, c, values) for s, c, values in rows if values is not None]))


def _set_aside(layout: Layout, writer: str, found: _Found) -> None:
    """Replaces damaged segments by their whole rows, moves orphans away, and notes what is lost."""
    damaged = [segment for segment, check in found.checked if check.fault is not None]
    if not damaged and not found.strays and not found.missing:
        return
    kept_at = layout.new_quarantine(writer)
    journal = Journal(layout, writer)
    try:
        for segment in damaged:
            _replace_damaged(layout, writer, journal, segment)
        cause = "; ".join(f"{fault.where}: {fault.found}" for fault in found.faults)
        lost = [Loss(lo, hi, cause, f"quarantine/{kept_at.name}", now_text(), 0) for lo, hi in ranges(found.missing)]
        journal.replace([], None, damaged=lost)
    finally:
        journal.close()
    for path in [*(layout.table(segment.tbl) / segment.name for segment in damaged), *found.strays]:
        if path.exists():
            path.rename(kept_at / path.name)
            fsync_folder(path.parent)
    fsync_folder(kept_at)


def _replace_damaged(layout: Layout, writer: str, journal: Journal, segment: Segment) -> None:
    whole = [rows for rows in whole_rows(layout.table(segment.tbl) / segment.name, segment.tbl) if rows.num_rows]
    fresh = None
    if whole:
        rows = pa.concat_tables(whole)
        fresh = write_segment(layout, segment.tbl, rows, writer, next_generation([segment]), no_hook)
    journal.replace([segment], fresh)


def _accept(layout: Layout, writer: str) -> None:
    journal = Journal(layout, writer)
    try:
        journal.accept_losses()
    finally:
        journal.close()


def _verified(layout: Layout, writer: str, found: _Found) -> Verified:
    after = inspect_journal(layout, writer)
    records = sum(map(len, after.hot.values())) + sum(segment.row_count for segment in after.segments)
    losses = [(writer, loss) for loss in after.losses]
    return Verified(records, len(after.segments), len(after.tombstones), found.faults, losses)


def _strangers(layout: Layout) -> list[Fault]:
    """Files under segments/ that no journal could name."""
    writers = set(layout.writers())
    faults: list[Fault] = []
    for path in sorted(layout.segments.glob("*/*")):
        name = SegmentName.parse(path.name.removesuffix(".tmp"))
        known = name is not None and name.writer in writers
        if path.parent.name in TABLES and path == layout.schema_file(path.parent.name):
            known = True
        if not known:
            where = str(path.relative_to(layout.root))
            faults.append(Fault(where, "a file of no writer", "segments of this store's journals", "move it away"))
    return faults


def _registry_faults(layout: Layout) -> list[Fault]:
    path = layout.root / "registry.sqlite"
    if not path.exists():
        return []
    try:
        db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        try:
            answer = db.execute("PRAGMA quick_check(1)").fetchall()
        finally:
            db.close()
    except sqlite3.Error as error:
        answer = [(str(error),)]
    if answer == [("ok",)]:
        return []
    return [Fault("registry.sqlite", str(answer[0][0]), "sound pages", "restore it from a copy")]
