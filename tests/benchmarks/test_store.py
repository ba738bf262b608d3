"""The store's benchmark runs, and what it says about a store holds on any machine."""

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_quick_run_prints_one_line_that_holds_together(tmp_path: Path):
    command = [sys.executable, str(Path(__file__).with_name("store.py")), "--quick", "--folder", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=True)
    (line,) = done.stdout.splitlines()
    result = json.loads(line)
    for part in ("paced_50", "paced_500"):
        assert result[part]["readers"]["errors"] == result[part]["readers"]["violations"] == []
        assert result[part]["readers"]["polls"] >= 3
        assert 0 < result[part]["p50_ms"] <= result[part]["p99_ms"]
    assert result["disk"]["r_squared"] > 0.99
    assert result["disk"]["last_quarter_over_first"] < 1.5
    assert result["disk"]["segment_bytes"][-1] < result["disk"]["bytes_if_each_turn_were_whole"] / 20
    assert list(tmp_path.iterdir()) == []
