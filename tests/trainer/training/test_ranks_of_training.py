"""A cycle on two ranks makes what it makes on one: ranks as threads that exchange in memory, without processes."""

import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from collector.records import Record, Reward, Run, Score, Span, Step
from tests.trainer.training.small_loop import Loop, work_of
from trainer.lora import TrainedAdapter
from trainer.objective_config import ObjectiveConfig
from trainer.ranks import Ranks
from trainer.tiny_model import write_tiny_model
from trainer.training.training import Training

SIZE = 2


class Meeting:
    """Where the threads leave what they bring, and take what all have brought."""

    def __init__(self) -> None:
        self._barrier = threading.Barrier(SIZE, timeout=60)
        self._brought: list[Any] = [None] * SIZE

    def exchange(self, rank: int, value: Any) -> list[Any]:
        self._brought[rank] = value
        self._barrier.wait()
        everything = list(self._brought)
        self._barrier.wait()
        return everything


class ThreadRanks:
    """As `Ranks`, over a meeting."""

    def __init__(self, rank: int, meeting: Meeting) -> None:
        self.rank, self.size, self.meeting = rank, SIZE, meeting
        self.is_writer = rank == 0
        self.share = Ranks(rank, SIZE).share

    def collect(self, mine: Sequence[Any]) -> list[Any]:
        gathered = self.meeting.exchange(self.rank, list(mine))
        return [of_rank[i] for i in range(max(map(len, gathered))) for of_rank in gathered if i < len(of_rank)]

    def sum_gradients(self, adapters: Iterable[TrainedAdapter]) -> None:
        mine = [parameter for adapter in adapters for parameter in adapter.parameters()]
        everyone = self.meeting.exchange(self.rank, [None if p.grad is None else p.grad.clone() for p in mine])
        for parameter, *grads in zip(mine, *everyone, strict=True):
            present = [grad for grad in grads if grad is not None]
            parameter.grad = sum(present[1:], present[0].clone()) if present else None


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("model"), family="qwen3", layers=1)


def two_cycles(model: Path, store: Path, train: Callable[..., Any]) -> tuple[Any, list[Record]]:
    loop = Loop(model, store, ("a", "b"), objective=ObjectiveConfig(kl_base=0.1))
    first = train(loop, work_of("a", loop.batch("a", 1)) | work_of("b", loop.batch("b", 1)), {})
    assert sorted(loop.register(each) for each in first.values()) == [1, 1]
    work = work_of("a", loop.batch("a", 2, version=1), loop.batch("a", 3, sessions=2)) | work_of(
        "b", loop.batch("b", 2, version=1, sessions=1)
    )
    return train(loop, work, {"a": 1, "b": 1}), loop.records


def on_threads(loop: Loop, work: Any, parents: dict[str, int]) -> Any:
    meeting, results = Meeting(), {}
    versions = {name: loop.version(name, parents.get(name, 0)) for name in work}
    folder = Path(loop.policy.network.config.name_or_path)
    policies = [loop.policy, *(Loop(folder, loop.store, loop.names).policy for _ in range(SIZE - 1))]

    def run(rank: int) -> None:
        write = loop.records.append if rank == 0 else refuse
        ranks: Any = ThreadRanks(rank, meeting)
        config = loop.config(updates_per_batch=2)
        results[rank] = Training(policies[rank], config, loop.store, write, ranks=ranks).train(work, versions)

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(SIZE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results[0].keys() == results[1].keys()
    for name, each in results[0].items():
        assert each.checkpoint == results[1][name].checkpoint
        assert each.last.loss == results[1][name].last.loss
    return results[0]


def refuse(record: Record) -> None:
    raise AssertionError(f"a rank that is not the writer wrote {record}")


def alone(loop: Loop, work: Any, parents: dict[str, int]) -> Any:
    versions = {name: loop.version(name, parents.get(name, 0)) for name in work}
    return Training(loop.policy, loop.config(updates_per_batch=2), loop.store, loop.records.append).train(
        work, versions
    )


def test_two_ranks_make_the_same_checkpoints_and_records_as_one(model: Path, tmp_path: Path) -> None:
    one, records = two_cycles(model, tmp_path / "one", alone)
    two, of_ranks = two_cycles(model, tmp_path / "two", on_threads)
    for name in ("a", "b"):
        for module, pair in one[name].weights.pairs.items():
            for half, other in zip(pair, two[name].weights.pairs[module], strict=True):
                assert torch.allclose(half, other, atol=2e-5), module
    kinds = {Run, Score, Reward, Step, Span}
    assert [type(each) for each in records] == [type(each) for each in of_ranks]
    assert {type(each) for each in records} == kinds
    for mine, other in zip(of(Step, records), of(Step, of_ranks), strict=True):
        assert (mine.adapter, mine.step, mine.tokens, mine.computed_tokens) == (
            other.adapter,
            other.step,
            other.tokens,
            other.computed_tokens,
        )
        assert mine.model_flops == other.model_flops
        for name in ("loss", "grad_norm", "entropy", "max_w", "ess", "kl_mu_old", "kl_update", "kl_base"):
            assert getattr(mine, name) == pytest.approx(getattr(other, name), rel=1e-3, abs=1e-6), name
    for mine, other in zip(of(Score, records), of(Score, of_ranks), strict=True):
        assert (mine.turn_id, mine.trainer_step) == (other.turn_id, other.trainer_step)
        assert mine.sampling_version_logprobs == pytest.approx(other.sampling_version_logprobs, abs=1e-4)
        assert mine.reference_logprobs == pytest.approx(other.reference_logprobs, abs=1e-5)


def of(kind: type[Any], records: list[Record]) -> list[Any]:
    return [record for record in records if type(record) is kind]
