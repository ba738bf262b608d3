"""One writer of a journal at a time, and asking whether there is one takes nothing from it."""

import fcntl
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from collector.store.layout import Layout
from collector.store.writer_lock import LockHeld, WriterLock, has_writer

_ASK = """
import sys
from pathlib import Path
from collector.store.layout import Layout
from collector.store.writer_lock import has_writer
print(has_writer(Layout(Path(sys.argv[1])), "w"))
"""


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    layout = Layout(tmp_path)
    layout.journals.mkdir()
    return layout


def test_a_writer_is_told_from_none_and_is_not_disturbed(layout: Layout) -> None:
    assert has_writer(layout, "w") is False
    lock = WriterLock(layout, "w")
    assert has_writer(layout, "w") is True
    with pytest.raises(LockHeld):
        WriterLock(layout, "w")
    lock.release()
    assert has_writer(layout, "w") is False
    WriterLock(layout, "w").release()


def test_it_is_asked_without_the_right_to_write(layout: Layout) -> None:
    lock = WriterLock(layout, "w")
    layout.lock("w").chmod(0o444)
    assert has_writer(layout, "w") is True
    lock.release()


def test_a_lock_that_cannot_be_opened_is_not_known_and_not_free(layout: Layout) -> None:
    layout.lock("w").symlink_to(layout.lock("w").name)
    assert has_writer(layout, "w") is None


def test_a_writer_in_another_pid_namespace_is_seen(layout: Layout) -> None:
    apart = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]
    try:
        subprocess.run([*apart, "true"], check=True, capture_output=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        pytest.skip("no namespace can be made here")
    lock = WriterLock(layout, "w")
    asked = subprocess.run(
        [*apart, sys.executable, "-c", _ASK, str(layout.root)], check=True, capture_output=True, text=True, timeout=60
    )
    lock.release()
    assert asked.stdout == "True\n"


def test_a_new_writer_outwaits_whoever_only_asks(layout: Layout) -> None:
    WriterLock(layout, "w").release()
    with layout.lock("w").open() as asking:
        fcntl.flock(asking, fcntl.LOCK_SH)
        timer = threading.Timer(0.02, lambda: fcntl.flock(asking, fcntl.LOCK_UN))
        timer.start()
        WriterLock(layout, "w").release()
        timer.join()
