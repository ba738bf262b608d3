"""Two processes that share the base under torchrun, against one."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from collector.errors import UserError
from tests.trainer.row_by_row import network
from tests.trainer.two_ranks import CASES, train
from trainer.policy import Policy
from trainer.ranks import Ranks
from trainer.tiny_model import write_tiny_model

SCRIPT = Path(__file__).with_name("two_ranks.py")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    return write_tiny_model(tmp_path_factory.mktemp("model"), family="qwen3", layers=4)


def torchrun(script: Path, *args: Path, timeout_s: float) -> None:
    """Two processes on a free port; all are ended when the time is up."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(script)]
    started = subprocess.Popen([*command, *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        output, _ = started.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        started.send_signal(signal.SIGTERM)  # torchrun ends its workers, which are in sessions of their own
        output, _ = started.communicate(timeout=60)
        raise AssertionError(f"not done after {timeout_s} s: {output}") from None
    assert started.returncode == 0, output


def test_two_processes_take_the_step_of_one(folder: Path, tmp_path: Path) -> None:
    torchrun(SCRIPT, folder, tmp_path, timeout_s=150)
    for index, case in enumerate(CASES):
        expected = train(folder, Ranks(), case)
        first, second = (torch.load(tmp_path / f"{index}.{rank}.pt") for rank in range(2))
        assert first.keys() == second.keys() == expected.keys()
        for name, ours in first.items():
            assert torch.equal(ours, second[name]), f"{name} differs between the ranks"
            if case.dtype == torch.float64:
                assert torch.allclose(ours, expected[name], atol=1e-10, rtol=0), name
            # Adam divides by the root mean square of the gradient, so rounding of tiny ones is amplified.
            bound = 1e-4 if name.startswith("weight") else 1e-5
            assert (ours - expected[name]).norm() <= bound * expected[name].norm(), name


def test_depth_first_over_ranks_is_refused(folder: Path) -> None:
    with pytest.raises(UserError, match="backward_mode is depth_first and 2 ranks share the base, expected packed"):
        Policy(network(folder, torch.float32), mode="depth_first").shard(Ranks(0, 2))
