"""The console's benchmark runs on a small store, and what it says holds on any machine."""

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_quick_run_prints_one_line_that_holds_together(tmp_path: Path):
    command = [
        sys.executable,
        str(Path(__file__).with_name("console.py")),
        "--quick",
        "--store",
        str(tmp_path / "store"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=580, check=True)
    (line,) = done.stdout.splitlines()
    result = json.loads(line)
    assert 0 < result["first_frame"]["frame_s"] < result["first_frame"]["view_s"]
    assert result["idle"]["bytes_s"] <= result["live"]["bytes_s"]
    for part in (result["keys"]["lanes"], result["keys"]["rows"], result["sleeping"]["lanes"]):
        assert part["unanswered"] == 0
        assert 0 < part["p50_ms"] <= part["p95_ms"] <= part["max_ms"]
    assert result["day"]["turns"] == 400
    log = result["biglog"]
    assert 20_000_000 <= log["bytes"] < 23_000_000
    assert 0 < log["part_s"] < log["whole_s"]
