"""AReaL's dumped generations, generated in the keys that its workflow executor writes."""

import json
from pathlib import Path
from typing import Any

from checks.readers.areal import AREAL
from checks.readers.file_head import FileHead
from checks.readers.formats import FORMATS
from checks.readers.unreadable import UnreadableParts
from checks.rows import EvalRow, Row, TurnRow


def line(sample: int, **changed: Any) -> dict[str, Any]:
    made = {
        "task_id": 17,
        "sample_idx": sample,
        "seqlen": 9,
        "prompt_len": 4,
        "head_version": 3,
        "tail_version": 3,
        "reward": 1.0,
        "prompt": "<|user|>hi",
        "completion": "hello<|end|>",
    }
    return made | changed


def read(path: Path, lines: list[dict[str, Any]]) -> tuple[list[Row], UnreadableParts]:
    path.parent.mkdir(parents=True)
    path.write_text("".join(json.dumps(each) + "\n" for each in lines))
    assert next(form.name for form in FORMATS if form.recognise(FileHead.of(path))) == "areal"
    unreadable = UnreadableParts()
    return list(AREAL.read((path,), unreadable)), unreadable


def test_generations_are_turns_of_text_with_versions(tmp_path: Path) -> None:
    rows, unreadable = read(
        tmp_path / "rollout" / "5" / "17.jsonl", [line(0), line(1, head_version=2), line(2, task_id=None)]
    )
    found = [row for row in rows if isinstance(row, TurnRow)]
    assert [(row.session_id, row.group_id, row.adapter_version, row.reward) for row in found] == [
        ("rollout/5/17/1", "rollout/5/17", 3, 1.0),
        ("rollout/5/17/2", "rollout/5/17", None, 1.0),
    ]
    assert (found[0].prompt_text, found[0].completion_text) == ("<|user|>hi", "hello<|end|>")
    assert [part.place for part in unreadable.first] == ["17.jsonl:3"]


def test_an_evaluation_is_held_out_samples(tmp_path: Path) -> None:
    rows, _ = read(tmp_path / "eval-rollout" / "5" / "17.jsonl", [line(0), line(1, reward=0.0)])
    assert [
        (row.version, row.suite, row.task_id, row.sample, row.score) for row in rows if isinstance(row, EvalRow)
    ] == [
        (3, "eval-rollout", "17", 0, 1.0),
        (3, "eval-rollout", "17", 1, 0.0),
    ]
