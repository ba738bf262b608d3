"""Whether somebody evaluates, and where that cannot be told."""

import os
from pathlib import Path

import pytest

from collector.store.layout import Layout
from collector.store.writer import Writer
from console.watch.evaluator_lock import evaluator_running, locks_stay_here

_MOUNTS = """\
24 30 0:22 / /proc rw,nosuid - proc proc rw
30 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard
41 30 0:50 / /a rw - nfs host:/a rw,vers=3,local_lock=none,addr=10.0.0.1
42 30 0:51 / /b rw - nfs host:/b rw,vers=3,local_lock=all,addr=10.0.0.1
43 30 0:52 / /c rw - fuse.sshfs host:/c rw,user_id=0
44 30 0:53 / /d rw - virtiofs share rw
45 30 0:54 / /e rw - nfs host:/e rw,vers=3,nolock
"""


@pytest.mark.parametrize(
    ("device", "own"),
    [((254, 0), False), ((0, 50), False), ((0, 51), True), ((0, 52), True), ((0, 53), True), ((0, 54), True),
     ((0, 99), False)],
)  # fmt: skip
def test_a_disk_whose_locks_do_not_reach_other_machines_is_known(device: tuple[int, int], own: bool) -> None:
    assert locks_stay_here(_MOUNTS, os.makedev(*device)) is own


def test_a_lock_that_cannot_be_asked_is_no_proof_that_none_runs(tmp_path: Path) -> None:
    with Writer(tmp_path, "collector"):
        pass
    lock = Layout(tmp_path).lock("evaluator")
    lock.symlink_to(lock.name)
    assert evaluator_running(tmp_path) is None
