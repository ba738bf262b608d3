"""Which requests can be served."""

from typing import Any

import pytest

from collector.engine.wire import GenerateRequest, SamplingParams
from trainer.engine.admission import Limits, check_request
from trainer.engine.engine_refusal import EngineRefusal

LIMITS = Limits(max_context=100, kv_tokens=128, vocab_size=50, has_text=True)


def check(ids: list[int], limits: Limits = LIMITS, *, logprob_start_len: int = -1, **sampling: Any) -> None:
    params = SamplingParams(**{"max_new_tokens": 10, **sampling})
    check_request(
        GenerateRequest(input_ids=ids, sampling_params=params, rid="r", logprob_start_len=logprob_start_len), limits
    )


def test_what_fits_passes() -> None:
    check([0] * 90)
    check([49], stop=["a"], logit_bias={"49": 1.0}, top_k=1, temperature=0.0, max_new_tokens=99)


@pytest.mark.parametrize(
    ("ids", "given", "says"),
    [
        ([], {}, "input_ids is empty"),
        ([1, 50], {}, r"input_ids\[1\] is 50, expected a token id from 0 to 49"),
        ([-1], {}, r"input_ids\[0\] is -1"),
        ([0] * 100, {}, r"The input \(100 tokens\) is longer than the model's context length \(100 tokens\)"),
        ([0] * 91, {}, "maximum context length of 100 tokens: 91 tokens of input and 10 of max_new_tokens are 101"),
        ([1], {"temperature": -0.1}, r"temperature is -0\.1"),
        ([1], {"temperature": float("nan")}, "temperature is nan"),
        ([1], {"top_p": 0.0}, r"top_p is 0\.0"),
        ([1], {"top_k": 0}, "top_k is 0, expected -1 or at least 1"),
        ([1], {"min_p": 1.5}, r"min_p is 1\.5"),
        ([1], {"presence_penalty": 2.5}, "presence_penalty"),
        ([1], {"frequency_penalty": -2.5}, "frequency_penalty"),
        ([1], {"repetition_penalty": 0.0}, "repetition_penalty"),
        ([1], {"max_new_tokens": -1}, "max_new_tokens is -1"),
        ([1], {"min_new_tokens": 11}, "min_new_tokens is 11"),
        ([1], {"sampling_seed": 2**63}, "sampling_seed"),
        ([1], {"logit_bias": {"50": 1.0}}, "a key of logit_bias is '50'"),
        ([1], {"logit_bias": {"x": 1.0}}, "a key of logit_bias is 'x'"),
        ([1], {"stop": ["a", ""]}, "stop is"),
        ([1], {"stop_token_ids": [50], "min_new_tokens": 1}, "a stop token is 50"),
        ([1], {"logprob_start_len": 2}, "logprob_start_len is 2, expected -1, or 0 to the 1 tokens"),
    ],
)
def test_what_does_not_fit_is_refused(ids: list[int], given: dict[str, Any], says: str) -> None:
    with pytest.raises(EngineRefusal, match=says):
        check(ids, **given)


def test_a_request_larger_than_the_token_budget_is_refused() -> None:
    with pytest.raises(EngineRefusal, match="need room for 128 tokens, the engine has room for 64"):
        check([0] * 60, LIMITS._replace(kv_tokens=64))


def test_stop_strings_need_a_tokenizer() -> None:
    with pytest.raises(EngineRefusal, match=r"the model has no tokenizer\.json"):
        check([1], LIMITS._replace(has_text=False), stop=["a"])
