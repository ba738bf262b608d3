"""The checks' benchmark runs, and what it says of a log holds on any machine."""

import json
import subprocess
import sys
from pathlib import Path

from checks.suite import CHECKS


def test_a_small_run_prints_one_line_that_holds_together(tmp_path: Path):
    command = [sys.executable, str(Path(__file__).with_name("checks.py")), "--tokens", "3e5", "--folder", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110, check=True)
    (line,) = done.stdout.splitlines()
    result = json.loads(line)
    log, together = result["log"], result["together"]
    assert log["prompt_tokens"] + log["completion_tokens"] == together["tokens"] >= 3e5
    assert log["turns"] == together["turns"]
    without = {check.name for check in CHECKS if not any(measure.needs_tokenizer for measure in check.measures)}
    assert set(result["each"]) == set(together["status"]) == without
    assert all(rate["tokens_s"] > 0 for rate in result["each"].values())
    assert together["status"]["duplicate-prefix"] == "info"
    assert result["martingale"] == {"skipped": "no --record with a tokens.db"}
    assert list(tmp_path.iterdir()) == []
