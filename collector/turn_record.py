"""The record of a turn, built from what was asked, what was sampled and how it ended."""

import logging
import re
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from collector.attempts import Twins
from collector.caller import Caller
from collector.conversation import Call
from collector.engine.wire import GREEDY_BELOW, Delta, Finish, Span
from collector.errors import StoreError
from collector.ports import Target
from collector.privacy.withheld import Withheld
from collector.records import FinishReason, Link, LogprobMode, Purpose, Turn, VersionSpan
from collector.store.codec import unstorable_fields
from collector.trainable import untrainable_reason

_log = logging.getLogger(__name__)

# A whole number as Python writes it, and no longer than the largest of 64 bits.
_NUMBER = re.compile(r"0|-?[1-9][0-9]{0,18}")


class Plan(NamedTuple):
    """A turn as it is dispatched."""

    turn_id: str
    session_id: str
    turn: int
    call: Call
    caller: Caller
    target: Target
    base_model: str
    started_at: datetime
    prompt_ids: list[int]
    max_tokens: int
    parent_turn_id: str | None
    link: Link
    break_kind: str | None
    logprob_mode: LogprobMode
    twins: Twins | None = None
    """The attempts at the same request; None for one that cannot be told from another sample."""
    withheld: Withheld | None = None
    """Why the turn is kept out of training whatever it is like."""
    canary: bool = False
    """Whether its weights were on trial at dispatch."""

    @property
    def purpose(self) -> Purpose:
        """What the client says; ordinary traffic that a canary serves is the canary's."""
        return "canary" if self.canary and self.caller.purpose == "traffic" else self.caller.purpose


class Sampled:
    """What the engine has sampled so far."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.logprobs: list[float] = []
        self.spans: list[Span] = []
        self.cached_tokens: int | None = None
        self.finish: Finish | None = None
        self.routed_experts: bytes | None = None
        self.first_token_at: datetime | None = None
        self.last_token_at: datetime | None = None

    def add(self, delta: Delta) -> None:
        """Takes in one delta."""
        if delta.token_ids:
            self.last_token_at = datetime.now(UTC)
            self.first_token_at = self.first_token_at or self.last_token_at
        self.ids += delta.token_ids
        self.logprobs += delta.logprobs
        if delta.cached_tokens is not None:
            self.cached_tokens = delta.cached_tokens
        if delta.finish is not None:
            self.finish, self.spans = delta.finish, delta.spans
            self.routed_experts = delta.routed_experts

    def version_spans(self) -> list[VersionSpan]:
        """The spans in the store's terms."""
        return [VersionSpan(version=_version(span.version), start=span.start, end=span.end) for span in self.spans]


def _version(label: str) -> int | str:
    """The label as a number where the number is written just like it; any other label stays as it is."""
    if not _NUMBER.fullmatch(label) or not -(2**63) <= int(label) < 2**63:
        return label
    return int(label)


def turn_record(
    plan: Plan,
    sampled: Sampled,
    *,
    finish_reason: FinishReason,
    complete: bool,
    response: dict[str, Any] | None,
    routes: str | None = None,
    routes_fault: str | None = None,
) -> Turn:
    """The record; whether it is trainable follows from the rest, and from the routes, which lie elsewhere."""
    sampling = plan.call.sampling
    turn = Turn(
        turn_id=plan.turn_id,
        session_id=plan.session_id,
        turn=plan.turn,
        parent_turn_id=plan.parent_turn_id,
        link=plan.link,
        break_kind=plan.break_kind,
        task_id=plan.caller.task_id,
        group_id=plan.caller.group_id,
        tenant=plan.caller.tenant,
        base_model=plan.base_model,
        adapter=plan.target.adapter,
        adapter_version=plan.target.version,
        api=plan.call.api,
        client=plan.caller.client,
        purpose=plan.purpose,
        started_at=plan.started_at,
        first_token_at=sampled.first_token_at,
        finished_at=sampled.last_token_at if complete else datetime.now(UTC),
        prompt_ids=plan.prompt_ids,
        completion_ids=sampled.ids,
        sampled_logprobs=sampled.logprobs,
        logprob_mode=_logprob_mode(plan),
        weight_versions=sampled.version_spans(),
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        top_k=sampling.top_k,
        min_p=sampling.min_p,
        presence_penalty=sampling.presence_penalty,
        frequency_penalty=sampling.frequency_penalty,
        repetition_penalty=sampling.repetition_penalty,
        logit_bias=sampling.logit_bias,
        constraint=f"min_new_tokens={sampling.min_new_tokens}" if sampling.min_new_tokens else None,
        max_tokens=plan.max_tokens,
        seed=sampling.seed,
        finish_reason=finish_reason,
        cached_tokens=sampled.cached_tokens,
        complete=complete,
        request=plan.call.chat,
        response=response,
        routed_experts=routes,
        untrainable_reason=plan.withheld or (None if routes_fault is None else "expert_routes"),
    )
    reason = untrainable_reason(turn)
    if reason is None and plan.twins is not None and not plan.twins.claim(plan.turn_id):
        reason = "retried"
    return msgspec.structs.replace(turn, trainable=reason is None, untrainable_reason=reason)


def _logprob_mode(plan: Plan) -> LogprobMode:
    """What the engine reports for this way of sampling, where it divides by the temperature at all."""
    sampling = plan.call.sampling
    if plan.logprob_mode != "scaled":
        return plan.logprob_mode
    if sampling.temperature < GREEDY_BELOW:
        return "raw"
    # SGLang divides such a row's logits only if some row of its batch is not greedy (`srt/layers/sampler.py`).
    return "unknown" if sampling.top_k == 1 and sampling.temperature != 1.0 else "scaled"


def storable(turn: Turn, refused: StoreError) -> Turn | None:
    """The turn without the values that the store refused, and so not to be trained on; None when nothing helps."""
    without = unstorable_fields(turn)
    if not without:
        return None
    _log.error("turn %s is recorded without %s: %s", turn.turn_id, ", ".join(without), refused)
    message = f"not as it was: {', '.join(without)} could not be stored ({refused})"
    said = {} if "response" in without else turn.response or {}
    response = {**said, "error": {"status": 500, "message": message}}
    rest = msgspec.structs.replace(turn, **{**without, "response": response}, finish_reason="error", complete=False)
    return msgspec.structs.replace(rest, trainable=False, untrainable_reason=untrainable_reason(rest))
