"""`POST /generate`: ids in, ids out, in SGLang's shape with incremental streaming."""

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec

from collector.conversation import Call, Outcome, ReplyEvent, Sampling, TokensDelta, TurnName
from collector.refusal import Refusal
from collector.shapes.problem import Problem, openai_problem, problem
from collector.shapes.reading import (
    Count,
    Heat,
    Penalty,
    Repetition,
    Seed,
    Share,
    TopK,
    TopP,
    at_least,
    between,
    bias_of,
    in_range,
    read_body,
    seed_of,
    shortened,
    top_k_of,
)

_MEDIA = ("image_data", "audio_data", "video_data", "input_embeds")
_CONSTRAINTS = ("json_schema", "regex", "ebnf", "structural_tag")


class GenerateSampling(msgspec.Struct):
    """How to sample, in SGLang's words."""

    max_new_tokens: Count | None = None
    temperature: Heat | None = None
    top_p: TopP | None = None
    top_k: TopK | None = None
    min_p: Share | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    repetition_penalty: Repetition | None = None
    logit_bias: dict[str, float] | None = None
    stop: str | list[str] | None = None
    stop_token_ids: list[int] | None = None
    ignore_eos: bool | None = None
    min_new_tokens: Annotated[int, between(0, 2**63 - 1)] | None = None
    sampling_seed: Seed | None = None
    n: Annotated[int, between(1, 1)] | None = None
    json_schema: Any = None
    regex: Any = None
    ebnf: Any = None
    structural_tag: Any = None


class GenerateBody(msgspec.Struct):
    """The fields that are read; any other is tolerated."""

    input_ids: list[int] | None = None
    sampling_params: GenerateSampling = msgspec.field(default_factory=GenerateSampling)
    return_logprob: bool | None = None
    stream: bool | None = None
    lora_path: str | None = None
    text: Any = None
    image_data: Any = None
    audio_data: Any = None
    video_data: Any = None
    input_embeds: Any = None


class GenerateExchange:
    """One generation by ids, from body to bytes."""

    left_out: tuple[str, ...] = ()

    def __init__(self, body: bytes) -> None:
        request = read_body(body, GenerateBody)
        for name in _MEDIA:
            if getattr(request, name):
                raise Refusal.invalid(
                    f"{name} is given, expected ids alone; images, audio and video are not supported",
                    param=name,
                    code="unsupported_value",
                )
        if request.text is not None or not request.input_ids:
            raise Refusal.invalid("input_ids is missing, expected the ids of one prompt; text is not taken here")
        self.stream = bool(request.stream)
        self._logprobs = bool(request.return_logprob)
        self._turn_id = ""
        self._prompt_tokens = len(request.input_ids)
        self._sampled = 0
        self.call = Call(
            api="generate",
            model=request.lora_path,
            prompt_ids=tuple(request.input_ids),
            sampling=_sampling(request.sampling_params),
        )

    def problem(self, refusal: Refusal) -> Problem:
        """An error body."""
        return openai_problem(refusal)

    def keep_alive(self) -> bytes:
        """A comment."""
        return b": ping\n\n"

    def opening(self, name: TurnName) -> bytes:
        """Nothing: the first event carries the first ids."""
        self._turn_id = name.turn_id
        return b""

    def events(self, events: Sequence[ReplyEvent]) -> bytes:
        """One event per group of ids."""
        return b"".join(self._event(event) for event in events if isinstance(event, TokensDelta))

    def closing(self, outcome: Outcome) -> bytes:
        """An event without ids that says how it ended, and `[DONE]`."""
        meta = self._meta(outcome)
        if self._logprobs:
            meta["output_token_logprobs"] = []
        return _sse({"text": "", "output_ids": [], "meta_info": meta}) + b"data: [DONE]\n\n"

    def broken_off(self, refusal: Refusal) -> bytes:
        """An error event."""
        return b"data: " + problem(refusal) + b"\n\n"

    def body(self, outcome: Outcome) -> bytes:
        """The whole reply."""
        meta = self._meta(outcome)
        if self._logprobs:
            meta["output_token_logprobs"] = _triples(outcome.logprobs, outcome.completion_ids)
        return msgspec.json.encode({"text": outcome.text, "output_ids": outcome.completion_ids, "meta_info": meta})

    def _event(self, event: TokensDelta) -> bytes:
        self._sampled += len(event.ids)
        meta: dict[str, object] = {
            "id": self._turn_id,
            "finish_reason": None,
            "prompt_tokens": self._prompt_tokens,
            "completion_tokens": self._sampled,
        }
        if self._logprobs:
            meta["output_token_logprobs"] = _triples(event.logprobs, event.ids)
        return _sse({"text": event.text, "output_ids": event.ids, "meta_info": meta})

    def _meta(self, outcome: Outcome) -> dict[str, object]:
        finish: dict[str, object] = {"type": outcome.finish_reason}
        if outcome.finish_reason == "length":
            finish["length"] = len(outcome.completion_ids)
        elif outcome.matched is not None:
            finish["matched"] = outcome.matched
        meta: dict[str, object] = {
            "id": outcome.name.turn_id,
            "finish_reason": finish,
            "prompt_tokens": outcome.prompt_tokens,
            "completion_tokens": len(outcome.completion_ids),
            "weight_versions": [
                {"version": str(span.version), "start": span.start, "end": span.end} for span in outcome.weight_versions
            ],
        }
        if outcome.cached_tokens is not None:
            meta["cached_tokens"] = outcome.cached_tokens
        if self._logprobs:
            meta["output_token_logprobs_length"] = len(outcome.logprobs)
        return meta


def _triples(logprobs: Sequence[float], ids: Sequence[int]) -> list[tuple[float, int, None]]:
    return [(logprob, token, None) for logprob, token in zip(logprobs, ids, strict=True)]


def _sse(event: dict[str, object]) -> bytes:
    return b"data: " + msgspec.json.encode(event) + b"\n\n"


def _sampling(params: GenerateSampling) -> Sampling:
    for name in _CONSTRAINTS:
        if getattr(params, name) is not None:
            raise Refusal.invalid(f"{name} would constrain sampling, which is not supported; leave it out", param=name)
    if params.n not in (None, 1):
        raise Refusal.invalid(f"n is {shortened(params.n)}, expected 1: every sample is a turn of its own", param="n")
    stops = [params.stop] if isinstance(params.stop, str) else params.stop or []
    return Sampling(
        max_tokens=at_least("max_new_tokens", params.max_new_tokens, 1),
        temperature=in_range("temperature", params.temperature, 0, 100, 1),
        top_p=in_range("top_p", params.top_p, 1e-9, 1, 1),
        top_k=top_k_of(params.top_k),
        min_p=in_range("min_p", params.min_p, 0, 1, 0),
        presence_penalty=in_range("presence_penalty", params.presence_penalty, -2, 2, 0),
        frequency_penalty=in_range("frequency_penalty", params.frequency_penalty, -2, 2, 0),
        repetition_penalty=in_range("repetition_penalty", params.repetition_penalty, 1e-9, 2, 1),
        logit_bias=bias_of(params.logit_bias),
        seed=seed_of("sampling_seed", params.sampling_seed),
        stop=tuple(stop for stop in stops if stop),
        stop_token_ids=tuple(params.stop_token_ids or ()),
        ignore_eos=bool(params.ignore_eos),
        min_new_tokens=at_least("min_new_tokens", params.min_new_tokens, 0) or 0,
    )
