"""verl's lines and cached batches, generated as its own writers lay them out: every value comes back."""

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
from checks.readers.open_log import open_log
from checks.readers.unreadable import UnreadableParts
from checks.rows import EvalRow, Row, TurnRow

PROMPTS = [[1, 2, 3], [4]]
RESPONSES = [[50, 51], [60, 61, 62, 63]]
MASKS = [[1, 1], [1, 0, 0, 1]]
SAMPLED = [[-0.5, 0.0], [-0.25, 0.0, 0.0, -1.5]]


def read(*paths: Path, name: str = "verl") -> tuple[list[Row], UnreadableParts]:
    unreadable = UnreadableParts()
    rows: list[Row] = []
    for path in paths:
        form = next(form for form in FORMATS if form.recognise(FileHead.of(path)))
        assert form.name == name
        rows += form.read((path,), unreadable)
    return rows, unreadable


def write_lines(path: Path, lines: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
    return path


def line(prompt: str, score: float, **more: Any) -> dict[str, Any]:
    return {"input": prompt, "output": f"answer to {prompt}", "gts": None, "score": score, "step": 3} | more


def test_rollouts_are_turns_of_text_grouped_by_input(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "rollouts" / "3.jsonl", [line("a", 1.0, acc=1.0), line("b", 0.0), line("a", 0.0)])
    rows, _ = read(path)
    found = [row for row in rows if isinstance(row, TurnRow)]
    assert [(row.session_id, row.prompt_text, row.completion_text, row.reward) for row in found] == [
        ("3/1", "a", "answer to a", 1.0),
        ("3/2", "b", "answer to b", 0.0),
        ("3/3", "a", "answer to a", 0.0),
    ]
    assert found[0].group_id == found[2].group_id != found[1].group_id
    assert [(row.trainer_step, row.prompt_ids, row.completion_ids) for row in found] == [(3, None, None)] * 3


def test_the_newer_trainer_names_its_groups(tmp_path: Path) -> None:
    lines = [line("a", 1.0, uid="u1_0_0"), line("a", 0.0, uid="u1_1_0"), line("a", 0.0, uid="u2_0_0")]
    found = read(write_lines(tmp_path / "rollouts" / "3.jsonl", lines))[0]
    assert [(row.session_id, row.group_id) for row in found if isinstance(row, TurnRow)] == [
        ("3/u1_0_0", "3/u1"),
        ("3/u1_1_0", "3/u1"),
        ("3/u2_0_0", "3/u2"),
    ]


@pytest.mark.parametrize("folder", ["val_data", "validation", "my-eval", "test", "evals", "val2"])
def test_validation_is_told_by_its_folder(tmp_path: Path, folder: str) -> None:
    path = write_lines(
        tmp_path / folder / "3.jsonl", [line("a", 1.0, acc=True), line("a", 0.0, acc=False), line("b", 0.5)]
    )
    rows, _ = read(path, name="verl-validation")
    found = [row for row in rows if isinstance(row, EvalRow)]
    assert [(row.step, row.suite, row.sample, row.score, row.passed) for row in found] == [
        (3, folder, 0, 1.0, True),
        (3, folder, 1, 0.0, False),
        (3, folder, 0, 0.5, None),
    ]
    assert found[0].task_id == found[1].task_id != found[2].task_id


def test_validation_is_told_by_the_score_it_repeats(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "out" / "3.jsonl", [line("a", 1.0, reward=1.0)])
    assert len(read(path, name="verl-validation")[0]) == 1


@pytest.mark.parametrize("folder", ["rollouts", "train", "interval", "retrieval"])
def test_other_folders_are_no_validation(tmp_path: Path, folder: str) -> None:
    assert len(read(write_lines(tmp_path / folder / "3.jsonl", [line("a", 1.0)]))[0]) == 1


def test_validation_can_be_forced(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "out" / "3.jsonl", [line("a", 1.0)])
    assert open_log(path, reads="verl-validation").table("evals").height == 1


def test_lines_that_are_no_rollout_are_counted(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "rollouts" / "3.jsonl", [line("a", float("nan")), {"step": 3}, line("b", 1.0)])
    with path.open("a") as file:
        file.write('{"input": "c", "outp')
    rows, unreadable = read(path)
    assert len(rows) == 2
    assert np.isnan(rows[0].reward or 0)  # pyright: ignore[reportAttributeAccessIssue]
    assert [part.place for part in unreadable.first] == ["3.jsonl:2", "3.jsonl:4"]


def padded(rows: list[list[Any]], width: int, filling: Any, *, left: bool, dtype: torch.dtype) -> torch.Tensor:
    fill = [[filling] * (width - len(row)) for row in rows]
    return torch.tensor([f + r if left else r + f for f, r in zip(fill, rows, strict=True)], dtype=dtype)


def batch() -> dict[str, torch.Tensor]:
    """Prompts padded on the left, responses on the right, as the agent loop lays them out."""
    prompts = padded(PROMPTS, 4, 0, left=True, dtype=torch.int64)
    responses = padded(RESPONSES, 5, 0, left=False, dtype=torch.int64)
    present = [
        padded([[1] * len(row) for row in PROMPTS], 4, 0, left=True, dtype=torch.int64),
        padded([[1] * len(row) for row in RESPONSES], 5, 0, left=False, dtype=torch.int64),
    ]
    return {
        "prompts": prompts,
        "responses": responses,
        "input_ids": torch.cat([prompts, responses], dim=1),
        "attention_mask": torch.cat(present, dim=1),
        "response_mask": padded(MASKS, 5, 0, left=False, dtype=torch.int64),
        "rollout_log_probs": padded(SAMPLED, 5, 0.0, left=False, dtype=torch.float32),
        "rm_scores": padded([[0.0, 1.0], [0.0, 0.0, 0.0, 0.25]], 5, 0.0, left=False, dtype=torch.float32),
    }


class Named:
    """Pickles as a call of a function, or as an object of a class, of a module that is not here."""

    def __init__(self, name: str, arguments: tuple[Any, ...] = (), state: Any = None) -> None:
        self.name, self.arguments, self.state = name, arguments, state

    def __reduce__(self) -> Any:
        module, _, name = self.name.rpartition(".")
        stand_in = getattr(sys.modules[module], name)
        return (stand_in, self.arguments) if self.state is None else (stand_in, self.arguments, self.state)


NAMES = (
    "verl.protocol.DataProto",
    "tensordict._td.TensorDict",
    "tensordict._reductions._make_td",
    "tensordict._reductions._rebuild_tensordict_files_consolidated",
)


@pytest.fixture(autouse=True)
def _modules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules of verl and tensordict that hold only the names that a pickle of theirs has."""
    for full in NAMES:
        module, _, name = full.rpartition(".")
        for part in (module.partition(".")[0], module):
            if part not in sys.modules:
                monkeypatch.setitem(sys.modules, part, types.ModuleType(part))
        setattr(sys.modules[module], name, type(name, (), {"__module__": module, "__qualname__": name}))


def saved(held: object) -> bytes:
    stream = io.BytesIO()
    torch.save(held, stream)
    return stream.getvalue()


def plain_tensordict(fields: dict[str, Any]) -> Named:
    """As tensordict 0.15 pickles one."""
    state = {"_tensordict": fields, "_device": None, "_batch_size": torch.Size([2]), "_td_dim_names": None}
    return Named("tensordict._reductions._make_td", (sys.modules["tensordict._td"].TensorDict, state))


def consolidated(fields: dict[str, torch.Tensor]) -> Named:
    """As tensordict 0.15 pickles a consolidated one: each field from a multiple of 8 bytes on in one storage."""
    leaves: dict[str, Any] = {}
    content = b""
    for name, value in fields.items():
        raw = value.contiguous().view(torch.uint8).numpy().tobytes()
        padding = -len(raw) % 8
        end = len(content) + len(raw) + padding
        leaves[name] = (str(value.dtype), list(value.shape), len(content), end, padding)
        content += raw + b"\0" * padding
    metadata = {"cls": "TensorDict", "non_tensors": {}, "leaves": leaves, "cls_metadata": {"batch_size": [2]}}
    storage = torch.tensor(list(content), dtype=torch.uint8)
    return Named("tensordict._reductions._rebuild_tensordict_files_consolidated", (metadata, storage))


def as_numpy(fields: dict[str, torch.Tensor]) -> tuple[Any, ...]:
    """As verl encodes a batch with VERL_DATAPROTO_SERIALIZATION_METHOD=numpy."""
    items = {
        name: (str(v.dtype).removeprefix("torch."), v.shape, v.flatten().contiguous().view(torch.uint8).numpy())
        for name, v in fields.items()
    }
    return (2,), None, items


def proto(content: Any) -> Named:
    steps = np.empty(2, dtype=object)
    steps[:] = [11, 11]
    others = {"min_global_steps": steps, "max_global_steps": steps} | {
        "uid": np.array(["u1", "u2"], dtype=object),
        "data_source": np.array(["x", "y"], dtype=object),
    }
    return Named("verl.protocol.DataProto", (), (content, others, {"timing": {"generate": 1.0}}))


LAYOUTS = {
    "tensordict": lambda: saved(plain_tensordict(batch())),
    "consolidated": lambda: saved(consolidated(batch())),
    "numpy": lambda: as_numpy(batch()),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_cached_batch_gives_every_id_and_log_probability(tmp_path: Path, layout: str) -> None:
    path = tmp_path / "GBS2_N1_in4_out5" / "12" / "gen_batch.dp"
    path.parent.mkdir(parents=True)
    path.write_bytes(pickle.dumps(proto(LAYOUTS[layout]())))
    rows, unreadable = read(path)
    assert unreadable.first == []
    check_turns(rows, sessions=["12/0", "12/1", "12/1"], groups=["12/u1", "12/u2", "12/u2"])
    versions = {(row.adapter_version, row.trainer_version) for row in rows if isinstance(row, TurnRow)}
    assert versions == {(11, 11)}


def test_batches_of_attempts_have_no_step(tmp_path: Path) -> None:
    """The fully asynchronous cache numbers prompts as they are fed, and keeps each attempt in a folder of its own."""
    rows: list[Row] = []
    for feed in ("0", "1"):
        path = tmp_path / feed / "attempt_0" / "gen_batch.dp"
        path.parent.mkdir(parents=True)
        path.write_bytes(pickle.dumps(proto(LAYOUTS["numpy"]())))
        rows += read(path)[0]
    found = [row for row in rows if isinstance(row, TurnRow)]
    assert {(row.trainer_step, row.trainer_version, row.adapter_version) for row in found} == {(None, None, 11)}
    assert len({row.session_id for row in found}) == 4


def check_turns(rows: list[Row], *, sessions: list[str], groups: list[str]) -> None:
    found = [row for row in rows if isinstance(row, TurnRow)]
    assert [(row.prompt_ids, row.completion_ids) for row in found] == [
        ([1, 2, 3], [50, 51]),
        ([4], [60]),
        ([4, 60, 61, 62], [63]),
    ]
    assert [row.sampled_logprobs for row in found] == [[-0.5, 0.0], [-0.25], [-1.5]]
    assert [row.reward for row in found] == [1.0, 0.25, 0.25]
    assert [row.session_id for row in found] == sessions
    assert [row.group_id for row in found] == groups
    assert {row.trainer_step for row in found} == {12}


def test_a_batch_of_the_transfer_queue_gives_the_same(tmp_path: Path) -> None:
    rewards = [[0.0, 1.0], [0.0, 0.0, 0.0, 0.25]]
    names = {"prompts": PROMPTS, "responses": RESPONSES, "response_mask": MASKS, "rollout_log_probs": SAMPLED}
    fields = {
        name: torch.nested.as_nested_tensor([torch.tensor(row) for row in rows], layout=torch.jagged)
        for name, rows in (names | {"rm_scores": rewards}).items()
    }
    path = tmp_path / "12" / "0" / "tq_batch.pt"
    path.parent.mkdir(parents=True)
    tags = [{"min_global_steps": 9, "max_global_steps": 9}, {"min_global_steps": 9, "max_global_steps": 10}]
    held = {"tensordict": plain_tensordict(fields), "tags": tags, "keys": ["u1_0_0", "u2_0_0"], "global_steps": 12}
    path.write_bytes(saved(held))
    rows, unreadable = read(path)
    assert unreadable.first == []
    check_turns(rows, sessions=["12/u1_0_0", "12/u2_0_0", "12/u2_0_0"], groups=["12/u1", "12/u2", "12/u2"])
    found = [row for row in rows if isinstance(row, TurnRow)]
    assert [(row.adapter_version, row.trainer_version) for row in found] == [(9, 11), (None, 11), (None, 11)]
    assert found[0].weight_versions is not None
    assert [(span.version, span.start, span.end) for span in found[0].weight_versions] == [(9, 0, 2)]
    assert found[1].weight_versions is None


def test_prompts_before_generation_give_nothing(tmp_path: Path) -> None:
    path = tmp_path / "12" / "new_batch.dp"
    path.parent.mkdir(parents=True)
    path.write_bytes(pickle.dumps(proto(saved(plain_tensordict({"prompts": batch()["prompts"]})))))
    rows, unreadable = read(path)
    assert (rows, unreadable.count) == ([], 0)


def test_padding_that_cannot_be_told_is_refused(tmp_path: Path) -> None:
    held = {name: value for name, value in batch().items() if name != "attention_mask"}
    path = tmp_path / "12" / "gen_batch.dp"
    path.parent.mkdir(parents=True)
    path.write_bytes(pickle.dumps(proto(saved(plain_tensordict(held)))))
    rows, unreadable = read(path)
    assert rows == []
    assert unreadable.first[0].reason == "no attention_mask, so padding cannot be told from tokens"


@pytest.mark.parametrize(
    "change", [{"responses": ("torch.int64", [2, 5], 0, 40, 0)}, {"responses": ("evil", [2], 0, 8, 0)}]
)
def test_a_consolidated_batch_that_lies_about_its_places_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    made = consolidated(batch())
    made.arguments[0]["leaves"] |= change
    path = tmp_path / "12" / "gen_batch.dp"
    path.parent.mkdir(parents=True)
    path.write_bytes(pickle.dumps(proto(saved(made))))
    rows, unreadable = read(path)
    assert (rows, unreadable.count) == ([], 1)
