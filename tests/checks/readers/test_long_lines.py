"""Logs whose first line is longer than the start of the file that formats are told by."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from checks.readers.file_head import HEAD_BYTES, FileHead
from checks.readers.open_log import open_log

LONG_IDS = list(range(10_000, 10_000 + HEAD_BYTES // 6))
LONG_TEXT = "long " * (HEAD_BYTES // 4)
LINES: dict[str, dict[str, Any]] = {
    "native": {"session_id": "s", "prompt_ids": LONG_IDS, "completion_ids": [1]},
    "verl": {"input": LONG_TEXT, "output": "a", "gts": None, "score": 1.0, "step": 1},
    "areal": {"task_id": "t", "sample_idx": 0, "prompt": LONG_TEXT, "completion": "a", "seqlen": 9, "prompt_len": 8}
    | {"head_version": 1, "tail_version": 1, "reward": 1.0},
}


@pytest.mark.parametrize("name", LINES)
@pytest.mark.parametrize("packed", [False, True])
def test_a_format_is_told_however_long_its_first_line_is(name: str, packed: bool, tmp_path: Path) -> None:
    line = (json.dumps(LINES[name]) + "\n").encode()
    assert len(line) > HEAD_BYTES
    path = tmp_path / "rollouts" / f"1.jsonl{'.gz' if packed else ''}"
    path.parent.mkdir()
    path.write_bytes(gzip.compress(line * 2) if packed else line * 2)
    log = open_log(path)
    assert sum(batch.turns.height for batch in log.batches(())) == 2
    assert log.source().format == name
    assert log.source().unreadable == 0


def test_of_a_long_line_only_short_values_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(json.dumps({"a": LONG_TEXT, "b": 1.5, "c": LONG_IDS, "record": "turn"}))
    head = FileHead.of(path)
    assert head.first_json == {"a": "", "b": 1.5, "c": [], "record": "turn"}
    assert head.keys == {"a", "b", "c", "record"}


def test_a_long_line_that_is_no_json_tells_nothing(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"a": "' + LONG_TEXT)
    assert FileHead.of(path).keys == frozenset()
