"""SkyRL dumps, generated in each layout that its TensorBatch was pickled in: every value comes back."""

import io
import json
import pickle
import sys
import types
from pathlib import Path
from typing import Any

import pytest
import torch

from checks.readers.file_head import FileHead
from checks.readers.formats import FORMATS
from checks.readers.skyrl import SKYRL
from checks.readers.unreadable import UnreadableParts
from checks.rows import EvalRow, Row, StepRow, TurnRow

MODULE = "skyrl.backends.skyrl_train.training_batch"
PROMPTS = [[1, 2, 3], [4]]
RESPONSES = [[50, 51], [60, 61, 62, 63]]
MASKS = [[1, 1], [1, 0, 0, 1]]
SAMPLED = [[-0.5, 0.0], [-0.25, 0.0, 0.0, -1.5]]
TRAINED = [[-0.75, -0.125], [-0.5, -7.0, -8.0, -1.75]]


def left_padded(rows: list[list[Any]], filling: Any, dtype: torch.dtype) -> torch.Tensor:
    width = max(map(len, rows))
    return torch.tensor([[filling] * (width - len(row)) + row for row in rows], dtype=dtype)


def batch() -> dict[str, torch.Tensor | None]:
    """Sequences padded on the left; what belongs to the response is on the right of its own width."""
    whole = [prompt + response for prompt, response in zip(PROMPTS, RESPONSES, strict=True)]
    return {
        "sequences": left_padded(whole, 0, torch.int64),
        "attention_mask": left_padded([[1] * len(row) for row in whole], 0, torch.int64),
        "response_mask": left_padded([[1] * len(row) for row in RESPONSES], 0, torch.int64),
        "loss_mask": left_padded(MASKS, 0, torch.float32),
        "rollout_logprobs": left_padded(SAMPLED, 0.0, torch.float32),
        "action_log_probs": left_padded(TRAINED, 0.0, torch.float32),
        "base_action_log_probs": None,
        "advantages": left_padded([[1.0] * 2, [-1.0] * 4], 0.0, torch.float32),
        "values": None,
    }


class TensorBatch(dict):  # type: ignore[type-arg]
    """Stands for SkyRL's class under its name, so that a pickle names that."""

    metadata: dict[str, Any] | None = None


class Rebuilt(TensorBatch):
    """SkyRL 0.3 and 0.4: a function of the module, NumPy's bytes."""

    def __reduce__(self) -> Any:
        return sys.modules[MODULE]._rebuild_tensor_batch, (type(self), self.state())  # type: ignore[attr-defined]

    def state(self) -> dict[str, Any]:
        return {
            "batch_dict": {name: encoded(value) for name, value in self.items()},
            "batch_size": 2,
            "device": torch.device("cpu"),
            "metadata": self.metadata,
        }


def encoded(value: torch.Tensor | None) -> dict[str, Any] | None:
    if value is None:
        return None
    if value.dtype == torch.bfloat16:
        stream = io.BytesIO()
        torch.save(value, stream)
        return {"format": "torch", "data": stream.getvalue()}
    array = value.numpy()
    return {"format": "numpy", "data": array.tobytes(), "shape": array.shape, "dtype": str(array.dtype)}


class Stated(TensorBatch):
    """Before: the class and a state, each tensor a torch file of its own."""

    def __reduce_ex__(self, protocol: Any) -> Any:
        held: dict[str, bytes] = {}
        for name, value in self.items():
            stream = io.BytesIO()
            torch.save(value, stream)
            held[name] = stream.getvalue()
        state = {"batch_dict": held, "batch_size": 2, "device": torch.device("cpu"), "metadata": self.metadata}
        return type(self), (), state


@pytest.fixture(params=[Rebuilt, Stated])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> type[TensorBatch]:
    """A class that pickles under SkyRL's name."""
    found: type[TensorBatch] = type("TrainingInputBatch", (request.param,), {"__module__": MODULE})
    module = types.ModuleType(MODULE)

    def rebuild(*_: object) -> None:
        """Only its name is used."""

    rebuild.__module__, rebuild.__qualname__ = MODULE, "_rebuild_tensor_batch"
    module._rebuild_tensor_batch = rebuild  # type: ignore[attr-defined]
    module.TrainingInputBatch = found  # type: ignore[attr-defined]
    for parent in ("skyrl", "skyrl.backends", "skyrl.backends.skyrl_train"):
        monkeypatch.setitem(sys.modules, parent, types.ModuleType(parent))
    monkeypatch.setitem(sys.modules, MODULE, module)
    return found


def written(kind: type[TensorBatch], tensors: dict[str, Any], folder: Path, **metadata: Any) -> Path:
    held = kind(tensors)
    held.metadata = metadata
    path = folder / "dumped_data" / "global_step_7_training_input.pkl"
    path.parent.mkdir()
    path.write_bytes(pickle.dumps(held))
    return path


def read(*paths: Path) -> tuple[list[Row], UnreadableParts]:
    unreadable = UnreadableParts()
    heads = [FileHead.of(path) for path in paths]
    for head in heads:
        assert next(form.name for form in FORMATS if form.recognise(head)) == "skyrl"
    return [row for unit in SKYRL.units(heads) for row in SKYRL.read(unit, unreadable)], unreadable


def test_every_id_and_log_probability_comes_back(kind: type[TensorBatch], tmp_path: Path) -> None:
    rows, unreadable = read(written(kind, batch(), tmp_path, response_length=4, pad_size=0))
    assert unreadable.first == []
    found = [row for row in rows if isinstance(row, TurnRow)]
    assert [(row.session_id, row.turn, row.prompt_ids, row.completion_ids) for row in found] == [
        ("7/0", 1, [1, 2, 3], [50, 51]),
        ("7/1", 1, [4], [60]),
        ("7/1", 2, [4, 60, 61, 62], [63]),
    ]
    assert [row.sampled_logprobs for row in found] == [[-0.5, 0.0], [-0.25], [-1.5]]
    assert [row.trainer_logprobs for row in found] == [[-0.75, -0.125], [-0.5], [-1.75]]
    assert [row.advantages for row in found] == [[1.0, 1.0], [-1.0], [-1.0]]
    assert [row.loss_mask for row in found] == [[1, 1], [1], [1]]
    assert {row.trainer_step for row in found} == {7}
    assert {(row.group_id, row.reward, row.reference_logprobs) for row in found} == {(None, None, None)}


def test_bfloat16_is_widened(kind: type[TensorBatch], tmp_path: Path) -> None:
    held = batch()
    values = torch.tensor([[0, 0, -0.501, -0.1], [-0.3, 0, 0, -1.503]], dtype=torch.bfloat16)
    found = read(written(kind, held | {"rollout_logprobs": values}, tmp_path))[0]
    assert [row.sampled_logprobs for row in found if isinstance(row, TurnRow)] == [
        values[0, 2:].float().tolist(),
        [values[1, 0].item()],
        [values[1, 3].item()],
    ]


def test_copies_that_fill_a_batch_up_are_left_out(kind: type[TensorBatch], tmp_path: Path) -> None:
    held = {name: None if value is None else torch.cat([value, value[:1]]) for name, value in batch().items()}
    found = read(written(kind, held, tmp_path, pad_size=1, uids=["a", "b", "pad0"]))[0]
    assert {row.group_id for row in found if isinstance(row, TurnRow)} == {"7/a", "7/b"}


def test_steps_of_one_trajectory_are_turns_of_a_session(kind: type[TensorBatch], tmp_path: Path) -> None:
    held = {name: None if value is None else torch.cat([value[:1]] * 3) for name, value in batch().items()}
    found = read(written(kind, held, tmp_path, is_last_step=[False, True, True]))[0]
    assert [(row.session_id, row.turn) for row in found if isinstance(row, TurnRow)] == [
        ("7/0", 1),
        ("7/0", 2),
        ("7/1", 1),
    ]


def test_a_row_without_loss_is_one_turn_that_is_not_trained(kind: type[TensorBatch], tmp_path: Path) -> None:
    masks = left_padded([[1, 1], [0, 0, 0, 0]], 0, torch.float32)
    found = [
        row for row in read(written(kind, batch() | {"loss_mask": masks}, tmp_path))[0] if isinstance(row, TurnRow)
    ]
    assert [(row.completion_ids, row.loss_mask, row.trainable) for row in found] == [
        ([50, 51], [1, 1], None),
        ([60, 61, 62, 63], [0, 0, 0, 0], False),
    ]
    assert found[1].untrainable_reason == "the loss mask is 0 everywhere"


def test_without_log_probabilities_of_the_engine_the_mask_tells_what_was_sampled(
    kind: type[TensorBatch], tmp_path: Path
) -> None:
    found = read(written(kind, batch() | {"rollout_logprobs": None}, tmp_path))[0]
    assert [row.completion_ids for row in found if isinstance(row, TurnRow)] == [[50, 51], [60], [63]]
    assert all(row.sampled_logprobs is None for row in found if isinstance(row, TurnRow))


def test_a_batch_that_lacks_a_field_or_does_not_fit_is_named(kind: type[TensorBatch], tmp_path: Path) -> None:
    held = batch() | {"loss_mask": None}
    rows, unreadable = read(written(kind, held, tmp_path))
    assert rows == []
    assert unreadable.first[0].reason == "a training batch of SkyRL without loss_mask"


def test_evaluations_are_held_out_samples(tmp_path: Path) -> None:
    folder = tmp_path / "dumped_evals" / "global_step_12_evals"
    folder.mkdir(parents=True)
    line = {
        "output_response": "4",
        "stop_reason": "stop",
        "env_class": "gsm8k",
        "env_extras": {},
        "data_source": "gsm8k",
    }
    lines = [
        {"input_prompt": "2+2", "score": 1.0},
        {"input_prompt": "2+2", "score": [0.0, 0.0, 0.25]},
        {"input_prompt": "3+3", "score": None},
    ]
    (folder / "gsm8k.jsonl").write_text("".join(json.dumps(line | each) + "\n" for each in lines) + "not json\n")
    (folder / "aggregated_results.jsonl").write_text(
        json.dumps({"eval/all/avg_score": 0.5, "eval/gsm8k/pass_at_2": 0.75, "eval/all/mean_positive_reward": 1.0})
        + "\n"
    )
    rows, unreadable = read(folder / "gsm8k.jsonl", folder / "aggregated_results.jsonl")
    evals = [row for row in rows if isinstance(row, EvalRow)]
    assert [(row.step, row.suite, row.sample, row.score) for row in evals] == [
        (12, "gsm8k", 0, 1.0),
        (12, "gsm8k", 1, 0.25),
        (12, "gsm8k", 0, None),
    ]
    assert evals[0].task_id == evals[1].task_id != evals[2].task_id
    (step,) = [row for row in rows if isinstance(row, StepRow)]
    assert (step.step, step.reward_eval, step.pass_at_k, step.pass_k) == (12, 0.5, 0.75, 2)
    assert [part.place for part in unreadable.first] == ["gsm8k.jsonl:4"]


def test_a_hostile_batch_is_refused(kind: type[TensorBatch], tmp_path: Path) -> None:
    class Hostile:
        def __reduce__(self) -> object:
            return exec, (f"open({str(tmp_path / 'run')!r}, 'w')",)

    rows, unreadable = read(written(kind, batch(), tmp_path, uids=Hostile()))
    assert rows == []
    assert "builtins.exec" in unreadable.first[0].reason
    assert not (tmp_path / "run").exists()
