"""Why a captured turn carries no loss: one reason each, at the stage of the funnel where the turn left it."""

from typing import Literal, get_args

from collector.trainable import REASONS as CAPTURE_REASONS

Stage = Literal["exact", "rewarded", "eligible", "trained"]
STAGES: tuple[Stage, ...] = get_args(Stage)
"""In order: a turn of one stage has passed those before it."""

REASONS: dict[str, tuple[Stage, str]] = {
    "duplicate": ("exact", "its turn_id was captured before"),
    "purpose_eval": ("exact", "evaluation is never trained on"),
    "purpose_probe": ("exact", "probes are never trained on"),
    "other_adapter": ("exact", "another adapter of the tenant sampled it"),
    "ambiguous_adapter": ("exact", "the base model sampled it, and the tenant has several adapters"),
    "other_base_model": ("exact", "another base model than the adapter's sampled it"),
    "unknown_version": ("exact", "the registry does not know the version that sampled it, or its optimizer step"),
    "open_session": ("rewarded", "its session's feedback window has not closed"),
    "no_reward": ("rewarded", "no feedback that counts; missing is not zero"),
    "other_branch": ("rewarded", "its session's reward goes to other branches (session_reward_to)"),
    "before_since": ("eligible", "it began before the time that [trainer.batch] since gives"),
    "already_trained": ("eligible", "the version that training continues from, or one before it, was trained on it"),
    "off_lineage": ("eligible", "a version sampled it that training does not continue from"),
    "too_stale": ("eligible", "more optimizer steps than max_staleness since the version that sampled it"),
    "zero_variance": ("trained", "all rewards it is compared with are the same"),
    "zero_advantage": ("trained", "its reward is what it is compared with, but for rounding"),
    "no_baseline": ("trained", "there is no other reward to compare its own with yet"),
    "reward_not_finite": ("trained", "its reward or its advantage is beyond float32"),
    "too_few_sessions": ("trained", "fewer sessions than min_sessions: it waits for the next cycle"),
    **{name: ("exact", meaning) for name, meaning in CAPTURE_REASONS.items()},
}
"""Each reason's stage and meaning. A retried call's twin will be one more of the eligible stage, beside
`already_trained`, once records tell which turn a turn retries."""

EVENT = "event_"
"""Before the kind of an event that keeps a turn from being trained on."""


def stage_of(reason: str) -> Stage:
    """Where a turn leaves the funnel; what another source calls untrainable was no exact record."""
    return REASONS[reason][0] if reason in REASONS else "exact"


def meaning_of(reason: str) -> str:
    """The reason in words."""
    if reason.startswith(EVENT):
        return f"an event of kind {reason.removeprefix(EVENT)} keeps it out"
    return REASONS[reason][1] if reason in REASONS else "not trainable as captured"
