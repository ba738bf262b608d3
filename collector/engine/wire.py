"""What goes over the wire to an engine: the subset of SGLang 0.5.23's HTTP API that this project uses.

Requests carry SGLang's own field names. A field at its default is sent all the same: every sampling parameter is
explicit, so that its effective value can be stored. Source: `srt/managers/io_struct.py` and
`srt/sampling/sampling_params.py` of the sglang 0.5.23 wheel.
"""

from typing import Annotated, Literal

import msgspec

PauseMode = Literal["abort", "retract", "in_place"]
TokenId = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
"""An id as engines and records hold it: int32, not negative."""
Count = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
"""A number of tokens."""

GREEDY_BELOW = 1e-6
"""Temperatures below this are greedy, and the log-probabilities are then those at T = 1.
Source: `_SAMPLING_EPS` and `SamplingParams.normalize` in `srt/sampling/sampling_params.py`."""


class SamplingParams(msgspec.Struct, frozen=True, kw_only=True):
    """How to sample. The defaults leave softmax(logits) untouched.

    Penalties count sampled tokens, never the prompt. SGLang with its overlapped scheduler (the default) counts them
    one token late, and the last prompt token in place of the first; log mu is of what was truly sampled from.
    """

    max_new_tokens: int = 128
    """Limit on sampled tokens. With the prompt it may not exceed the context: the engine refuses, and does not cut.
    SGLang also leaves the last two positions of the context empty, finishing with `length`."""
    temperature: float = 1.0
    """Softmax temperature; below GREEDY_BELOW it is greedy."""
    top_p: float = 1.0
    """Nucleus mass; 1 is off."""
    top_k: int = -1
    """Number of candidates; -1 is off."""
    min_p: float = 0.0
    """Floor relative to the likeliest token; 0 is off."""
    presence_penalty: float = 0.0
    """Subtracted from the logit of every token already sampled."""
    frequency_penalty: float = 0.0
    """Subtracted from a sampled token's logit, once per occurrence."""
    repetition_penalty: float = 1.0
    """Divides positive, multiplies negative logits of tokens already sampled; 1 is off."""
    logit_bias: dict[str, float] | None = None
    """Token id, as text, to what is added to its logit."""
    stop: list[str] = []
    """Strings that end the reply; the tokens sampled up to the match stay in output_ids."""
    stop_token_ids: list[int] = []
    """Further stop tokens beside the model's own."""
    ignore_eos: bool = False
    """Samples on past every stop token."""
    min_new_tokens: int = 0
    """Stop tokens are forbidden before this many; 0 is off."""
    sampling_seed: int | None = None
    """Seed of this request's draws. SGLang ignores it unless it runs with `--enable-deterministic-inference`, and
    then samples a request without one as if it were 42 (`sampling_batch_info.py`)."""
    no_stop_trim: bool = True
    """Leaves the stop token in `text`; ids always hold it."""
    skip_special_tokens: bool = False
    """Leaves special tokens out of `text`; ids always hold them."""
    spaces_between_special_tokens: bool = False
    """SGLang's text option; off, so that text is the plain decoding."""


class GenerateRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`POST /generate`: ids in, ids out."""

    input_ids: list[int]
    """Exact prompt, int32. SGLang answers ids outside the vocabulary as if nothing were wrong: check them before."""
    sampling_params: SamplingParams
    """How to sample."""
    rid: str
    """Name of the request, for abort. SGLang aborts every live request whose rid starts with the one it is given, and
    2 s after a stream has ended it aborts that rid once more: use ids of one length, and never one again."""
    lora_path: str | None = None
    """Engine name of the adapter version, `<adapter>@<version>`; None is the base model."""
    return_logprob: bool = True
    """Asks for the sampled log-probabilities."""
    logprob_start_len: int = -1
    """From which prompt token on log-probabilities are returned; -1 is output tokens only. No cached prefix longer
    than this is used, so 0 switches the prefix cache off for the request."""
    stream: bool = True
    """One server-sent event per group of tokens."""
    return_routed_experts: bool = False
    """Asks a mixture of experts which experts each token went to. An engine that does not keep them says nothing."""


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """Which base weights sampled output tokens `start` to `end`."""

    version: str
    start: int
    end: int


class Finish(msgspec.Struct, frozen=True, kw_only=True):
    """Why the engine ended the reply."""

    type: Literal["stop", "length", "abort"]
    matched: TokenId | str | None = None
    """The stop token id or stop string that matched."""
    length: int | None = None
    """The limit that was reached."""
    message: str | None = None
    """Why it was aborted."""
    status_code: int | None = None
    """HTTP status that goes with an abort."""


class Delta(msgspec.Struct, frozen=True, kw_only=True):
    """What one stream event added. The last one of a reply carries `finish` and the totals."""

    token_ids: list[int]
    """New sampled ids, in order."""
    logprobs: list[float]
    """log mu of the new ids, nats; the same length."""
    finish: Finish | None = None
    """Set on the last delta only."""
    spans: list[Span] = []
    """On the last delta: cover all output tokens exactly once."""
    prompt_tokens: int | None = None
    """On the last delta: prompt tokens as the engine counted them."""
    completion_tokens: int | None = None
    """On the last delta: output tokens as the engine counted them."""
    cached_tokens: int | None = None
    """Prompt tokens taken from the prefix cache."""
    routed_experts: bytes | None = None
    """On the last delta: int32 experts of each token but the last, by layer and rank; None when not returned."""


class Scored(msgspec.Struct, frozen=True, kw_only=True):
    """What the engine thinks of given tokens."""

    logprobs: list[float]
    """log-probability at T = 1, nats, of each token after the one at `start`, given those before it."""
    cached_tokens: int | None = None
    """Tokens taken from the prefix cache."""


class ModelInfo(msgspec.Struct, frozen=True, kw_only=True):
    """`GET /model_info`, the part used here."""

    model_path: str
    """Folder or name of the model."""
    served_model_name: str | None = None
    """The name clients use."""
    weight_version: str = "default"
    """Label of the base weights."""
    tokenizer_path: str | None = None
    """Folder of the tokenizer, where it differs."""


class LoraLoad(msgspec.Struct, frozen=True, kw_only=True):
    """Adapter slots of one worker."""

    slots_used: int
    """Adapters in the batch pool."""
    slots_total: int
    """Adapters that fit into the batch pool."""


class DraftLoad(msgspec.Struct, frozen=True, kw_only=True):
    """Speculative decoding of one worker."""

    accept_length: float | None = None
    """Tokens accepted at each step."""
    accept_rate: float | None = None
    """Share of drafted tokens that were accepted, as the engine last measured it."""


class WorkerLoad(msgspec.Struct, frozen=True, kw_only=True):
    """One worker's part of `GET /v1/loads`. What an engine does not report is None."""

    num_running_reqs: int
    """Requests being sampled."""
    num_waiting_reqs: int
    """Requests in the queue."""
    dp_rank: int = 0
    """Which data-parallel worker."""
    num_used_tokens: int | None = None
    """Tokens that hold a KV slot."""
    max_total_num_tokens: int | None = None
    """KV slots."""
    token_usage: float | None = None
    """Share of the KV slots in use, 0 to 1."""
    gen_throughput: float | None = None
    """Sampled tokens a second, as the engine last measured it."""
    cache_hit_rate: float | None = None
    """Share of prompt tokens found in the prefix cache, as the engine last measured it."""
    lora: LoraLoad | None = None
    """Adapter slots."""
    speculative: DraftLoad | None = None
    """Draft acceptance; None where nothing is drafted."""


class WeightUpdate(msgspec.Struct, frozen=True, kw_only=True):
    """The engine's answer to a successful weight update."""

    message: str
    """What the engine says it did."""
    num_paused_requests: int = 0
    """Requests it held back meanwhile."""
