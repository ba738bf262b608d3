"""The body of a generate request."""

from typing import Any

import msgspec
import pytest

from trainer.engine.engine_refusal import EngineRefusal
from trainer.engine.generate_body import decode_generate


def decode(**fields: Any):
    return decode_generate(msgspec.json.encode({"input_ids": [1, 2], **fields}))


def test_absent_fields_get_sglangs_defaults() -> None:
    request = decode()
    assert request.stream is False
    assert request.return_logprob is False
    assert request.lora_path is None
    assert len(request.rid) == 32
    params = request.sampling_params
    assert (params.max_new_tokens, params.temperature, params.top_p, params.top_k) == (128, 1.0, 1.0, -1)
    assert (params.no_stop_trim, params.skip_special_tokens) == (False, True)


def test_null_is_the_default_and_one_stop_string_is_a_list() -> None:
    request = decode(rid=None, sampling_params={"top_p": None, "stop": "END", "stop_token_ids": None})
    assert request.sampling_params.top_p == 1.0
    assert request.sampling_params.stop == ["END"]
    assert request.sampling_params.stop_token_ids == []


def test_unknown_fields_and_switched_off_ones_pass() -> None:
    request = decode(session_id="s", surprise=[1], top_logprobs_num=0, sampling_params={"n": 1, "regex": None, "x": 2})
    assert request.input_ids == [1, 2]


def test_integers_pass_for_numbers() -> None:
    assert decode(sampling_params={"temperature": 1}).sampling_params.temperature == 1.0


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"input_ids": None}, "input_ids is absent"),
        ({"input_ids": [[1], [2]]}, "list of lists"),
        ({"input_ids": [1, "2"]}, r"wrong type: .*\$\.input_ids\[1\]"),
        ({"input_ids": [1.5]}, r"\$\.input_ids\[0\]"),
        ({"text": "hello"}, "text is set"),
        ({"top_logprobs_num": 3}, "top_logprobs_num is set"),
        ({"return_sampling_mask": True}, "return_sampling_mask is set"),
        ({"stream": "yes"}, r"\$\.stream"),
        ({"sampling_params": []}, r"\$\.sampling_params"),
        ({"sampling_params": {"temperature": "hot"}}, r"\$\.sampling_params\.temperature"),
        ({"sampling_params": {"n": 2}}, "n is 2, expected 1"),
        ({"sampling_params": {"json_schema": "{}"}}, r"sampling_params\.json_schema is set"),
    ],
)
def test_what_cannot_be_served_as_asked_is_refused(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(EngineRefusal, match=says):
        decode(**fields)


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b'{"input_ids":' + b"[" * 100_000])
def test_what_is_not_json_is_refused(body: bytes) -> None:
    with pytest.raises(EngineRefusal, match="the body is not JSON"):
        decode_generate(body)


def test_what_is_not_an_object_is_refused() -> None:
    with pytest.raises(EngineRefusal, match="no JSON object"):
        decode_generate(b"[1]")
