"""kill -9 after each durable deed of a cycle: the next run finishes or undoes it, and nothing unproved is routed to."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
ENDINGS = {"pass": "routed", "refuse": "refused", "inconclusive": "inconclusive", "refuted": "refuted"}
STATES = {"pass": "live", "refuse": "rejected", "inconclusive": "candidate", "refuted": "rejected"}


def kills(folder: Path, verdict: str, first: int, step: int, *, most_s: float = 110) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "tests.trainer.cycle.kill_child", str(folder), verdict, str(first), str(step)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=most_s)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def check(found: dict[str, Any], verdict: str) -> None:
    made = len(found["states"]) == 3
    routed = found["routed"][0][1]
    # A tenant has one route all the time, and what it leads to was proved, and is loaded.
    assert len(found["routed"]) == 1, found
    assert f"bot@{routed}" in found["engine"]["proved"], found
    assert found["engine"]["loaded"] == [f"bot@{routed}"], found
    assert routed == (2 if made and verdict == "pass" else 1), found
    assert found["states"] == (
        ["retired", "live"] if not made else ["retired", "retired" if verdict == "pass" else "live", STATES[verdict]]
    ), found
    assert found["last"] == "end"
    assert found["cycles"] == [1, 2, 3][: len(found["cycles"])], found
    # However often it was taken up, the store tells of one ending.
    assert found["endings"] == ([ENDINGS[verdict]] if made else []), found


@pytest.mark.parametrize("verdict", ENDINGS)
def test_a_few_kills_are_made_good(tmp_path: Path, verdict: str) -> None:
    found = kills(tmp_path, verdict, 9, 7)
    assert len(found) >= 3
    for each in found:
        check(each, verdict)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("verdict", ENDINGS)
def test_a_kill_after_any_deed_is_made_good(tmp_path: Path, verdict: str) -> None:
    found = kills(tmp_path, verdict, 1, 1, most_s=880)
    deeds = {each["killed_after"] for each in found}
    assert {"registry", "train", "load", "prove", "unload", "write begin", "write end"} <= deeds
    for each in found:
        check(each, verdict)
