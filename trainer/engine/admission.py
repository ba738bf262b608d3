"""Which requests can be served at all; each refusal says what was found and what was expected."""

from typing import NamedTuple

from collector.engine.wire import GenerateRequest, SamplingParams
from trainer.engine.engine_refusal import EngineRefusal
from trainer.engine.kv_buffer import blocks


class Limits(NamedTuple):
    """What a request must fit into."""

    max_context: int
    kv_tokens: int
    vocab_size: int
    has_text: bool
    """Whether the model's folder has a tokenizer, so that stop strings can be found."""


def check_request(request: GenerateRequest, limits: Limits) -> None:
    """Refuses what cannot be served exactly as asked."""
    _check_ids(request.input_ids, limits)
    _check_length(request, limits)
    _check_sampling(request.sampling_params, limits)
    start, tokens = request.logprob_start_len, len(request.input_ids)
    _expect(-1 <= start <= tokens, "logprob_start_len", start, f"-1, or 0 to the {tokens} tokens of the input")


def _check_ids(ids: list[int], limits: Limits) -> None:
    if not ids:
        raise EngineRefusal("input_ids is empty, expected at least one token id")
    wrong = next((index for index, token in enumerate(ids) if not 0 <= token < limits.vocab_size), None)
    if wrong is not None:
        raise EngineRefusal(
            f"input_ids[{wrong}] is {ids[wrong]}, expected a token id from 0 to {limits.vocab_size - 1}"
        )


def _check_length(request: GenerateRequest, limits: Limits) -> None:
    prompt, new = len(request.input_ids), request.sampling_params.max_new_tokens
    if prompt >= limits.max_context:
        raise EngineRefusal(
            f"The input ({prompt} tokens) is longer than the model's context length ({limits.max_context} tokens); "
            f"expected at most {limits.max_context - 1}"
        )
    if prompt + new > limits.max_context:
        raise EngineRefusal(
            f"Requested token count exceeds the model's maximum context length of {limits.max_context} tokens: "
            f"{prompt} tokens of input and {new} of max_new_tokens are {prompt + new}"
        )
    if blocks(prompt + new) > limits.kv_tokens:
        raise EngineRefusal(
            f"{prompt} tokens of input and {new} of max_new_tokens need room for {blocks(prompt + new)} tokens, "
            f"the engine has room for {limits.kv_tokens}; raise kv_tokens"
        )


def _check_sampling(params: SamplingParams, limits: Limits) -> None:
    _expect(0.0 <= params.temperature < float("inf"), "temperature", params.temperature, "a finite number from 0 on")
    _expect(0.0 < params.top_p <= 1.0, "top_p", params.top_p, "a number above 0 and at most 1")
    _expect(params.top_k == -1 or params.top_k >= 1, "top_k", params.top_k, "-1 or at least 1")
    _expect(0.0 <= params.min_p <= 1.0, "min_p", params.min_p, "a number from 0 to 1")
    for name in ("presence_penalty", "frequency_penalty"):
        value = getattr(params, name)
        _expect(-2.0 <= value <= 2.0, name, value, "a number from -2 to 2")
    repetition = params.repetition_penalty
    _expect(0.0 < repetition <= 2.0, "repetition_penalty", repetition, "a number above 0 and at most 2")
    _expect(params.max_new_tokens >= 0, "max_new_tokens", params.max_new_tokens, "0 or more")
    enough = 0 <= params.min_new_tokens <= params.max_new_tokens
    _expect(enough, "min_new_tokens", params.min_new_tokens, "a number from 0 to max_new_tokens")
    seed = params.sampling_seed
    _expect(seed is None or -(2**63) <= seed < 2**63, "sampling_seed", seed, "a signed 64-bit number")
    for token in params.logit_bias or {}:
        known = token.isascii() and token.isdigit() and int(token) < limits.vocab_size
        _expect(known, "a key of logit_bias", token, f"a token id from 0 to {limits.vocab_size - 1}")
    for token in params.stop_token_ids if params.min_new_tokens else ():
        known = 0 <= token < limits.vocab_size
        _expect(known, "a stop token", token, f"a token id from 0 to {limits.vocab_size - 1}")
    _expect(all(params.stop), "stop", params.stop, "texts that are not empty")
    _expect(limits.has_text or not params.stop, "stop", params.stop, "no stop strings: the model has no tokenizer.json")


def _expect(holds: bool, name: str, found: object, expected: str) -> None:
    if not holds:
        raise EngineRefusal(f"{name} is {found!r}, expected {expected}")
