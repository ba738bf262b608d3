"""Events that speak of what is erased without being of it, such as an alert: they stay, and the names in them go."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false
# (pyarrow carries no types)

import re
import time
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, cast

import msgspec
import pyarrow as pa

from collector.store import codec
from collector.store.codec import StoredRow
from collector.store.columns import stored_columns
from collector.store.compaction import next_generation, read_segment
from collector.store.journal import Segment
from collector.store.layout import Layout, fsync_folder
from collector.store.segments import Hook, write_segment

if TYPE_CHECKING:
    from collector.store.erase import ErasableJournal

FORGOTTEN = "[forgotten]"
"""What stands where the name of an erased session or turn stood."""

_TABLE = "events"
_NAMED_UNDER = ("session_id", "turn_id", "feedback_id", "user_hash")
# What ids are made of: a name inside a longer one is another name.
_INSIDE = r"[\w./:@-]"


class Mentions:
    """Names of what is erased (sessions, turns, judgements, users), and events without them."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = frozenset(names)
        # The longest first, or a name would be cut out of the one that it begins.
        either = "|".join(re.escape(name) for name in sorted(self._names, key=len, reverse=True))
        self._prose = re.compile(rf"(?<!{_INSIDE})(?:{either})(?![\w/@-]|[.:]\w)") if either else None
        columns = [column.name for column in stored_columns(_TABLE)]
        self._text, self._detail = columns.index("text"), columns.index("detail")

    def without(self, values: Sequence[Any]) -> list[Any] | None:
        """An event's plain stored values without the names; None when it has none of them."""
        changed = list(values)
        changed[self._text] = self.in_text(values[self._text])
        detail = values[self._detail]
        changed[self._detail] = None if detail is None else self.in_json(detail)
        return changed if changed != list(values) else None

    def in_json(self, text: bytes) -> bytes:
        """A JSON text without the names; the text itself when it has none of them."""
        before = msgspec.json.decode(text)
        after = self._in(before, "")
        return text if after == before else codec.json_text(after)

    def in_text(self, text: str | None) -> str | None:
        """A text without the names."""
        if text is None or self._prose is None:
            return text
        return FORGOTTEN if text in self._names else self._prose.sub(FORGOTTEN, text)

    def _in(self, value: object, under: str) -> object:
        if isinstance(value, dict):
            inner = cast("dict[str, object]", value)
            # An id is a key only where ids are counted by; the words of a structure are left alone.
            return {self._key(key, under): self._in(each, key) for key, each in inner.items()}
        if isinstance(value, list):
            return [self._in(each, under) for each in cast("list[object]", value)]
        if not isinstance(value, str):
            return value
        if _names_ids(under):
            return FORGOTTEN if value in self._names else value
        return self.in_text(value) if " " in value else value

    def _key(self, key: str, under: str) -> str:
        return FORGOTTEN if _names_ids(under) and key in self._names else key


def rewrite_mentions(
    layout: Layout, writer: str, journal: "ErasableJournal", mentions: Mentions, hook: Hook, *, keep_files: bool = False
) -> int:
    """Takes the names out of a journal's events, hot and sealed, and returns out of how many."""
    hot = [again for row in journal.hot(_TABLE) if (again := _rewritten(row, mentions)) is not None]
    journal.rewrite(_TABLE, hot)
    sealed = [segment for segment in journal.segments() if segment.tbl == _TABLE]
    return len(hot) + sum(
        _rewrite_sealed(layout, writer, journal, segment, mentions, hook, keep_files) for segment in sealed
    )


def _rewrite_sealed(
    layout: Layout,
    writer: str,
    journal: "ErasableJournal",
    segment: Segment,
    mentions: Mentions,
    hook: Hook,
    keep_files: bool,
) -> int:
    stored = read_segment(layout, segment)
    rows = [_rewritten(row, mentions) for row in codec.from_arrow(_TABLE, stored)]
    changed = [row for row in rows if row is not None]
    if not changed:
        return 0
    kept = stored.filter(pa.array([row is None for row in rows]))
    opened = [(row.seq, row.crc32, codec.open_row(row) or ()) for row in changed]
    whole = pa.concat_tables([kept, codec.to_arrow(_TABLE, writer, opened)]).sort_by("seq")
    fresh = write_segment(layout, _TABLE, whole, writer, next_generation([segment]), hook)
    journal.replace([segment], fresh, retired_at=time.time() if keep_files else None)
    hook("replaced")
    if keep_files:
        return len(changed)
    path = layout.table(_TABLE) / segment.name
    path.unlink(missing_ok=True)
    fsync_folder(path.parent)
    return len(changed)


def _rewritten(row: StoredRow, mentions: Mentions) -> StoredRow | None:
    values = codec.open_row(row)
    without = None if values is None else mentions.without(values)
    return None if without is None else codec.seal_row(_TABLE, row.seq, without)


def _names_ids(key: str) -> bool:
    return key in _NAMED_UNDER or key.removesuffix("s") in _NAMED_UNDER or key in ("sessions", "turns")
