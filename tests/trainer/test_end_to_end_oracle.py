"""Two cycles from a store to the weights against a plain trainer: each turn alone through peft, nothing shared.

What is compared: which turns are trained on, their advantages and staleness, every number of the `step` and `score`
records, and the weights that the two cycles end in.
"""

from collections.abc import Mapping
from datetime import datetime
from itertools import groupby, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from collector.records import Record, Score, Step, Version
from collector.store.reader import Reader
from collector.store.registry import Registry
from collector.store.registry_rows import read_registry
from collector.store.writer import Writer
from tests.trainer.oracle_credit import Batch, Rules, Sessions, batches
from tests.trainer.oracle_traffic import Traffic, first_day, second_day
from tests.trainer.oracle_training import Expected, PlainAdapter, model_flops, tree_tokens
from tests.trainer.row_by_row import network
from trainer.adapter_config import AdapterConfig
from trainer.batch.batch_config import BatchConfig
from trainer.batch.collect import TABLES, collect_work
from trainer.config import TrainerConfig
from trainer.lora import new_adapter
from trainer.objective_config import ObjectiveConfig
from trainer.optimizer_config import OptimizerConfig
from trainer.policy import Policy
from trainer.reward import KindMapping, RewardConfig
from trainer.tiny_model import write_tiny_model
from trainer.training.training import Training
from trainer.training_config import TrainingConfig

ADAPTERS = {
    "a": AdapterConfig(
        tenant="t-a",
        rank=2,
        alpha=6,
        targets=("q_proj", "v_proj", "down_proj"),
        seed=1,
        objective=ObjectiveConfig(w_max=1.02, clip_high=0.3, clip_low=0.02, kl_base=0.2),
        optimizer=OptimizerConfig(lr=2e-2, warmup_steps=2, eps=1e-4, max_grad_norm=0.05, weight_decay=0.1),
    ),
    "b": AdapterConfig(
        tenant="t-b",
        rank=3,
        alpha=3,
        targets=("k_proj", "o_proj", "gate_proj"),
        seed=2,
        objective=ObjectiveConfig(importance="sequence"),
        optimizer=OptimizerConfig(lr=1e-2, eps=1e-4, schedule="cosine", total_steps=40),
    ),
}


class Cycles:
    """A store, the trainer on it, and the plain trainer beside it."""

    def __init__(self, folder: Path, **how: Any) -> None:
        torch.set_num_threads(1)
        dtype = how.get("dtype", torch.float64)
        self.model = write_tiny_model(folder / "model", hidden=32)
        self.store = folder / "store"
        self.store.mkdir()
        self.traffic = Traffic(self.model, self.store)
        self.rules = Rules(4, 2, how.get("updates", 1), 20, 0.3, how.get("main_only", False))
        self.config = TrainerConfig(
            adapters=ADAPTERS,
            budget_tokens=how.get("budget_tokens", 60),
            backward_mode=how.get("mode", "packed"),
            checkpointing=how.get("checkpointing", False),
            training=TrainingConfig(
                updates_per_batch=self.rules.updates, peak_flops=1e12, published_dtype=how.get("published")
            ),
            reward=RewardConfig(kinds={"thumb": KindMapping(), "score": KindMapping(weight=2.0, low=-1.0)}),
            batch=BatchConfig(
                batch_sessions=self.rules.batch_sessions,
                max_staleness=self.rules.max_staleness,
                max_user_share=self.rules.max_user_share,
                session_reward_to="main" if self.rules.main_only else "all",
            ),
        )
        self.policy = Policy(
            network(self.model, dtype), mode=self.config.backward_mode, checkpointing=self.config.checkpointing
        )
        self.plain = {name: self._plain(name, dtype) for name in ADAPTERS}
        self.parents: dict[str, Version] = {}
        self.done: set[str] = set()
        self.steps_of: dict[str, dict[int, int]] = {name: {0: 0} for name in ADAPTERS}
        with Registry(self.store) as registry:
            for name in ADAPTERS:
                registry.register_adapter(name, tenant=f"t-{name}", base_model="tiny", actor="test", reason="begin")

    def _plain(self, name: str, dtype: torch.dtype) -> PlainAdapter:
        config, halves = ADAPTERS[name], ("lora_A", "lora_B")
        given = {"rank": config.rank, "alpha": config.alpha, "targets": config.targets, "seed": config.seed}
        pairs = new_adapter(network(self.model, torch.float32), name, **given).pairs  # pyright: ignore[reportArgumentType]
        first = {
            f"{at}.{half}": each.detach() for at, pair in pairs.items() for half, each in zip(halves, pair, strict=True)
        }
        return PlainAdapter(self.model, config, dtype, first)

    def cycle(self, now: datetime) -> tuple[list[Record], dict[str, Any]]:
        """One cycle of the real trainer, its versions registered; what it wrote and what it made."""
        self.traffic.write()
        known = read_registry(self.store)
        self.parents = {
            name: max((v for v in known.versions if v.adapter == name), key=lambda v: v.version) for name in ADAPTERS
        }
        steps = {name: version.optimizer_step or 0 for name, version in self.parents.items()}
        with Reader(self.store).snapshot(TABLES) as snapshot:
            work = collect_work(snapshot, known, self.config, now=now, steps=steps, parents=self.parents)
        records: list[Record] = []
        with Writer(self.store, "trainer") as writer:
            training = Training(
                self.policy,
                self.config,
                self.store,
                lambda each: (records.append(each), writer.append(each).result())[0],
            )
            trained = training.train(work, self.parents)
            assert training.left_out == {}
        for name, made in trained.items():
            number = self.parents[name].version + 1
            with Registry(self.store) as registry:
                registry.register_version(
                    name,
                    number,
                    parent=number - 1,
                    optimizer_step=made.checkpoint.manifest.optimizer_step,
                    folder=str(made.checkpoint.folder.relative_to(self.store)),
                    sha256=made.checkpoint.sha256,
                    trained_on=made.trained_on,
                    actor="test",
                    reason="trained",
                )
            self.traffic.folders[name, number] = made.checkpoint.folder
        return records, {"work": work, "trained": trained}

    def expected(self, name: str, now: datetime) -> list[Batch]:
        """The batches that the cycle should train on."""
        tenant = f"t-{name}"
        turns = [turn for turn in self.traffic.turns if turn.tenant == tenant]
        sessions = Sessions(turns, [each for each in self.traffic.feedback if each.tenant == tenant], now)
        return batches(sessions, self.done, self.steps_of[name], self.plain[name].step, self.rules)


def compare_cycle(cycles: Cycles, now: datetime) -> list[Step]:
    expected = {name: cycles.expected(name, now) for name in ADAPTERS}
    begun = {name: cycles.plain[name].step for name in ADAPTERS}
    records, made = cycles.cycle(now)
    for name, wanted in expected.items():
        compare_batches(wanted, made["work"][name].batches, cycles)
        done = [cycles.plain[name].train(batch, cycles.rules.updates) for batch in wanted]
        steps = [each for each in records if isinstance(each, Step) and each.adapter == name]
        compare_steps([each for batch in done for each in batch], steps)
        scores = {each.turn_id: each for each in records if isinstance(each, Score) and each.adapter == name}
        assert len(scores) == sum(len(batch.turns) for batch in wanted)
        version = cycles.parents[name].version
        for at, (batch, found) in enumerate(zip(wanted, done, strict=True)):
            step = begun[name] + at * cycles.rules.updates
            compare_scores(cycles, batch, found[0], scores, (step, version if at == 0 else None))
        compare_weights(cycles, name, made["trained"][name])
        cycles.done |= {turn.turn_id for batch in wanted for turn in batch.turns}
        cycles.steps_of[name][version + 1] = cycles.plain[name].step
    if cycles.config.budget_tokens > 1000:
        compare_counts(cycles, expected, [each for each in records if isinstance(each, Step)])
    return [each for each in records if isinstance(each, Step)]


def compare_batches(wanted: list[Batch], found: Any, cycles: Cycles) -> None:
    assert [set(batch.advantages) for batch in found] == [{t.turn_id for t in batch.turns} for batch in wanted]
    for ours, plain in zip(found, wanted, strict=True):
        assert dict(ours.advantages) == pytest.approx(plain.advantages, rel=1e-9)
        assert dict(ours.staleness) == plain.staleness
        seqs = sorted(cycles.traffic.places[turn.turn_id] for turn in plain.turns)
        assert [seq for _, first, last in ours.trained_on for seq in range(first, last + 1)] == seqs


def compare_steps(wanted: list[Expected], found: list[Step]) -> None:
    assert [each.step for each in found] == [each.step for each in wanted]
    for ours, plain in zip(found, wanted, strict=True):
        for name, number in plain.numbers.items():
            if name == "kl_base" and getattr(ours, name) is None:
                assert ADAPTERS[ours.adapter].objective.kl_base == 0, "measured where the objective needs it"
                continue
            assert getattr(ours, name) == pytest.approx(number, rel=2e-4, abs=2e-6), (name, ours.adapter, ours.step)
        assert ours.mfu == pytest.approx((ours.model_flops or 0) / ((ours.duration_s or 0) * 1e12))


def compare_scores(
    cycles: Cycles, batch: Batch, wanted: Expected, found: Mapping[str, Score], stood: tuple[int, int | None]
) -> None:
    for turn in batch.turns:
        score = found[turn.turn_id]
        plain = cycles.plain[score.adapter or ""]
        assert (score.trainer_step, score.trainer_version) == stood
        assert score.trainer_logprobs == pytest.approx(wanted.old[turn.turn_id], abs=2e-5)
        assert score.entropies == pytest.approx(wanted.entropies[turn.turn_id], abs=2e-5)
        assert score.advantages == pytest.approx([batch.advantages[turn.turn_id]] * len(turn.completion_ids))
        # What sampled was right, and so pi_gen is mu.
        assert score.sampling_version_logprobs == pytest.approx(turn.sampled_logprobs, abs=2e-5)
        if score.reference_logprobs is not None:
            with torch.no_grad():
                base, _ = plain.logprobs(plain.base, turn)
            assert score.reference_logprobs == pytest.approx(base.tolist(), abs=2e-5)
        else:
            assert plain.config.objective.kl_base == 0
            assert turn.adapter_version


def compare_weights(cycles: Cycles, name: str, trained: Any) -> None:
    written = load_file(trained.checkpoint.folder / "optimizer.safetensors")
    served = load_file(trained.checkpoint.folder / "adapter_model.safetensors")
    dtype = getattr(torch, cycles.config.training.published_dtype or "float32")
    moved = 0.0
    for half, master in cycles.plain[name].masters.items():
        np.testing.assert_allclose(written[half].numpy(), master.detach().numpy(), atol=2e-5, rtol=0)
        moved = max(moved, float(master.detach().abs().max()) if half.endswith("lora_B") else 0.0)
        assert torch.equal(served[f"base_model.model.{half}.weight"], written[half].to(dtype))
    assert moved > 5e-3, "what was compared had moved from where it began"


def compare_counts(cycles: Cycles, wanted: Mapping[str, list[Batch]], steps: list[Step]) -> None:
    """In one microbatch a token is computed once for each distinct prefix, and FLOPs follow from that."""
    config = cycles.policy.network.config
    sizes = {name: sum(each.numel() for each in plain.masters.values()) for name, plain in cycles.plain.items()}
    by_batch = [list(its) for _, its in groupby(steps, key=lambda step: step.model_flops)]
    assert len(by_batch) == max(map(len, wanted.values()))
    for at, its in enumerate(by_batch):
        here = {name: found[at].turns for name, found in wanted.items() if at < len(found)}
        assert {step.adapter: step.computed_tokens for step in its} == {n: tree_tokens(t)[0] for n, t in here.items()}
        assert its[0].model_flops == model_flops(config, [(turns, sizes[name]) for name, turns in here.items()])


def two_cycles(folder: Path, **how: Any) -> list[Step]:
    """Compares both; returns the step records."""
    cycles = Cycles(folder, **how)
    for name in ADAPTERS:
        first_day(cycles.traffic, name)
    now = cycles.traffic.pass_time()
    for name in ADAPTERS:
        cycles.traffic.say(f"{name}-open", [1, 2, 3], adapter=name)
        cycles.traffic.judge(f"{name}-open", name, 1.0)
    steps = compare_cycle(cycles, now)
    for name in ADAPTERS:
        second_day(cycles.traffic, name)
    steps += compare_cycle(cycles, cycles.traffic.pass_time())
    assert {turn.turn_id for turn in cycles.traffic.turns if turn.purpose == "eval"}.isdisjoint(cycles.done)
    return steps


def test_two_cycles_are_those_of_the_plain_trainer(tmp_path: Path) -> None:
    """Many small microbatches, three updates of each batch."""
    steps = two_cycles(tmp_path, updates=3)
    for share in ("clip_share", "w_truncated_share"):
        assert {getattr(step, share) > 0 for step in steps if step.adapter == "a"} == {True, False}, share


def test_two_cycles_depth_first_in_one_microbatch_are_too(tmp_path: Path) -> None:
    """Layers computed again, published in bfloat16, session rewards kept from sub-agents."""
    more = {"published": "bfloat16", "main_only": True}
    two_cycles(tmp_path, mode="depth_first", checkpointing=True, budget_tokens=100_000, **more)


@pytest.mark.long
@pytest.mark.parametrize(
    ("dtype", "mode", "updates", "checkpointing"),
    [*product((torch.float32, torch.float64), ("packed", "depth_first"), (1, 3), (False, True))],
)
def test_every_way_to_compute_gives_the_plain_trainers_numbers(
    tmp_path: Path, dtype: torch.dtype, mode: str, updates: int, checkpointing: bool
) -> None:
    budget = 100_000 if checkpointing else 60
    two_cycles(tmp_path, dtype=dtype, mode=mode, updates=updates, checkpointing=checkpointing, budget_tokens=budget)
