"""The lock that makes one process the writer of a journal."""

import fcntl
import os
import time

from collector.errors import StoreError
from collector.store.layout import Layout

ASKED_FOR_S = 0.1
"""Whoever asks whether there is a writer holds the lock for a moment: only one that stays is another writer's."""
_AGAIN_S = 0.005


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
        if not _taken(self._file):
            holder = os.pread(self._file, 32, 0).decode(errors="replace").strip() or "unknown"
            os.close(self._file)
            raise LockHeld(
                f"{layout.journal(writer)}: locked by the process with pid {holder}, expected no other writer; "
                f"stop it first"
            )
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Lets another process be the writer."""
        os.close(self._file)


def has_writer(layout: Layout, writer: str) -> bool | None:
    """Whether a process is the journal's writer now; None where the lock cannot be asked.

    The lock is shared for a moment: the holder notices nothing, and a new writer waits so long. Unlike /proc/locks and
    the noted pid it tells of a holder in another PID namespace too, and needs no right to write.
    """
    try:
        file = os.open(layout.lock(writer), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return None
    finally:
        os.close(file)
    return False


def _taken(file: int) -> bool:
    until_s = time.monotonic() + ASKED_FOR_S
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until_s:
                return False
            time.sleep(_AGAIN_S)
        else:
            return True
