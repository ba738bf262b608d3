"""The lock that makes one process the writer of a journal."""

import fcntl
import os

from collector.errors import StoreError
from collector.store.layout import Layout


class LockHeld(StoreError):
    """Another process is the journal's writer."""


class WriterLock:
    """The lock that makes this process the only writer of a journal."""

    def __init__(self, layout: Layout, writer: str) -> None:
        path = layout.lock(writer)
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise StoreError(f"{path}: {error.strerror}, expected to write there; check the folder's rights") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._file, 32, 0).decode(errors="replace").strip() or "unknown"
            os.close(self._file)
            raise LockHeld(
                f"{layout.journal(writer)}: locked by the process with pid {holder}, expected no other writer; "
                f"stop it first"
            ) from None
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Lets another process be the writer."""
        os.close(self._file)
