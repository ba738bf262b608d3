"""The rule of what may be trained on, reason by reason."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from collector.records import Turn, VersionSpan
from collector.store.turn_columns import PROMPT_LOST
from collector.trainable import REASONS, untrainable_reason

GOOD = Turn(
    turn_id="t", session_id="s", turn=1, tenant="dev", api="chat", started_at=datetime.now(UTC),
    prompt_ids=[1], completion_ids=[2, 3], sampled_logprobs=[-0.1, 0.0],
    weight_versions=[VersionSpan(version=1, start=0, end=1), VersionSpan(version="w2", start=1, end=2)],
    logprob_mode="scaled", temperature=0.7, top_p=1.0, top_k=-1, min_p=0.0, presence_penalty=0.0,
    frequency_penalty=0.0, repetition_penalty=1.0, finish_reason="length",
)  # fmt: skip


def span(start: int, end: int) -> VersionSpan:
    return VersionSpan(version=1, start=start, end=end)


CHANGES: list[tuple[str, dict[str, Any]]] = [
    ("redacted", {"untrainable_reason": "redacted", "completion_ids": []}),
    ("no_tokens", {"api": "import:codex", "completion_ids": []}),
    ("opted_out", {"untrainable_reason": "opted_out", "finish_reason": "error"}),
    ("error", {"finish_reason": "error", "complete": False, "completion_ids": []}),
    ("aborted", {"finish_reason": "abort", "complete": False}),
    ("client_gone", {"finish_reason": "client_gone", "complete": False}),
    ("incomplete", {"complete": False}),
    ("empty", {"completion_ids": [], "sampled_logprobs": [], "weight_versions": []}),
    ("length_mismatch", {"sampled_logprobs": [-0.1]}),
    ("length_mismatch", {"sampled_logprobs": [-0.1, -0.1, -0.1]}),
    ("spans", {"weight_versions": []}),
    ("spans", {"weight_versions": [span(0, 1)]}),
    ("spans", {"weight_versions": [span(0, 2), span(1, 2)]}),
    ("spans", {"weight_versions": [span(1, 2)]}),
    ("spans", {"weight_versions": [span(0, 3)]}),
    ("not_finite", {"sampled_logprobs": [-0.1, float("nan")]}),
    ("not_finite", {"sampled_logprobs": [-0.1, float("-inf")]}),
    ("not_finite", {"sampled_logprobs": [-0.1, 0.01]}),
    ("greedy", {"temperature": 0.0}),
    ("greedy", {"temperature": 1e-7}),
    ("greedy", {"temperature": None}),
    ("top_p", {"top_p": 0.95}),
    ("top_k", {"top_k": 50}),
    ("min_p", {"min_p": 0.01}),
    ("penalty", {"presence_penalty": 0.1}),
    ("penalty", {"frequency_penalty": -0.1}),
    ("penalty", {"repetition_penalty": 1.05}),
    ("logit_bias", {"logit_bias": {"5": 1.0}}),
    ("constraint", {"constraint": "min_new_tokens=3"}),
    ("logprob_mode", {"logprob_mode": "raw"}),
    ("logprob_mode", {"logprob_mode": "unknown"}),
    ("expert_routes", {"untrainable_reason": "expert_routes"}),
]


def test_a_whole_turn_sampled_from_mu_is_trainable() -> None:
    assert untrainable_reason(GOOD) is None
    off = msgspec.structs.replace(GOOD, top_k=0, logit_bias={})
    assert untrainable_reason(off) is None


@pytest.mark.parametrize(("reason", "change"), CHANGES)
def test_each_reason_is_given(reason: str, change: dict[str, Any]) -> None:
    assert untrainable_reason(msgspec.structs.replace(GOOD, **change)) == reason


def test_every_reason_is_shown_to_be_given() -> None:
    # A retry is told by other turns (test_attempts), a lost prompt by the store (store/test_turn_columns).
    assert {reason for reason, _ in CHANGES} | {"retried", PROMPT_LOST} == REASONS.keys()
