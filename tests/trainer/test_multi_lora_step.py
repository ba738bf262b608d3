"""Many adapters in one step, against separate peft runs with torch's own AdamW and clipping."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

from trainer.adapter_optimizer import AdapterOptimizer
from trainer.lora import new_adapter
from trainer.multi_lora_step import multi_lora_step
from trainer.objective_config import ObjectiveConfig
from trainer.optimizer_config import OptimizerConfig
from trainer.policy import Policy
from trainer.rows import SampledRun, TrainingRow
from trainer.tiny_model import write_tiny_model
from trainer.training.batch_update import take_update
from trainer.training.scored_batch import score_batch

TARGETS = ("q_proj", "v_proj", "down_proj")
RANKS = {"a": 2, "b": 4, "c": 8}
RATES = {"a": 1e-2, "b": 3e-3, "c": 1e-3}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    return write_tiny_model(tmp_path_factory.mktemp("model"), family="llama")


def network(folder: Path) -> Any:
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="sdpa")


def optimizer(model: Any, name: str, **changes: Any) -> AdapterOptimizer:
    made = new_adapter(model, name, rank=RANKS[name], alpha=16, targets=TARGETS, seed=RANKS[name])
    return AdapterOptimizer(
        made, OptimizerConfig(**({"lr": RATES[name], "max_grad_norm": 0.5, "weight_decay": 0.01} | changes))
    )


def rows(name: str, step: int) -> list[TrainingRow]:
    """Four rows of two tasks with two runs each; mu is far from the model's, so that w is truncated and not."""
    random = np.random.default_rng([ord(name), step])
    made: list[TrainingRow] = []
    for task in range(2):
        prompt = random.integers(0, 250, 20).tolist()
        for sample in range(2):
            ids = np.array([*prompt, *random.integers(0, 250, 18)], dtype=np.int32)
            runs = tuple(
                SampledRun(
                    f"{name}{step}{task}{sample}{s}", s, e, random.uniform(-9, -3, e - s).astype(np.float32), t, 1
                )
                for s, e, t in ((20, 27, 1.0), (30, 38, 0.8))
            )
            made.append(TrainingRow(f"{task}{sample}", name, ids, runs))
    return made


def advantages(given: list[TrainingRow]) -> dict[str, float]:
    """Unequal advantages of both signs."""
    turns = [run.turn_id for row in given for run in row.runs]
    return {turn: (-1) ** index * (0.5 + 0.1 * index) for index, turn in enumerate(turns)}


class PeftRun:
    """One adapter trained alone: peft, torch's AdamW, torch's clipping, and the objective written out."""

    def __init__(self, folder: Path, like: AdapterOptimizer) -> None:
        made = like.adapter
        config = LoraConfig(
            r=made.rank, lora_alpha=int(made.alpha), target_modules=list(TARGETS), task_type="CAUSAL_LM"
        )
        self.model = get_peft_model(network(folder), config)
        self.weights: dict[str, torch.nn.Parameter] = {}
        with torch.no_grad():
            for name, weight in self.model.named_parameters():
                for part, half in (("lora_A", 0), ("lora_B", 1)):
                    if part in name:
                        module = name.removeprefix("base_model.model.").partition(f".{part}")[0]
                        weight.copy_(made.pairs[module][half])
                        self.weights[f"{module}.{part}"] = weight
        self.adamw = torch.optim.AdamW(self.weights.values(), lr=like.config.lr, weight_decay=like.config.weight_decay)

    def logprobs(self, given: list[TrainingRow]) -> list[torch.Tensor]:
        """log pi of each run."""
        found = []
        for row in given:
            logits = self.model(torch.tensor([row.ids.tolist()]), use_cache=False).logits[0]
            for run in row.runs:
                logs = (logits[run.start - 1 : run.end - 1] / run.temperature).log_softmax(-1)
                found.append(logs.gather(1, torch.tensor(row.ids[run.start : run.end].tolist())[:, None])[:, 0])
        return found

    def step(self, given: list[TrainingRow], by_turn: dict[str, float]) -> float:
        """On the first pass over a batch r = pi / pi_old is 1, inside the clip."""
        return self.step_from(given, by_turn, self.logprobs(given))

    def step_from(self, given: list[TrainingRow], by_turn: dict[str, float], old: list[torch.Tensor]) -> float:
        runs = [run for row in given for run in row.runs]
        losses = []
        for run, pi, pi_old in zip(runs, self.logprobs(given), old, strict=True):
            w = (pi_old.detach() - torch.from_numpy(run.logprobs)).exp().clamp(max=2.0)
            losses.append(-w * (pi - pi_old.detach()).exp() * by_turn[run.turn_id])
        torch.cat(losses).mean().backward()
        norm = torch.nn.utils.clip_grad_norm_(self.weights.values(), 0.5)
        self.adamw.step()
        self.adamw.zero_grad()
        return float(norm)


def test_three_adapters_in_one_step_move_as_three_peft_runs(folder: Path) -> None:
    model = network(folder)
    policy = Policy(model)
    optimizers = {name: optimizer(model, name) for name in RANKS}
    alone = {name: PeftRun(folder, each) for name, each in optimizers.items()}
    objectives = dict.fromkeys(RANKS, ObjectiveConfig())
    for step in range(4):
        given = {name: rows(name, step) for name in RANKS}
        together = [each for several in zip(*given.values(), strict=True) for each in several]
        by_turn = {turn: value for of in given.values() for turn, value in advantages(of).items()}
        done = multi_lora_step(policy, optimizers, together, by_turn, objectives, budget_tokens=150)
        assert done.computed_tokens < done.tokens
        for name, run in alone.items():
            norm = run.step(given[name], by_turn)
            assert done.adapters[name].update.grad_norm == pytest.approx(norm, rel=1e-5)
            ours, theirs = torch.cat([p.detach().flatten() for p in optimizers[name].adapter.parameters()]), []
            for module in optimizers[name].adapter.pairs:
                theirs += [run.weights[f"{module}.{part}"].detach().flatten() for part in ("lora_A", "lora_B")]
            # AdamW divides by the root mean square of the gradient, so rounding of tiny ones is amplified.
            assert (ours - torch.cat(theirs)).norm() / torch.cat(theirs).norm() <= 1e-4


def test_the_cut_into_microbatches_changes_nothing(folder: Path) -> None:
    norms = []
    for budget in (10, 90, 10_000):
        model = network(folder)
        optimizers = {name: optimizer(model, name) for name in ("a", "b")}
        given = [*rows("a", 0), *rows("b", 0)]
        done = multi_lora_step(
            Policy(model),
            optimizers,
            given,
            advantages(given),
            dict.fromkeys("ab", ObjectiveConfig()),
            budget_tokens=budget,
        )
        norms.append([done.adapters[name].update.grad_norm for name in "ab"])
    assert norms[1] == pytest.approx(norms[0], rel=1e-5)
    assert norms[2] == pytest.approx(norms[0], rel=1e-5)


def test_an_adapter_with_a_gradient_that_is_not_finite_is_left_as_it_was_and_alone(folder: Path) -> None:
    model = network(folder)
    optimizers = {name: optimizer(model, name) for name in ("a", "b")}
    before = {name: [p.clone() for p in each.adapter.parameters()] for name, each in optimizers.items()}
    given = [*rows("a", 0), *rows("b", 0)]
    by_turn = advantages(given) | {given[0].runs[0].turn_id: float("nan")}
    done = multi_lora_step(Policy(model), optimizers, given, by_turn, dict.fromkeys("ab", ObjectiveConfig()))
    assert (done.adapters["a"].update.applied, done.adapters["b"].update.applied) == (False, True)
    assert all(torch.equal(p, q) for p, q in zip(optimizers["a"].adapter.parameters(), before["a"], strict=True))
    assert not all(torch.equal(p, q) for p, q in zip(optimizers["b"].adapter.parameters(), before["b"], strict=True))
    assert (optimizers["a"].step, optimizers["b"].step) == (0, 1)
    assert all(parameter.grad is None for parameter in optimizers["a"].adapter.parameters())


def test_an_adapter_whose_own_weights_are_not_finite_leaves_the_others_bit_for_bit(folder: Path) -> None:
    """Its tokens stand in one packing with theirs: NaN in its forward pass, its loss and its gradient."""
    moved: dict[bool, list[torch.Tensor]] = {}
    for broken in (False, True):
        model = network(folder)
        optimizers = {name: optimizer(model, name) for name in ("a", "b", "c")}
        if broken:
            with torch.no_grad():
                optimizers["b"].adapter.parameters()[0].fill_(torch.nan)
        given = [*rows("a", 0), *rows("b", 0), *rows("c", 0)]
        objectives = dict.fromkeys("abc", ObjectiveConfig(kl_base=0.1))
        done = multi_lora_step(Policy(model), optimizers, given, advantages(given), objectives)
        assert [done.adapters[name].update.applied for name in "abc"] == [True, not broken, True]
        assert bool(done.adapters["b"].numbers.logprobs_N.isnan().all()) == broken
        moved[broken] = [p.detach().clone() for name in "ac" for p in optimizers[name].adapter.parameters()]
    assert all(torch.equal(one, other) for one, other in zip(moved[False], moved[True], strict=True))
    assert all(bool(p.any()) for p in moved[True])


class Partitioned(Policy):
    """Asks for the loss of every third token, then of the others from last to first."""

    def backward(self, packed: Any, adapters: Any, loss_of: Any) -> None:
        scored = self.score(packed, adapters)
        places = torch.arange(len(scored.logprobs_N))
        parts = (places[places % 3 == 0], places[places % 3 != 0].flip(0))
        sum(loss_of(type(scored)(*(each[part] for each in scored)), part) for part in parts).backward()


@pytest.mark.parametrize("importance", ["truncate", "mask", "sequence"])
def test_the_loss_may_be_asked_of_any_partition_of_the_tokens(folder: Path, importance: Any) -> None:
    """A sequence's weight is of its whole turn, however few of its tokens are asked about."""
    norms, losses = [], []
    for kind in (Policy, Partitioned):
        model = network(folder)
        optimizers = {name: optimizer(model, name) for name in ("a", "b")}
        given = [*rows("a", 0), *rows("b", 0)]
        objectives = {"a": ObjectiveConfig(importance=importance, w_max=1e6), "b": ObjectiveConfig()}
        done = multi_lora_step(kind(model), optimizers, given, advantages(given), objectives, budget_tokens=100)
        norms.append([done.adapters[name].update.grad_norm for name in "ab"])
        losses.append(done.adapters["a"].numbers.losses_N)
    assert norms[1] == pytest.approx(norms[0], rel=1e-5)
    assert torch.equal(losses[0], losses[1])
    assert not losses[0].isnan().any()


def test_a_second_update_of_a_batch_has_its_old_policy_where_it_was(folder: Path) -> None:
    """Against peft's run with r = pi / pi_old written out, pi_old fixed at the batch's start."""
    model = network(folder)
    made = optimizer(model, "a")
    alone = PeftRun(folder, made)
    given, policy, objective = rows("a", 0), Policy(model), {"a": ObjectiveConfig(clip=False)}
    batch = score_batch(policy, {"a": made.adapter}, given, advantages(given), objective, budget_tokens=100)
    old = alone.logprobs(given)
    for _ in range(3):
        done = take_update(policy, {"a": made}, batch, objective)
        assert done.adapters["a"].update.grad_norm == pytest.approx(
            alone.step_from(given, advantages(given), old), rel=1e-4
        )


def test_an_adapter_without_rows_keeps_its_weights_and_its_step(folder: Path) -> None:
    model = network(folder)
    optimizers = {name: optimizer(model, name) for name in ("a", "b")}
    given = rows("a", 0)
    done = multi_lora_step(Policy(model), optimizers, given, advantages(given), dict.fromkeys("ab", ObjectiveConfig()))
    assert list(done.adapters) == ["a"]
    assert optimizers["b"].step == 0


def test_numbers_are_of_every_trained_token_and_of_raw_w(folder: Path) -> None:
    model = network(folder)
    optimizers = {"a": optimizer(model, "a")}
    given = rows("a", 0)
    numbers = (
        multi_lora_step(Policy(model), optimizers, given, advantages(given), {"a": ObjectiveConfig()}, budget_tokens=60)
        .adapters["a"]
        .numbers
    )
    assert len(numbers.w_N) == sum(row.trained_tokens for row in given) == 4 * 15
    assert torch.allclose(numbers.w_N, numbers.log_w_N.exp())
    assert float(numbers.w_N.max()) > 2.0, "not cut at w_max"
    assert numbers.truncated_N.sum() == (numbers.w_N > 2.0).sum()


def test_the_kl_to_the_base_pulls_an_adapter_back(folder: Path) -> None:
    model = network(folder)
    optimizers = {"a": optimizer(model, "a")}
    with torch.no_grad():
        for pair in optimizers["a"].adapter.pairs.values():
            pair.up_O_R.normal_(0, 0.1, generator=torch.Generator().manual_seed(1))
    given = rows("a", 0)
    none = dict.fromkeys(advantages(given), 0.0)
    policy = Policy(model)
    first = multi_lora_step(policy, optimizers, given, none, {"a": ObjectiveConfig(kl_base=1.0)}).adapters["a"]
    for _ in range(10):
        last = multi_lora_step(policy, optimizers, given, none, {"a": ObjectiveConfig(kl_base=1.0)}).adapters["a"]
    assert last.numbers.losses_N.mean() < first.numbers.losses_N.mean() / 2


def test_a_turn_without_an_advantage_stops_the_step(folder: Path) -> None:
    model = network(folder)
    with pytest.raises(ValueError, match="turn a00020 has no advantage"):
        multi_lora_step(Policy(model), {"a": optimizer(model, "a")}, rows("a", 0), {}, {"a": ObjectiveConfig()})


def test_a_resume_from_the_state_is_exact(folder: Path) -> None:
    model = network(folder)
    policy = Policy(model)

    def losses(optimizers: dict[str, AdapterOptimizer], steps: range) -> list[list[float]]:
        found = []
        for step in steps:
            given = rows("a", step)
            done = multi_lora_step(policy, optimizers, given, advantages(given), {"a": ObjectiveConfig()})
            found.append(done.adapters["a"].numbers.losses_N.tolist())
        return found

    first = {"a": optimizer(model, "a", warmup_steps=3)}
    losses(first, range(2))
    saved = {name: value.clone() for name, value in first["a"].state().items()}
    resumed = {"a": optimizer(model, "a", warmup_steps=3)}
    resumed["a"].restore(saved)
    assert losses(first, range(2, 5)) == losses(resumed, range(2, 5))
    assert all(torch.equal(v, resumed["a"].state()[k]) for k, v in first["a"].state().items())


def test_a_state_of_another_adapter_is_refused(folder: Path) -> None:
    model = network(folder)
    with pytest.raises(ValueError, match=r"no tensor .* of shape \(4, 64\)"):
        optimizer(model, "b").restore(optimizer(model, "a").state())


def test_the_schedules_are_the_written_ones(folder: Path) -> None:
    made = optimizer(network(folder), "a", lr=1.0, warmup_steps=4, schedule="cosine", total_steps=8)
    assert [made.lr(step) for step in (1, 2, 4)] == [0.25, 0.5, 1.0]
    assert made.lr(6) == pytest.approx(0.5)
    assert (made.lr(8), made.lr(99)) == (pytest.approx(0), pytest.approx(0))


def test_a_cosine_that_ends_with_the_warm_up_is_refused() -> None:
    """It would have a learning rate of 0 from its first step on, and say nothing."""
    for warmup, total in ((0, 0), (4, 4), (4, 3)):
        with pytest.raises(ValueError, match="train nothing"):
            OptimizerConfig(schedule="cosine", warmup_steps=warmup, total_steps=total)
