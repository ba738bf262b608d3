"""A store with a tiny model's turns in it, for training: what the engine and the batches of a cycle would be."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from transformers import AutoModelForCausalLM

from collector.records import Record, Reward, Turn, Version, VersionSpan
from collector.store.registry import Registry
from collector.store.writer import Writer
from trainer.adapter_config import AdapterConfig
from trainer.config import TrainerConfig
from trainer.lora import TrainedAdapter
from trainer.optimizer_config import OptimizerConfig
from trainer.packing import pack
from trainer.policy import Policy
from trainer.rows import CapturedTurn, training_rows
from trainer.training.adapter_run import Trained
from trainer.training.published_weights import published_adapter
from trainer.training.training import Training
from trainer.training_config import TrainingConfig

TARGETS = ("q_proj", "v_proj", "down_proj")
BEGUN = datetime(2026, 1, 1, tzinfo=UTC)


class FakeBatch(NamedTuple):
    """As trainer/batch makes them."""

    turns: tuple[CapturedTurn, ...]
    advantages: dict[str, float]
    staleness: dict[str, int]
    rewards: tuple[Reward, ...]
    reward_mean: float | None
    trained_on: tuple[tuple[str, int, int], ...]


class FakeWork(NamedTuple):
    """As trainer/batch makes it."""

    adapter: str
    batches: tuple[FakeBatch, ...]
    baseline: float | None


class Loop:
    """One store, one policy, and the adapters of tenants `t-<adapter>`."""

    def __init__(self, model: Path, store: Path, names: Sequence[str] = ("a",), **settings: Any) -> None:
        torch.set_num_threads(1)
        store.mkdir(exist_ok=True)
        self.store = store
        self.policy = Policy(AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32))
        self.names = names
        self.settings = settings
        self.records: list[Record] = []
        with Registry(store) as registry:
            known = {adapter.adapter for adapter in registry.snapshot().adapters}
            for name in set(names) - known:
                registry.register_adapter(name, tenant=f"t-{name}", base_model="tiny", actor="test", reason="begin")

    def config(self, **training: Any) -> TrainerConfig:
        """Ranks differ by adapter; a microbatch holds a few rows."""
        return TrainerConfig(
            budget_tokens=120,
            training=TrainingConfig(**({"peak_flops": 1e12} | training)),
            adapters={
                name: AdapterConfig(
                    tenant=f"t-{name}",
                    rank=2 + index,
                    alpha=8,
                    targets=TARGETS,
                    seed=index,
                    optimizer=OptimizerConfig(lr=1e-2, warmup_steps=2),
                    **self.settings,
                )
                for index, name in enumerate(self.names)
            },
        )

    def batch(self, name: str, seed: int, *, version: int = 0, sessions: int = 3) -> FakeBatch:
        """Sessions of two turns each; mu is what the version's published weights give, as an engine's would be."""
        random = np.random.default_rng([ord(name[0]), seed])
        turns: list[CapturedTurn] = []
        for index in range(sessions):
            prompt = random.integers(0, 250, 10)
            for turn in (1, 2):
                sampled = random.integers(0, 250, 5 + index)
                turns.append(
                    CapturedTurn(
                        f"{name}-{seed}-{index}-{turn}",
                        f"{name}-{seed}-{index}",
                        turn,
                        None if version == 0 else name,
                        None if version == 0 else version,
                        prompt.astype(np.int32),
                        sampled.astype(np.int32),
                        np.zeros(len(sampled), dtype=np.float32),
                        0.8,
                        None,
                    )
                )
                prompt = np.concatenate([prompt, sampled, random.integers(0, 250, 3)])
        turns = self._sampled(name, version, turns)
        rewards = tuple(
            Reward(
                session_id=f"{name}-{seed}-{index}", value=float(index), parts={}, mapping_sha256="m", closed_at=BEGUN
            )
            for index in range(sessions)
        )
        first = self._keep(name, version, turns)
        return FakeBatch(
            tuple(turns),
            {turn.turn_id: (-1.0) ** place * (0.5 + 0.1 * place) for place, turn in enumerate(turns)},
            {turn.turn_id: 0 for turn in turns},
            rewards,
            sum(range(sessions)) / sessions,
            (("collector", first, first + len(turns) - 1),),
        )

    def _sampled(self, name: str, version: int, turns: list[CapturedTurn]) -> list[CapturedTurn]:
        weights: dict[str, TrainedAdapter] = {}
        if version:
            weights[name] = published_adapter(self.policy.network, self.store, self.version(name, version))
        made: list[CapturedTurn] = []
        for turn in turns:
            row = training_rows([turn]).rows[0]._replace(adapter=name if version else None)
            with torch.no_grad():
                mu = self.policy.score(pack([row]), weights).logprobs_N
            made.append(turn._replace(sampled_logprobs=mu.numpy()))
        return made

    def _keep(self, name: str, version: int, turns: list[CapturedTurn]) -> int:
        """Writes the turns as a collector does; returns the first seq."""
        with Writer(self.store, "collector") as writer:
            acks = [
                writer.append(
                    Turn(
                        turn_id=turn.turn_id,
                        session_id=turn.session_id,
                        turn=turn.turn,
                        tenant=f"t-{name}",
                        adapter=name if version else None,
                        adapter_version=version or None,
                        api="chat",
                        started_at=BEGUN + timedelta(seconds=turn.turn),
                        prompt_ids=turn.prompt_ids.tolist(),
                        completion_ids=turn.completion_ids.tolist(),
                        sampled_logprobs=turn.sampled_logprobs.tolist(),
                        logprob_mode="scaled",
                        weight_versions=[VersionSpan(version=0, start=0, end=len(turn.completion_ids))],
                        temperature=turn.temperature,
                        finish_reason="stop",
                        trainable=True,
                    )
                ).result()
                for turn in turns
            ]
        return acks[0].seq

    def train(
        self,
        work: dict[str, FakeWork],
        *,
        parents: dict[str, int] | None = None,
        **training: Any,
    ) -> tuple[dict[str, Trained], Training]:
        """One cycle, its records in the store and in `records`."""
        with Writer(self.store, "trainer") as writer:

            def write(record: Record) -> None:
                self.records.append(record)
                writer.append(record).result()

            made = Training(self.policy, self.config(**training), self.store, write)
            versions = {name: self.version(name, (parents or {}).get(name, 0)) for name in work}
            return made.train(work, versions), made

    def version(self, name: str, number: int) -> Version:
        """As registered."""
        with Registry(self.store) as registry:
            return next(v for v in registry.snapshot().versions if (v.adapter, v.version) == (name, number))

    def register(self, trained: Trained, *, parent: int = 0) -> int:
        """The candidate's number."""
        with Registry(self.store) as registry:
            number = sum(version.adapter == trained.adapter for version in registry.snapshot().versions)
            registry.register_version(
                trained.adapter,
                number,
                parent=parent,
                optimizer_step=trained.checkpoint.manifest.optimizer_step,
                folder=str(trained.checkpoint.folder.relative_to(self.store)),
                sha256=trained.checkpoint.sha256,
                trained_on=trained.trained_on,
                actor="test",
                reason="trained",
            )
        return number

    def of(self, kind: type[Any]) -> list[Any]:
        """The records of a kind that were written."""
        return [record for record in self.records if type(record) is kind]


def work_of(name: str, *batches: FakeBatch, baseline: float | None = None) -> dict[str, FakeWork]:
    """One adapter's work."""
    return {name: FakeWork(name, batches, baseline)}
