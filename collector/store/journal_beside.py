"""A journal that is worked on from beside its thread: each step is a short task between commits."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from typing import TypeVar

from collector.store.codec import StoredRow
from collector.store.journal import Journal, Loss, Segment, Tombstone

T = TypeVar("T")


class JournalBeside:
    """What an erasure needs of a journal, done in the writer's thread while records go on being acknowledged."""

    def __init__(self, submit: Callable[[Callable[[Journal], None]], "Future[None]"]) -> None:
        self._submit = submit

    def do(self, work: Callable[[Journal], T]) -> T:
        """The result of some short work in the writer's thread."""
        results: list[T] = []
        self._submit(lambda journal: results.append(work(journal))).result()
        return results[0]

    def note(self, key: str, value: str | None) -> None:
        """Keeps a note in the journal; None removes it."""
        self.do(lambda journal: journal.note(key, value))

    def hot(self, table: str) -> list[StoredRow]:
        """A table's hot rows."""
        return self.do(lambda journal: journal.hot(table))

    def segments(self) -> list[Segment]:
        """The catalogue."""
        return self.do(lambda journal: journal.segments())

    def bury(self, table: str, seqs: Sequence[int]) -> None:
        """Deletes hot rows and leaves a tombstone for each."""
        self.do(lambda journal: journal.bury(table, seqs))

    def rewrite(self, table: str, rows: Sequence[StoredRow]) -> None:
        """Puts other bodies in the place of hot rows."""
        if rows:
            self.do(lambda journal: journal.rewrite(table, rows))

    def replace(
        self,
        old: Sequence[Segment],
        new: Segment | None,
        *,
        tombstones: Iterable[Tombstone] = (),
        damaged: Iterable[Loss] = (),
        retired_at: float | None = None,
    ) -> None:
        """Puts a segment in the place of others, in one transaction."""
        self.do(lambda j: j.replace(old, new, tombstones=tombstones, damaged=damaged, retired_at=retired_at))
