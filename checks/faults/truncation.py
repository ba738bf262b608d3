"""Turns that the length limit cut before the model stopped by itself."""

from typing import get_args

import polars as pl

from checks.finding import Evidence, Finding, Threshold, grade, kept
from collector.records import FinishReason

_REASONS: tuple[str, ...] = get_args(FinishReason)
_NEXT = ("max_tokens", "the context limit", "reward-eval-gap (a cut answer earns nothing)")


def truncation(turns: pl.DataFrame, steps: pl.DataFrame, *, warn_at: float = 0.05, fail_at: float = 0.25) -> Finding:
    """Turns that the length limit cut before the model stopped by itself.

    Definition: share of turns whose finish_reason is "length", of those that give one of the reasons of a native log
    (stop, length, abort, client_gone, error); other words are counted and not judged. Without turns that give one, the
    mean of the share that a trainer logged per step.
    Units: share of turns, 0 to 1.
    Reads: turns(session_id, turn, finish_reason, completion_tokens), else steps(truncated_share).
    Threshold: warn 0.05, provisional; fail 0.25, the alarm of the Miles dashboard.
    Check next: max_tokens; the context limit; reward-eval-gap (a cut answer earns nothing).
    """
    known = turns.filter(pl.col("finish_reason").is_in(_REASONS))
    other = turns["finish_reason"].count() - known.height
    strange = f"; {other} give a reason that is none of {', '.join(_REASONS)}" if other else ""
    logged = steps["truncated_share"].drop_nulls()
    if known.is_empty() and logged.is_empty():
        said = f"no turn says why it finished{strange}"
        return Finding.no_data("truncation", said, missing=("turns.finish_reason", "steps.truncated_share"))
    cut = known.filter(pl.col("finish_reason") == "length")
    if known.is_empty():
        share = float(logged.mean())  # pyright: ignore[reportArgumentType]
        summary = f"as the trainer logged it: {share:.1%} of the turns of {len(logged)} steps, in the mean{strange}"
    else:
        share = cut.height / known.height
        summary = f"{cut.height} of {known.height} turns were cut by the length limit{strange}"
    evidence, omitted = kept(
        [
            Evidence(session_id=session, turn=turn, value=tokens, text="cut by the length limit")
            for session, turn, tokens in cut.select("session_id", "turn", "completion_tokens").iter_rows()
        ]
    )
    return Finding(
        check="truncation",
        status=grade(share, warn_at=warn_at, fail_at=fail_at),
        value=share,
        unit="share of turns",
        threshold=Threshold(warn=warn_at, fail=fail_at),
        summary=summary,
        check_next=_NEXT,
        evidence=evidence,
        evidence_omitted=omitted,
        metrics={"truncated_share": share},
    )
