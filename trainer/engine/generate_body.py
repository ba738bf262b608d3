"""The body of `POST /generate`: unknown fields pass, what would change the reply and is not served does not."""

import uuid
from typing import Any, cast

import msgspec

from collector.engine.wire import GenerateRequest
from trainer.engine.engine_refusal import EngineRefusal

UNSERVED = frozenset(
    """text input_embeds image_data video_data audio_data top_logprobs_num token_ids_logprob return_hidden_states
    return_sampling_mask return_entropy return_prompt_token_ids custom_logit_processor
    session_params max_thinking_tokens""".split()  # noqa: SIM905
)
"""Fields of SGLang's request that change the reply; here they must be off."""
UNSERVED_SAMPLING = frozenset(
    ("json_schema", "regex", "ebnf", "structural_tag", "stop_regex", "beam_width", "watermark")
)
"""Sampling parameters of SGLang that change what is sampled; here they must be off."""


def decode_generate(body: bytes) -> GenerateRequest:
    """Checks types and fills in what is absent or null, as SGLang does."""
    try:
        raw = msgspec.json.decode(body)
        if not isinstance(raw, dict):
            raise EngineRefusal("the body is no JSON object; expected one with input_ids and sampling_params")
        fields = _present(cast("dict[str, Any]", raw), UNSERVED, "")
        fields["sampling_params"] = _sampling(fields.get("sampling_params", {}))
        fields.setdefault("rid", uuid.uuid4().hex)
        fields.setdefault("stream", False)
        fields.setdefault("return_logprob", False)
        _refuse_batch(fields)
        return msgspec.convert(fields, GenerateRequest)
    except msgspec.ValidationError as error:
        raise EngineRefusal(f"the body has a wrong type: {error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise EngineRefusal(f"the body is not JSON: {error}") from error


def _present(raw: dict[str, Any], unserved: frozenset[str], where: str) -> dict[str, Any]:
    for name in unserved & raw.keys():
        if raw[name]:
            raise EngineRefusal(f"{where}{name} is set, which this engine does not serve; expected it off")
    return {name: value for name, value in raw.items() if value is not None}


def _sampling(raw: Any) -> Any:
    if not isinstance(raw, dict):
        return raw
    fields = _present(cast("dict[str, Any]", raw), UNSERVED_SAMPLING, "sampling_params.")
    if fields.get("n", 1) != 1:
        raise EngineRefusal(f"sampling_params.n is {fields['n']!r}, expected 1: send one request for each reply")
    if isinstance(fields.get("stop"), str):
        fields["stop"] = [fields["stop"]]
    # SGLang's own defaults where they differ from those of the request struct, which always sends its own.
    for name, default in (("no_stop_trim", False), ("skip_special_tokens", True)):
        fields.setdefault(name, default)
    return fields


def _refuse_batch(fields: dict[str, Any]) -> None:
    ids = fields.get("input_ids")
    if ids is None:
        raise EngineRefusal("input_ids is absent, expected a list of token ids")
    if isinstance(ids, list) and ids and isinstance(ids[0], list):
        raise EngineRefusal(
            "input_ids is a list of lists, expected one list of token ids: send one request for each prompt"
        )
