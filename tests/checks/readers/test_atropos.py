"""Atropos' saved groups, generated in the keys of its ScoredDataGroup."""

import json
from pathlib import Path
from typing import Any

from checks.readers.atropos import ATROPOS
from checks.readers.file_head import FileHead
from checks.readers.formats import FORMATS
from checks.readers.unreadable import UnreadableParts
from checks.rows import TurnRow


def read(path: Path, *groups: dict[str, Any]) -> tuple[list[TurnRow], UnreadableParts]:
    path.write_text("".join(json.dumps(group) + "\n" for group in groups))
    assert next(form.name for form in FORMATS if form.recognise(FileHead.of(path))) == "atropos"
    unreadable = UnreadableParts()
    return [row for row in ATROPOS.read((path,), unreadable) if isinstance(row, TurnRow)], unreadable


GROUP: dict[str, Any] = {
    "tokens": [[1, 2, 50, 51], [1, 2, 60, 70, 61]],
    "masks": [[-100, -100, 50, 51], [-100, -100, 60, -100, 61]],
    "scores": [1.0, -1.0],
    "advantages": None,
    "ref_logprobs": None,
    "inference_logprobs": [[1.0, 1.0, -0.5, 0.0], [1.0, 1.0, -0.25, 1.0, -2.0]],
    "messages": None,
}


def test_every_id_and_log_probability_comes_back(tmp_path: Path) -> None:
    found, unreadable = read(tmp_path / "g.jsonl", GROUP, GROUP)
    assert unreadable.count == 0
    assert [
        (row.session_id, row.turn, row.prompt_ids, row.completion_ids, row.sampled_logprobs) for row in found[:3]
    ] == [
        ("g/1/0", 1, [1, 2], [50, 51], [-0.5, 0.0]),
        ("g/1/1", 1, [1, 2], [60], [-0.25]),
        ("g/1/1", 2, [1, 2, 60, 70], [61], [-2.0]),
    ]
    assert [(row.group_id, row.reward) for row in found[:3]] == [("g/1", 1.0), ("g/1", -1.0), ("g/1", -1.0)]
    assert {row.group_id for row in found} == {"g/1", "g/2"}


def test_a_sampled_token_without_loss_keeps_its_mask(tmp_path: Path) -> None:
    masks = [[-100, -100, 50, -100], [-100, -100, 60, -100, 61]]
    first = read(tmp_path / "g.jsonl", GROUP | {"masks": masks})[0][0]
    assert (first.completion_ids, first.loss_mask) == ([50, 51], [1, 0])


def test_masks_of_ones_and_zeros(tmp_path: Path) -> None:
    held = GROUP | {"masks": [[0, 0, 1, 1], [0, 0, 1, 0, 1]], "inference_logprobs": None}
    assert [row.completion_ids for row in read(tmp_path / "g.jsonl", held)[0]] == [[50, 51], [60], [61]]


def test_unequal_lengths_are_counted_and_the_rest_read(tmp_path: Path) -> None:
    held = GROUP | {"masks": [[-100, 2], [-100, -100, 60, -100, 61]]}
    found, unreadable = read(tmp_path / "g.jsonl", held, GROUP | {"masks": []})
    assert [row.session_id for row in found] == ["g/1/1", "g/1/1"]
    assert [part.place for part in unreadable.first] == ["g.jsonl:1[0]", "g.jsonl:2"]
