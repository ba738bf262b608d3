"""The trainer as a reader of the design would write it: peft, one turn at a time, nothing packed and nothing shared."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from peft import LoraConfig, get_peft_model
from torch import Tensor

from collector.records import Turn
from tests.trainer.oracle_credit import Batch
from tests.trainer.row_by_row import network
from trainer.adapter_config import AdapterConfig


class Expected(NamedTuple):
    """What one update and its batch should be recorded as."""

    step: int
    numbers: dict[str, float]
    """By the names of the `step` record."""
    old: dict[str, list[float]]
    """pi_old by turn id, and the entropies of the same."""
    entropies: dict[str, list[float]]


class PlainAdapter:
    """One adapter: float32 masters, AdamW, and a peft model that computes with them."""

    def __init__(self, model: Path, config: AdapterConfig, dtype: torch.dtype, first: dict[str, Tensor]) -> None:
        """`first` are the first weights, by module and half."""
        self.config = config
        self.step = 0
        lora = LoraConfig(r=config.rank, lora_alpha=config.alpha, target_modules=list(config.targets))  # pyright: ignore[reportArgumentType]
        self.peft: Any = get_peft_model(network(model, dtype), lora).eval()
        self.base: Any = network(model, dtype)
        self.masters = {name: weight.clone().float().requires_grad_() for name, weight in first.items()}
        settings = config.optimizer
        self._adamw = torch.optim.AdamW(
            self.masters.values(),
            lr=0.0,
            betas=(settings.beta1, settings.beta2),
            eps=settings.eps,
            weight_decay=settings.weight_decay,
        )
        used = dict(self.peft.named_parameters())
        self._used = {name: used[f"base_model.model.{name}.default.weight"] for name in self.masters}
        for name, parameter in self.peft.named_parameters():
            parameter.requires_grad_("lora_" in name)

    def logprobs(self, model: Any, turn: Turn) -> tuple[Tensor, Tensor]:
        """log pi and entropy of each completion token, from the turn's own prompt, at its own temperature."""
        if model is self.peft:
            with torch.no_grad():
                for name, parameter in self._used.items():
                    parameter.copy_(self.masters[name])
        ids = torch.tensor([[*turn.prompt_ids, *turn.completion_ids]])
        assert turn.temperature is not None
        logs = (model(ids, use_cache=False).logits[0] / turn.temperature).log_softmax(-1)
        predicting = logs[len(turn.prompt_ids) - 1 : -1]
        picked = predicting[torch.arange(len(turn.completion_ids)), torch.tensor(turn.completion_ids)]
        return picked, -(predicting.exp() * predicting).sum(-1)

    def train(self, batch: Batch, updates: int) -> list[Expected]:
        """All updates on one batch."""
        with torch.no_grad():
            old, entropies = self._all(self.peft, batch.turns)
            base, _ = self._all(self.base, batch.turns)
        mu = {t.turn_id: torch.tensor(t.sampled_logprobs, dtype=torch.float32).double() for t in batch.turns}
        made: list[Expected] = []
        for _ in range(updates):
            numbers = self._update(batch, mu, old, base)
            stale = sum((batch.staleness[t.turn_id] + len(made)) * len(t.completion_ids) for t in batch.turns)
            numbers["staleness_mean"] = stale / sum(len(t.completion_ids) for t in batch.turns)
            numbers["reward_mean"] = batch.reward_mean
            lists = [{name: each.tolist() for name, each in found.items()} for found in (old, entropies)]
            made.append(Expected(self.step, numbers, lists[0], lists[1]))
        return made

    def _all(self, model: Any, turns: Sequence[Turn]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        scored = {turn.turn_id: self.logprobs(model, turn) for turn in turns}
        return {name: each[0] for name, each in scored.items()}, {name: each[1] for name, each in scored.items()}

    def _update(
        self, batch: Batch, mu: dict[str, Tensor], old: dict[str, Tensor], base: dict[str, Tensor]
    ) -> dict[str, float]:
        settings = self.config.objective
        count = sum(len(turn.completion_ids) for turn in batch.turns)
        log_w, losses, entropies, clipped, cut, kl_base = ([] for _ in range(6))
        for parameter in self._used.values():
            parameter.grad = None
        for turn in batch.turns:
            name, advantage = turn.turn_id, batch.advantages[turn.turn_id]
            now, entropy = self.logprobs(self.peft, turn)
            logs = old[name].double() - mu[name]
            weights = logs.exp() if settings.importance == "truncate" else logs.sum().exp().expand(len(logs))
            r = (now - old[name]).exp()
            held = torch.clip(r, 1 - settings.clip_low, 1 + settings.clip_high)
            surrogate = torch.where(r * advantage <= held * advantage, r * advantage, held * advantage)
            q = base[name] - now
            loss = -weights.clamp(max=settings.w_max) * surrogate + settings.kl_base * (q.exp() - 1 - q)
            (loss.sum() / count).backward()
            log_w.append(logs)
            losses.append(loss.detach())
            entropies.append(entropy.detach())
            clipped.append((held * advantage < r * advantage).double())
            cut.append((weights > settings.w_max).double())
            kl_base.append((q.exp() - 1 - q).detach())
        grads = {name: parameter.grad.float() for name, parameter in self._used.items()}
        norm = math.sqrt(sum(float((grad.double() ** 2).sum()) for grad in grads.values()))
        lr = self._apply(grads, norm)
        with torch.no_grad():
            after, _ = self._all(self.peft, batch.turns)
        moved = torch.cat([(after[t.turn_id] - old[t.turn_id]).double() for t in batch.turns])
        w = torch.cat(log_w).exp()
        mean = {
            "loss": losses,
            "entropy": entropies,
            "clip_share": clipped,
            "w_truncated_share": cut,
            "kl_base": kl_base,
        }
        numbers = {name: float(torch.cat([each.double() for each in found]).mean()) for name, found in mean.items()}
        return numbers | {
            "grad_norm": norm,
            "lr": lr,
            "max_w": float(w.max()),
            "min_w": float(w.min()),
            "mean_w": float(w.mean()),
            "kl_mu_old": float((-torch.cat(log_w)).mean()),
            "kl_update": float((moved.exp() - 1 - moved).mean()),
            "ess": float(w.sum() ** 2 / (len(w) * (w**2).sum())),
        }

    def _apply(self, grads: dict[str, Tensor], norm: float) -> float:
        settings = self.config.optimizer
        self.step += 1
        lr = settings.lr * min(1.0, self.step / max(1, settings.warmup_steps))
        if settings.schedule == "cosine" and self.step > settings.warmup_steps:
            done = (self.step - settings.warmup_steps) / (settings.total_steps - settings.warmup_steps)
            lr *= (1 + math.cos(math.pi * done)) / 2
        scale = 1.0 if settings.max_grad_norm is None else min(1.0, settings.max_grad_norm / (norm + 1e-6))
        for name, master in self.masters.items():
            master.grad = grads[name] * scale
        self._adamw.param_groups[0]["lr"] = lr
        self._adamw.step()
        return lr


def tree_tokens(turns: Sequence[Turn]) -> tuple[int, int]:
    """Tokens and query-key pairs to compute: distinct prefixes of the trained contexts, the sum of their lengths."""
    prefixes = set[tuple[int, ...]]()
    for turn in turns:
        ids = (*turn.prompt_ids, *turn.completion_ids)
        prefixes |= {ids[: end + 1] for end in range(len(ids))}
    return len(prefixes), sum(map(len, prefixes))


def model_flops(config: Any, adapters: Sequence[tuple[Sequence[Turn], int]]) -> float:
    """4 per frozen parameter, 6 per adapter parameter and 12 x width x layers per pair; adapters are (turns, size)."""
    width, inner, layers = config.hidden_size, config.intermediate_size, config.num_hidden_layers
    keys = width * config.num_key_value_heads // config.num_attention_heads
    body = layers * (2 * width * width + 2 * width * keys + 3 * width * inner)
    total = 0.0
    for turns, parameters in adapters:
        tokens, pairs = tree_tokens(turns)
        trained = sum(len(turn.completion_ids) for turn in turns)
        total += tokens * (4 * body + 6 * parameters) + 12 * width * layers * pairs
        total += 4 * config.vocab_size * width * trained
    return float(np.float64(total))
