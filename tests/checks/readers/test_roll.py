"""ROLL's dumps, generated as its own writers lay them out: columns in one line, and pickled batches."""

import io
import json
import pickle
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from checks.readers.file_head import FileHead
from checks.readers.formats import FORMATS
from checks.readers.unreadable import UnreadableParts
from checks.rows import Row, TurnRow


def read(path: Path) -> tuple[list[Row], UnreadableParts]:
    unreadable = UnreadableParts()
    form = next(form for form in FORMATS if form.recognise(FileHead.of(path)))
    assert form.name == "roll"
    return list(form.read((path,), unreadable)), unreadable


def turns(rows: list[Row]) -> list[TurnRow]:
    return [row for row in rows if isinstance(row, TurnRow)]


def dump(folder: Path, columns: dict[str, Any], step: int = 4) -> Path:
    path = folder / f"rollout_dump_data.step_{step}.jsonl"
    path.write_text(json.dumps(columns, ensure_ascii=False) + "\n")
    return path


def test_a_line_of_columns_is_a_turn_for_each_row(tmp_path: Path) -> None:
    columns = {
        "id": ["a", "a", "b"],
        "prompt": ["p1", "p1", "p2"],
        "messages": [json.dumps([{"role": "user", "content": "hi"}]), "", "not json"],
        "responses": ["r1", "r2", "r3"],
        "scores": [1.0, 0.0, 0.5],
        "sampling_params": ["{}"] * 3,
        "global_step": [4, 4, 4],
    }
    found = turns(read(dump(tmp_path, columns))[0])
    assert [(row.session_id, row.group_id, row.task_id, row.reward) for row in found] == [
        ("4/0", "4/a", "a", 1.0),
        ("4/1", "4/a", "a", 0.0),
        ("4/2", "4/b", "b", 0.5),
    ]
    assert [(row.prompt_text, row.completion_text) for row in found] == [("p1", "r1"), ("p1", "r2"), ("p2", "r3")]
    assert found[0].request == {"messages": [{"role": "user", "content": "hi"}]}
    assert [row.request for row in found[1:]] == [None, None]
    assert {row.trainer_step for row in found} == {4}


def test_a_line_larger_than_the_head_is_recognised(tmp_path: Path) -> None:
    columns = {"responses": ["x" * 400_000], "scores": [1.0], "global_step": [4]}
    assert len(turns(read(dump(tmp_path, columns))[0])) == 1


def test_of_a_trajectory_in_steps_only_the_filled_row_counts(tmp_path: Path) -> None:
    told = {"trajectory_id": "t7", "reward_info": {"episode_reward": 0.25}, "failure_info": None}
    columns = {
        "trajectory_data": [None, "", json.dumps(told)],
        "messages": [None, "", json.dumps([{"role": "assistant", "content": "done"}])],
        "global_step": [2, 2, 2],
    }
    (found,) = turns(read(dump(tmp_path, columns, 2))[0])
    assert (found.session_id, found.reward, found.trainer_step) == ("2/t7", 0.25, 2)
    assert found.request == {"messages": [{"role": "assistant", "content": "done"}]}


def test_columns_of_unequal_length_are_counted(tmp_path: Path) -> None:
    rows, unreadable = read(dump(tmp_path, {"responses": ["a"], "scores": [1.0, 2.0]}))
    assert rows == []
    assert unreadable.first[0].reason == "columns of [1, 2] rows, expected one length for all"


class DataProto:
    """Stands for ROLL's class under its name; its state is what ROLL writes."""

    def __init__(self, *state: Any) -> None:
        self.state = state

    def __getstate__(self) -> Any:
        return self.state


@pytest.fixture
def proto(monkeypatch: pytest.MonkeyPatch) -> type[DataProto]:
    """A class that pickles under ROLL's name."""
    module = "roll.distributed.scheduler.protocol"
    for end in range(1, 5):
        name = ".".join(module.split(".")[:end])
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    made = type("DataProto", (DataProto,), {"__module__": module})
    sys.modules[module].DataProto = made  # type: ignore[attr-defined]
    return made


class TensorDict:
    """Stands for a tensordict: a call with its class and its fields."""

    def __init__(self, fields: dict[str, torch.Tensor]) -> None:
        self.fields = fields

    def __reduce__(self) -> Any:
        return sys.modules["tensordict._reductions"]._make_td, (  # type: ignore[attr-defined]
            sys.modules["tensordict._reductions"].TensorDict,  # type: ignore[attr-defined]
            {"_tensordict": self.fields, "_batch_size": torch.Size([2])},
        )


@pytest.fixture(autouse=True)
def _tensordict(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("tensordict", "tensordict._reductions"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    for name in ("_make_td", "TensorDict"):
        made = type(name, (), {"__module__": "tensordict._reductions", "__qualname__": name})
        setattr(sys.modules["tensordict._reductions"], name, made)


def test_a_mock_batch_undoes_the_shift_of_its_labels(proto: type[DataProto], tmp_path: Path) -> None:
    """Log-probabilities are one shorter than the tokens: the first of them is of the second token."""
    fields = {
        "input_ids": torch.tensor([[10, 11, 12, 13, 0], [20, 21, 22, 23, 24]]),
        "attention_mask": torch.tensor([[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]),
        "response_mask": torch.tensor([[0, 0, 1, 1, 0], [0, 1, 0, 1, 1]]),
        "infer_logprobs": torch.tensor([[0.0, -0.5, -0.25, 0.0], [-1.0, 0.0, -2.0, 0.0]]),
        "response_level_rewards": torch.tensor([1.0, 0.5]),
    }
    stream = io.BytesIO()
    torch.save(TensorDict(fields), stream)
    others = {"traj_group_id": np.array(["g1", "g2"], dtype=object)}
    path = tmp_path / "train" / "step_000006.pkl"
    path.parent.mkdir()
    path.write_bytes(pickle.dumps(proto(stream.getvalue(), others, {"global_step": 6})))
    rows, unreadable = read(path)
    assert unreadable.first == []
    assert [
        (row.session_id, row.turn, row.prompt_ids, row.completion_ids, row.sampled_logprobs) for row in turns(rows)
    ] == [
        ("train/6/0", 1, [10, 11], [12, 13], [-0.5, -0.25]),
        ("train/6/1", 1, [20], [21], [-1.0]),
        ("train/6/1", 2, [20, 21, 22], [23, 24], [-2.0, 0.0]),
    ]
    assert [(row.group_id, row.reward, row.trainer_step) for row in turns(rows)] == [
        ("train/6/g1", 1.0, 6),
        ("train/6/g2", 0.5, 6),
        ("train/6/g2", 0.5, 6),
    ]


def test_a_batch_without_its_masks_is_named(proto: type[DataProto], tmp_path: Path) -> None:
    path = tmp_path / "step_000001.pkl"
    path.write_bytes(pickle.dumps(proto(None, {}, {})))
    rows, unreadable = read(path)
    assert rows == []
    assert "without input_ids" in unreadable.first[0].reason
