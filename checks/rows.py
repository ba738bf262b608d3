"""One row of a log as a reader gives it: the records of the store, with everything optional that a log may lack.

Names, units and meanings are those of `collector.records`; a docstring below a field says what is different or new.
`None` is "not observed".
"""

from datetime import datetime

import msgspec


class VersionSpan(msgspec.Struct, frozen=True):
    """Which weights sampled completion tokens `start` to `end` (0-based, end exclusive)."""

    version: int | str
    start: int
    end: int


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """What every row is."""


class ScoreRow(Row, frozen=True, kw_only=True):
    """One scoring of a turn by the trainer, of a turn that was scored more than once."""

    adapter: str | None = None
    """The adapter being trained; None where that is the turn's own."""
    trainer_step: int | None = None
    trainer_version: int | None = None
    trainer_logprobs: list[float] | None = None
    sampling_version_logprobs: list[float] | None = None
    entropies: list[float] | None = None
    reference_logprobs: list[float] | None = None
    advantages: list[float] | None = None


class TurnRow(Row, frozen=True, kw_only=True):
    """One model call, with what the trainer made of it where the log has that too."""

    session_id: str
    """Unique in the whole log: a reader adds step, file or sample number where the framework's own id is not."""
    turn: int | None = None
    """Numbered by line within the session where the log has no number."""
    turn_id: str | None = None
    task_id: str | None = None
    group_id: str | None = None
    """Unique in the whole log too: most frameworks number their groups anew in each step."""
    tenant: str | None = None
    base_model: str | None = None
    adapter: str | None = None
    adapter_version: int | None = None
    api: str | None = None
    client: str | None = None
    purpose: str | None = None
    started_at: datetime | None = None
    first_token_at: datetime | None = None
    finished_at: datetime | None = None
    prompt_ids: list[int] | None = None
    """None where the log has text only; an empty list is an empty prompt."""
    completion_ids: list[int] | None = None
    sampled_logprobs: list[float] | None = None
    logprob_mode: str | None = None
    weight_versions: list[VersionSpan] | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None
    constraint: str | None = None
    max_tokens: int | None = None
    finish_reason: str | None = None
    """`stop | length | abort | client_gone | error`; a tool call is `stop`."""
    cached_tokens: int | None = None
    loss_mask: list[int] | None = None
    """Only what the source states; the length of the completion, or of prompt + completion."""
    stated_prompt_tokens: int | None = None
    """How many prompt tokens the source itself counts, beside the ids."""
    stated_completion_tokens: int | None = None
    """How many completion tokens the source itself counts, beside the ids."""
    routed_experts_tokens: int | None = None
    """For how many tokens the source holds expert routes."""
    complete: bool | None = None
    trainable: bool | None = None
    untrainable_reason: str | None = None
    request: dict[str, object] | None = None
    """`messages`, `tools`, `chat_template_kwargs`."""
    response: dict[str, object] | None = None
    prompt_text: str | None = None
    """The prompt as text, where the log has no messages."""
    completion_text: str | None = None
    """The completion as text, where the log has no ids."""
    reward: float | None = None
    """The session's; it may stand on any one of its turns."""
    parsed_ok: bool | None = None
    """Whether the source could parse the reply, where it says so."""
    place: str | None = None
    """Where in the log: `file:line`, or the file alone."""
    trainer_step: int | None = None
    """The optimizer step that trained on the turn, or for which it was sampled."""
    trainer_version: int | None = None
    trainer_logprobs: list[float] | None = None
    sampling_version_logprobs: list[float] | None = None
    entropies: list[float] | None = None
    reference_logprobs: list[float] | None = None
    advantages: list[float] | None = None
    more_scores: list[ScoreRow] | None = None
    """Scorings after the first, where the trainer met the turn more than once."""


class StepRow(Row, frozen=True, kw_only=True):
    """One optimizer step, or one line of a metric log."""

    step: int
    adapter: str | None = None
    at: datetime | None = None
    duration_s: float | None = None
    wait_s: float | None = None
    """Seconds of the step in which the trainer waited for rollouts."""
    engine_wait_s: float | None = None
    """Seconds of the step in which the engine waited for weights."""
    tokens: int | None = None
    computed_tokens: int | None = None
    model_flops: float | None = None
    peak_flops: float | None = None
    mfu: float | None = None
    loss: float | None = None
    grad_norm: float | None = None
    entropy: float | None = None
    reward_mean: float | None = None
    reward_eval: float | None = None
    """Mean held-out score, where the log has the mean only."""
    pass_at_1: float | None = None
    pass_at_k: float | None = None
    pass_k: int | None = None
    """The k of `pass_at_k`."""
    max_w: float | None = None
    """Only a raw maximum: a reader leaves out what was clipped first."""
    min_w: float | None = None
    mean_w: float | None = None
    mean_abs_dlogp: float | None = None
    max_abs_dlogp: float | None = None
    kl_mu_old: float | None = None
    kl_k3: float | None = None
    kl_update: float | None = None
    kl_base: float | None = None
    ess: float | None = None
    w_truncated_share: float | None = None
    clip_share: float | None = None
    staleness_mean: float | None = None
    staleness_max: float | None = None
    zero_variance_share: float | None = None
    truncated_share: float | None = None
    lr: float | None = None


class EvalRow(Row, frozen=True, kw_only=True):
    """One sample of one held-out task."""

    adapter: str | None = None
    version: int | None = None
    step: int | None = None
    """The optimizer step of the evaluated weights, where the log says that."""
    suite: str | None = None
    task_id: str | None = None
    sample: int | None = None
    score: float | None = None
    passed: bool | None = None


class SpanRow(Row, frozen=True, kw_only=True):
    """What the trainer or the engine was doing between two times."""

    role: str
    kind: str
    from_: datetime
    to: datetime
    adapter: str | None = None


class RewardRow(Row, frozen=True, kw_only=True):
    """A session's or a turn's reward, where it does not stand on a turn."""

    session_id: str
    turn_id: str | None = None
    value: float | None = None
    closed_at: datetime | None = None


class FeedbackRow(Row, frozen=True, kw_only=True):
    """One judgement of a turn or a session."""

    feedback_id: str
    turn_id: str | None = None
    session_id: str | None = None
    kind: str | None = None
    value: float | None = None
    at: datetime | None = None
    supersedes: str | None = None
    user_hash: str | None = None


class EventRow(Row, frozen=True, kw_only=True):
    """Something that was declared or noticed: `compaction`, `subagent`, `proof`, `probe` and so on."""

    kind: str
    at: datetime | None = None
    severity: str | None = None
    session_id: str | None = None
    turn: int | None = None
    adapter: str | None = None
    version: int | None = None
    text: str | None = None
    detail: dict[str, object] | None = None


class VersionRow(Row, frozen=True, kw_only=True):
    """One checkpoint of an adapter."""

    adapter: str
    version: int
    state: str | None = None
    parent: int | None = None
    optimizer_step: int | None = None
    created_at: datetime | None = None


class RunRow(Row, frozen=True, kw_only=True):
    """The setting that numbers were measured in."""

    at: datetime | None = None
    hardware: str | None = None
    precision: str | None = None
    logprob_mode: str | None = None
