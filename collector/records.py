"""The records of the store: one struct per table, one field per column, its meaning and unit below it.

`None` is "not observed" and never 0. Lists of a failed turn are empty, not null. Times are UTC, to the
microsecond. Log-probabilities are natural logarithms (nats). Token positions are 0-based; spans are half open.
The store adds three columns to every record: `writer` (whose journal), `seq` (dense per writer, from 1) and
`crc32` (of the record's stored form).
"""

from datetime import datetime
from typing import Literal

import msgspec

Api = str
"""`chat`, `responses`, `messages`, `generate`, or `import:<format>` for a log that did not pass the collector."""
Link = Literal["root", "extends", "subagent", "compaction", "break"]
Purpose = Literal["traffic", "eval", "probe", "canary"]
LogprobMode = Literal["scaled", "raw", "truncated", "unknown"]
FinishReason = Literal["stop", "length", "abort", "client_gone", "error"]
FeedbackKind = Literal["thumb", "score", "accept", "edit", "outcome", "judge"]
SpanRole = Literal["trainer", "engine"]
SpanKind = Literal["step", "wait", "generate", "paused_for_weights", "idle_scheduled"]
Severity = Literal["info", "warn", "fail"]
VersionState = Literal["candidate", "canary", "live", "rejected", "retired"]
Decision = Literal["promote", "rollback", "hold", "release", "pin"]
"""What was decided about an adapter; the changes that follow from it have audit rows of their own."""
AuditAction = Literal["register_adapter", "register_version", "record_gate", "change_state", "replace_routes", Decision]


class Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every record is: immutable, made by keyword, strict about its fields."""


class VersionSpan(Record, frozen=True, kw_only=True):
    """Which weights sampled completion tokens `start` to `end` (0-based, end exclusive)."""

    version: int | str
    """The engine's label of its base weights; an int where the label is one. Adapters are in `adapter_version`."""
    start: int
    """First completion token of the span."""
    end: int
    """One past the last completion token of the span."""


class ChatRequest(Record, frozen=True, kw_only=True):
    """What the client asked, in chat form. JSON values as received."""

    messages: list[dict[str, object]]
    """The conversation: role, content, tool_calls and so on, as the client sent it."""
    tools: list[dict[str, object]] | None = None
    """Tool definitions as sent."""
    chat_template_kwargs: dict[str, object] | None = None
    """Extra variables for the chat template, such as enable_thinking."""


class Turn(Record, frozen=True, kw_only=True):
    """One model call: exact prompt token ids, sampled token ids and their sampled log-probabilities."""

    turn_id: str
    """UUIDv7; what the client gets as response id, less its wire prefix."""
    session_id: str
    """The agent run this call belongs to."""
    turn: int
    """1-based position in the session, by arrival."""
    parent_turn_id: str | None = None
    """The deepest earlier turn of the session whose prompt + completion is a token prefix of this prompt."""
    link: Link = "root"
    """How the turn stands to the earlier ones, as believed at capture; a declared event wins later."""
    break_kind: str | None = None
    """For `link` = break: what changed, in the words of the prefix-break check. The collector tells
    `system_prompt_changed` (system messages or tools), `tool_call_reserialized` (only arguments of tool calls),
    `reasoning_stripped` and `empty_think_block` (only where the template decides), and `other`."""
    task_id: str | None = None
    """The task the session works on, when the client says so."""
    group_id: str | None = None
    """Sessions of one task that are compared with each other."""
    tenant: str
    """Owner of the API key. Tenants never see or train on each other's turns."""
    base_model: str | None = None
    """Name of the frozen base model."""
    adapter: str | None = None
    """LoRA line that served the turn; None when the base model did."""
    adapter_version: int | None = None
    """Version of the adapter at dispatch: loading a LoRA does not change what the engine reports."""
    api: Api
    """Wire shape the client spoke."""
    client: str | None = None
    """User agent of the client, as it sent it."""
    purpose: Purpose = "traffic"
    """Only traffic and canary are trained."""
    started_at: datetime
    """When the request had been read."""
    first_token_at: datetime | None = None
    """When the first sampled token came back."""
    finished_at: datetime | None = None
    """When the last sampled token came back, or the failure was known."""
    prompt_ids: list[int]
    """int32, the exact ids the engine was given."""
    completion_ids: list[int]
    """int32, the sampled ids, the stop token included."""
    sampled_logprobs: list[float]
    """float32, nats, log mu of each completion token; the length of completion_ids."""
    logprob_mode: LogprobMode = "unknown"
    """Distribution of sampled_logprobs: `scaled` softmax(logits/T) before truncation, `raw` at T = 1,
    `truncated` renormalised over what top-p, top-k or min-p left."""
    weight_versions: list[VersionSpan]
    """Spans that cover the completion tokens exactly once."""
    temperature: float | None = None
    """Effective softmax temperature."""
    top_p: float | None = None
    """Effective nucleus mass; 1 is off."""
    top_k: int | None = None
    """Effective number of candidates; -1 is off."""
    min_p: float | None = None
    """Effective floor relative to the likeliest token; 0 is off."""
    presence_penalty: float | None = None
    """Effective, subtracted from logits; 0 is off."""
    frequency_penalty: float | None = None
    """Effective, subtracted from logits per occurrence; 0 is off."""
    repetition_penalty: float | None = None
    """Effective divisor of logits of seen tokens; 1 is off."""
    logit_bias: dict[str, float] | None = None
    """Token id (as text) to what was added to its logit; None is off."""
    constraint: str | None = None
    """Grammar, schema or tool constraint in effect, in words; None is off."""
    max_tokens: int | None = None
    """Effective limit on sampled tokens."""
    seed: int | None = None
    """Sampling seed, when one was given."""
    finish_reason: FinishReason | None = None
    """Why the turn ended."""
    cached_tokens: int | None = None
    """Prompt tokens the engine took from its prefix cache."""
    loss_mask: list[int] | None = None
    """0 or 1 per completion token, or per prompt + completion token; only where the source states one."""
    routed_experts: str | None = None
    """Path inside the store of the captured expert routes."""
    complete: bool = True
    """Whether the reply reached its own end."""
    trainable: bool = False
    """Whether mu is exactly what sampling used and lengths agree."""
    untrainable_reason: str | None = None
    """Why not: one of `collector.trainable.REASONS`; None when trainable."""
    request: ChatRequest | None = None
    """What the client asked, where it asked in messages."""
    response: dict[str, object] | None = None
    """The assistant message sent back: content, reasoning_content, tool_calls; or the error."""


class Score(Record, frozen=True, kw_only=True):
    """The trainer's probabilities of a turn's completion tokens."""

    turn_id: str
    """The scored turn."""
    adapter: str | None = None
    """The adapter being trained."""
    trainer_step: int
    """Optimizer step the scoring weights stood at."""
    trainer_version: int | None = None
    """Version the scoring weights were published as, if they were."""
    trainer_logprobs: list[float]
    """float32, nats, log pi_old per completion token."""
    sampling_version_logprobs: list[float] | None = None
    """float32, nats, log pi_gen: under the published weights of the version that sampled the token."""
    entropies: list[float] | None = None
    """float32, nats, entropy of the full distribution at each completion token."""
    reference_logprobs: list[float] | None = None
    """float32, nats, under the base model."""
    advantages: list[float] | None = None
    """float32, advantage per completion token."""


class Reward(Record, frozen=True, kw_only=True):
    """A session's or turn's reward, fixed when its feedback window closed."""

    session_id: str
    """The rewarded session."""
    turn_id: str | None = None
    """The rewarded turn; None when the reward is the session's."""
    value: float | None
    """Sum of the parts; None when no feedback was observed."""
    parts: dict[str, float]
    """Contribution of each feedback kind."""
    mapping_sha256: str
    """Hash of the mapping from feedback to reward."""
    closed_at: datetime
    """When the window closed."""


class Feedback(Record, frozen=True, kw_only=True):
    """One judgement of a turn or a session, by a user, a grader or CI."""

    feedback_id: str
    """Idempotency key: the same id counts once."""
    tenant: str
    """Owner of the key that posted it; the same as its turn's."""
    turn_id: str | None = None
    """The judged turn; None when the whole session is judged."""
    session_id: str | None = None
    """The judged session."""
    kind: FeedbackKind
    """thumb, score, accept, edit, outcome or judge."""
    value: float | None = None
    """Higher is better; the scale belongs to the kind."""
    text: str | None = None
    """Free text, as received."""
    source: str | None = None
    """What posted it: a user interface, a test run, a judge model."""
    user_hash: str | None = None
    """Keyed HMAC-SHA-256 of the user's name, in hex."""
    at: datetime
    """When it was received."""
    supersedes: str | None = None
    """feedback_id of the judgement this one replaces."""


class Step(Record, frozen=True, kw_only=True):
    """One optimizer step of one adapter."""

    adapter: str
    """The adapter."""
    step: int
    """Optimizer step, counted from 1."""
    at: datetime
    """When the step ended."""
    duration_s: float | None = None
    """Wall time, seconds."""
    tokens: int | None = None
    """Tokens of the rows trained on."""
    computed_tokens: int | None = None
    """Tokens computed after prefix sharing."""
    model_flops: float | None = None
    """Model FLOPs of the step, scoring and recomputation apart."""
    peak_flops: float | None = None
    """Peak FLOP/s of the device, measured or given."""
    mfu: float | None = None
    """model_flops / (duration_s * peak_flops)."""
    loss: float | None = None
    """Mean objective per trained token."""
    grad_norm: float | None = None
    """L2 norm before clipping."""
    entropy: float | None = None
    """Mean entropy of the full distribution, nats."""
    reward_mean: float | None = None
    """Mean reward of the batch."""
    max_w: float | None = None
    """Largest pi_old/mu, raw."""
    min_w: float | None = None
    """Smallest pi_old/mu, raw."""
    mean_w: float | None = None
    """Mean pi_old/mu, raw."""
    kl_mu_old: float | None = None
    """k1: mean(log mu - log pi_old), nats."""
    kl_update: float | None = None
    """KL(pi_old, pi), nats."""
    kl_base: float | None = None
    """KL to the base model, nats."""
    ess: float | None = None
    """(sum w)^2 / (n sum w^2) on raw w, a fraction."""
    w_truncated_share: float | None = None
    """Share of tokens whose w was cut at w_max."""
    clip_share: float | None = None
    """Share of tokens at the PPO clip."""
    staleness_mean: float | None = None
    """Mean staleness of the batch's tokens, optimizer steps."""
    lr: float | None = None
    """Learning rate."""


class Span(Record, frozen=True, kw_only=True):
    """What the trainer or the engine was doing between two times."""

    role: SpanRole
    """trainer or engine."""
    kind: SpanKind
    """step, wait, generate, paused_for_weights or idle_scheduled; scheduled idle is not stall."""
    from_: datetime = msgspec.field(name="from")
    """Start."""
    to: datetime
    """End."""
    adapter: str | None = None
    """The adapter it was for."""


class Eval(Record, frozen=True, kw_only=True):
    """One sample of one held-out task."""

    adapter: str | None = None
    """The evaluated adapter; None for the base model."""
    version: int
    """Its version."""
    suite: str
    """Name of the held-out suite."""
    task_id: str
    """The task."""
    sample: int
    """0-based sample of the task."""
    score: float | None = None
    """The verifier's score."""
    passed: bool | None = None
    """Whether it counts as solved."""


class Event(Record, frozen=True, kw_only=True):
    """Something that happened: declared by a client, or noticed by a part of the system."""

    at: datetime
    """When."""
    kind: str
    """compaction, subagent, retry, alert, acknowledge, silence, redacted, quarantined and so on."""
    severity: Severity = "info"
    """info, warn or fail."""
    session_id: str | None = None
    """The session it is about."""
    turn: int | None = None
    """The 1-based turn it is about."""
    adapter: str | None = None
    """The adapter it is about."""
    version: int | None = None
    """The version it is about."""
    actor: str | None = None
    """Who did it."""
    text: str | None = None
    """One line for a person."""
    detail: dict[str, object] | None = None
    """The rest, as JSON."""


class Run(Record, frozen=True, kw_only=True):
    """The setting that numbers were measured in."""

    at: datetime
    """When the run began."""
    hardware: str | None = None
    """Devices, in words."""
    precision: str | None = None
    """dtype of the forward pass and of the master weights."""
    batch: dict[str, object] | None = None
    """Batch composition."""
    versions: dict[str, str] | None = None
    """Engine and library versions."""
    logprob_mode: LogprobMode = "unknown"
    """What the engine's log-probabilities are of."""


class Adapter(Record, frozen=True, kw_only=True):
    """One LoRA line of one tenant."""

    adapter: str
    """Its name; the engine name of a version is `<adapter>@<version>`."""
    tenant: str
    """Its owner."""
    base_model: str
    """The frozen base model."""
    created_at: datetime
    """When it was registered."""


class Version(Record, frozen=True, kw_only=True):
    """One immutable checkpoint of an adapter. Version 0 is the base model."""

    adapter: str
    """The adapter."""
    version: int
    """Dense per adapter, from 0."""
    state: VersionState
    """candidate, canary, live, rejected or retired."""
    parent: int | None = None
    """The version it was trained from."""
    optimizer_step: int | None = None
    """Optimizer step it was saved at."""
    folder: str | None = None
    """Immutable folder inside the store; None for the base model."""
    sha256: str | None = None
    """Hash of the folder's manifest."""
    trained_on: list[tuple[str, int, int]] = []
    """(writer, first seq, last seq) ranges of the records it was trained on."""
    gate: dict[str, object] | None = None
    """The gate's report."""
    created_at: datetime
    """When it was registered."""
    changed_at: datetime
    """When its state last changed."""


class Route(Record, frozen=True, kw_only=True):
    """Where a tenant's new sessions go: one adapter version and its weight."""

    tenant: str
    """The tenant."""
    adapter: str | None = None
    """The adapter; None for the base model."""
    version: int = 0
    """Its version."""
    weight: float = 1.0
    """Share of new sessions, relative to the tenant's other routes."""


class Audit(Record, frozen=True, kw_only=True):
    """One change of the registry: who, when and why."""

    revision: int
    """The registry's revision after the change; dense, from 1."""
    at: datetime
    """When."""
    actor: str
    """Who or what made the change."""
    reason: str
    """Why, in words."""
    action: AuditAction
    """What was done."""
    tenant: str | None = None
    """The tenant it was done for."""
    adapter: str | None = None
    """The adapter it was done to."""
    version: int | None = None
    """The version it was done to."""
    detail: dict[str, object] | None = None
    """The rest, as JSON: what changed, from what, to what."""


TABLES: dict[str, type[Record]] = {
    "turns": Turn,
    "scores": Score,
    "rewards": Reward,
    "feedback": Feedback,
    "steps": Step,
    "spans": Span,
    "evals": Eval,
    "events": Event,
    "runs": Run,
}
"""The journalled tables, by name."""

REGISTRY_TABLES: dict[str, type[Record]] = {
    "adapters": Adapter,
    "versions": Version,
    "routes": Route,
    "audit": Audit,
}
"""The tables of the registry, by name."""
