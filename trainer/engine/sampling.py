"""From logits to a token and its log-probability, as SGLang 0.5.23 defines both.

Sources: `srt/layers/sampler.py`, `srt/sampling/sampling_batch_info.py` and `srt/sampling/penaltylib/` of its wheel.
"""

import math
from collections import Counter
from typing import NamedTuple, cast

import torch

from collector.engine.wire import GREEDY_BELOW, SamplingParams
from trainer.engine.noise import uniform_noise


class Draw(NamedTuple):
    """What one sequence brings to the sampling of its next token."""

    params: SamplingParams
    seed: int
    """Seed of this sequence's draws."""
    position: int
    """Of the latest token, from 0 at the prompt's beginning: its logits are sampled."""
    output: list[int]
    """Tokens sampled so far: penalties count these and not the prompt."""
    stop_ids: frozenset[int]
    """Every stop token, forbidden while fewer than `min_new_tokens` are there."""


class Sampled(NamedTuple):
    """One token and log mu."""

    token_id: int
    logprob: float

    @property
    def is_real(self) -> bool:
        """False when the logits held a NaN or allowed no token: then nothing was sampled."""
        return math.isfinite(self.logprob)


def sample(logits_B_V: torch.Tensor, draws: list[Draw]) -> list[Sampled]:
    """One token a row. The log-probability is of log_softmax(logits / T), after penalties and before truncation."""
    for logits_V, draw in zip(logits_B_V, draws, strict=True):
        _penalise(logits_V, draw)
    # Loading a model in another thread changes torch's default type for a while, so none is left to the default here.
    temperatures = [_temperature(draw.params) for draw in draws]
    temperatures_B = torch.tensor(temperatures, dtype=torch.float32, device=logits_B_V.device)
    logprobs_B_V = (logits_B_V / temperatures_B[:, None]).log_softmax(-1)
    weights_B_V = logprobs_B_V.double().exp_()
    for weights_V, draw in zip(weights_B_V, draws, strict=True):
        _truncate(weights_V, draw.params)
        _race(weights_V, draw)
    tokens_B = weights_B_V.argmax(-1)
    greedy_B = logprobs_B_V.argmax(-1)
    is_greedy_B = torch.tensor([_is_greedy(draw.params) for draw in draws], device=logits_B_V.device)
    tokens_B = torch.where(is_greedy_B, greedy_B, tokens_B)
    chosen_B = logprobs_B_V.gather(1, tokens_B[:, None])[:, 0]
    tokens, chosen = cast("list[int]", tokens_B.tolist()), cast("list[float]", chosen_B.tolist())
    return [Sampled(token, logprob) for token, logprob in zip(tokens, chosen, strict=True)]


def _race(weights_V: torch.Tensor, draw: Draw) -> None:
    """Divides each weight by an exponential number of its own: the largest quotient is a draw by weight.

    Rounding of the logits changes the winner only where two quotients nearly tie. A draw from cumulated weights would
    change wherever one of thousands of boundaries moves, and a batch would not sample what a solo run samples.
    """
    if _is_greedy(draw.params):
        return
    uniform = torch.from_numpy(uniform_noise(draw.seed, draw.position, weights_V.shape[0])).to(weights_V.device)
    weights_V.div_(uniform.log_().neg_().clamp_(min=2.0**-32))


def _is_greedy(params: SamplingParams) -> bool:
    return params.temperature < GREEDY_BELOW or params.top_k == 1


def _temperature(params: SamplingParams) -> float:
    return 1.0 if params.temperature < GREEDY_BELOW else params.temperature


def _penalise(logits_V: torch.Tensor, draw: Draw) -> None:
    params = draw.params
    if draw.output and (params.presence_penalty or params.frequency_penalty or params.repetition_penalty != 1.0):
        counts = Counter(draw.output)
        seen = torch.tensor(list(counts), device=logits_V.device)
        times = torch.tensor(list(counts.values()), dtype=torch.float32, device=logits_V.device)
        lowered = logits_V[seen] - params.frequency_penalty * times - params.presence_penalty
        scale = params.repetition_penalty
        logits_V[seen] = torch.where(lowered < 0, lowered * scale, lowered / scale)
    if len(draw.output) < params.min_new_tokens and draw.stop_ids:
        logits_V[torch.tensor(sorted(draw.stop_ids), device=logits_V.device)] = -torch.inf
    for token, bias in (params.logit_bias or {}).items():
        logits_V[int(token)] += bias


def _truncate(weights_V: torch.Tensor, params: SamplingParams) -> None:
    if params.top_k == -1 and params.top_p == 1.0 and params.min_p == 0.0:
        return
    ordered, order = weights_V.sort(descending=True, stable=True)
    # Each filter looks at the probabilities before any other filter, as SGLang's does.
    dropped = (ordered.cumsum(-1) - ordered) > params.top_p
    if params.top_k != -1:
        dropped[params.top_k :] = True
    dropped |= ordered < ordered[0] * params.min_p
    weights_V[order[dropped]] = 0.0
