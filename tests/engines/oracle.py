"""What an engine should have said: a plain transformers forward, peft's with an adapter, and sampling by the book."""

import math
from collections.abc import Sequence
from pathlib import Path

import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, PreTrainedModel

from collector.engine.wire import SamplingParams
from trainer.tiny_model import EOS_ID


class Oracle:
    """A model folder, scored in float32 without any cache, batching or fused kernel of an engine."""

    def __init__(self, model_folder: Path) -> None:
        torch.set_num_threads(1)
        self._folder = model_folder
        self.late_penalties = False
        """Whether penalties follow SGLang's overlapped scheduler instead of the book."""
        self._models: dict[Path | None, PreTrainedModel | PeftModel] = {}

    def logits_C_V(self, prompt: Sequence[int], completion: Sequence[int], adapter: Path | None = None) -> torch.Tensor:
        """Logits from which each completion token was sampled."""
        if adapter not in self._models:
            base = AutoModelForCausalLM.from_pretrained(self._folder, dtype=torch.float32, attn_implementation="eager")
            self._models[adapter] = base if adapter is None else PeftModel.from_pretrained(base, adapter)
        ids = torch.tensor([[*prompt, *completion]])
        with torch.no_grad():
            return self._models[adapter](input_ids=ids).logits[0, len(prompt) - 1 : -1]

    def logprobs(
        self, prompt: Sequence[int], completion: Sequence[int], sampling: SamplingParams, adapter: Path | None = None
    ) -> list[float]:
        """log mu of each completion token: scaled by the temperature, before any truncation."""
        rows_C_V = self.distribution_C_V(prompt, completion, sampling, adapter)
        return [row[token].item() for row, token in zip(rows_C_V, completion, strict=True)]

    def distribution_C_V(
        self, prompt: Sequence[int], completion: Sequence[int], sampling: SamplingParams, adapter: Path | None = None
    ) -> torch.Tensor:
        """Log-probabilities of the whole vocabulary at each completion token."""
        logits = self.logits_C_V(prompt, completion, adapter)
        temperature = sampling.temperature or 1.0  # a greedy reply reports the unscaled distribution
        seen = [counted(prompt, completion[:index], late=self.late_penalties) for index in range(len(completion))]
        rows = [penalised(row, tokens, sampling) for row, tokens in zip(logits, seen, strict=True)]
        return torch.log_softmax(torch.stack(rows) / temperature, dim=-1)


def counted(prompt: Sequence[int], sampled: Sequence[int], *, late: bool) -> list[int]:
    """The tokens whose occurrence is penalised, at most as many as were sampled.

    SGLang 0.5.23 prepares a step before it knows the last one's token (`cumulate_penalty_output_tokens` of
    `schedule_batch.py`): it counts one token late, and the last prompt token in place of the first.
    """
    return [prompt[-1], *sampled[:-1]] if late and sampled else list(sampled)


def penalised(logits_V: torch.Tensor, sampled: Sequence[int], sampling: SamplingParams) -> torch.Tensor:
    """Logits after penalties of what has been sampled, the floor on the length, and the bias, in SGLang's order."""
    row = logits_V.clone()
    for token in set(sampled):
        row[token] -= sampling.presence_penalty + sampling.frequency_penalty * sampled.count(token)
    if len(sampled) < sampling.min_new_tokens:
        row[[EOS_ID, *sampling.stop_token_ids]] = -math.inf
    for token in set(sampled):
        row[token] *= sampling.repetition_penalty if row[token] < 0 else 1 / sampling.repetition_penalty
    for token, bias in (sampling.logit_bias or {}).items():
        row[int(token)] += bias
    return row
