"""The base as `[trainer]` asks for it."""

from pathlib import Path

import pytest
import torch

from collector.errors import UserError
from tests.trainer.row_by_row import adapter, rows
from trainer.base_model import load_policy
from trainer.config import TrainerConfig
from trainer.packing import pack
from trainer.tiny_model import write_tiny_model


def test_precision_and_mode_are_those_of_the_settings(tmp_path: Path) -> None:
    folder = write_tiny_model(tmp_path)
    config = TrainerConfig(dtype="bfloat16", device="cpu", backward_mode="depth_first", checkpointing=True)
    policy, ranks = load_policy(folder, config)
    assert policy.network.dtype == torch.bfloat16
    assert (ranks.size, torch.get_num_threads()) == (1, 1)
    calls: list[int] = []

    def loss_of(scored: object, indices: torch.Tensor) -> torch.Tensor:
        calls.append(len(indices))
        return scored.logprobs_N.sum()  # type: ignore[attr-defined]

    policy.backward(pack(rows("a", 1)), {"a": adapter(policy.network, "a", 4, torch.float32)}, loss_of)
    assert len(calls) > 1, "one call a node"


def test_settings_that_cannot_be_together_are_refused(tmp_path: Path) -> None:
    folder = write_tiny_model(tmp_path)
    with pytest.raises(UserError, match="backward_mode is depth_first and dtype float16"):
        load_policy(folder, TrainerConfig(dtype="float16", device="cpu", backward_mode="depth_first"))


def test_a_base_that_cannot_be_loaded_is_one_line_that_says_why(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "nothing"}')
    with pytest.raises(UserError, match=rf"^{tmp_path} cannot be loaded on cpu for training: .*nothing") as unknown:
        load_policy(tmp_path, TrainerConfig(device="cpu"))
    assert "\n" not in str(unknown.value)
    with pytest.raises(UserError, match="cannot be loaded on cuda:77 for training: "):
        load_policy(write_tiny_model(tmp_path / "model"), TrainerConfig(device="cuda:77"))
