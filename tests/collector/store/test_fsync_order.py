"""Flow: what the system calls of an acknowledgement say: the log is synced, then the mark, then the caller is told."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CHILD = """
import os, sys
from datetime import UTC, datetime
from pathlib import Path
from collector.config import StoreConfig
from collector.records import Event
from collector.store.writer import Writer
with Writer(Path(sys.argv[1]), "collector", StoreConfig(seal_interval_s=1e9)) as writer:
    for number in range(5):
        writer.append(Event(at=datetime.now(UTC), kind="k")).result(20)
        os.write(1, b"ACKNOWLEDGED\\n")
    os.write(1, b"SEAL\\n")
    writer.seal()
    os.write(1, b"SEALED\\n")
"""
CALL = re.compile(r"^\d+ +(?:<\.\.\. )?(\w+)(?:\((?:AT_FDCWD(?:<[^>]*>)?, )?(?:\d+<([^>]*)>|\"([^\"]*)\")(.*))?")


def calls(store: Path, log: Path) -> list[tuple[str, str, str]]:
    """The child's writes and syncs in order: call, file, rest of the line."""
    traced = "fdatasync,fsync,write,pwrite64,rename,renameat,renameat2"
    command = ["strace", "-f", "-y", "-o", str(log), "-e", f"trace={traced}", sys.executable, "-c", CHILD, str(store)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100)
    if "Operation not permitted" in done.stderr:
        pytest.skip(f"NOT TESTED, the order of syncs: strace may not trace here ({done.stderr.strip()[:200]})")
    assert done.returncode == 0, done.stderr
    matches = [CALL.match(line) for line in log.read_text().splitlines()]
    return [(m[1], m[2] or m[3], m[4] or "") for m in matches if m and (m[2] or m[3])]


@pytest.mark.skipif(shutil.which("strace") is None, reason="NOT TESTED, the order of syncs: there is no strace here")
def test_an_answer_comes_after_the_syncs_and_a_catalogue_after_the_rename(tmp_path: Path) -> None:
    made = calls(tmp_path / "store", tmp_path / "trace")
    journal, mark = "collector.sqlite-wal", "collector.mark"
    short = [(call, Path(name).name, rest) for call, name, rest in made]
    answers = [n for n, (_, _, rest) in enumerate(short) if "ACKNOWLEDGED" in rest]
    assert len(answers) == 5
    for start, end in zip([0, *answers], answers, strict=False):
        between = [(call, name) for call, name, _ in short[start:end] if name in (journal, mark)]
        assert between[-1] == ("fdatasync", mark)
        assert ("pwrite64", mark) in between
        before_mark = between[: between.index(("pwrite64", mark))] if start else between
        syncs = [n for n, entry in enumerate(before_mark) if entry == ("fdatasync", journal)]
        writes = [n for n, entry in enumerate(before_mark) if entry == ("pwrite64", journal)]
        assert syncs
        assert writes
        assert max(syncs) > max(writes)
    sealing = short[next(n for n, (_, _, rest) in enumerate(short) if "SEAL\\n" in rest) :]
    written = next(n for n, (call, name, _) in enumerate(sealing) if call == "write" and name.endswith(".tmp"))
    synced = next(n for n, (call, name, _) in enumerate(sealing) if call == "fsync" and name.endswith(".tmp"))
    renamed = next(n for n, (call, _, _) in enumerate(sealing) if call.startswith("rename"))
    folder = next(n for n, (call, name, _) in enumerate(sealing) if call == "fsync" and name == "events")
    catalogued = next(n for n, (call, name, _) in enumerate(sealing) if (call, name) == ("pwrite64", journal))
    assert written < synced < renamed < folder < catalogued
