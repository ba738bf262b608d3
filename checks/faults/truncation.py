"""Turns that the length limit cut before the model stopped by itself."""

import polars as pl

from checks.finding import Evidence, Finding, Threshold, grade, kept


def truncation(turns: pl.DataFrame, *, warn_at: float = 0.05, fail_at: float = 0.25) -> Finding:
    """Turns that the length limit cut before the model stopped by itself.

    Definition: share of turns whose finish_reason is "length".
    Units: share of turns, 0 to 1.
    Reads: turns(session_id, turn, finish_reason, completion_tokens).
    Threshold: warn 0.05, provisional; fail 0.25, the alarm of the Miles dashboard.
    Check next: max_tokens; the context limit; reward-eval-gap (a cut answer earns nothing).
    """
    known = turns.drop_nulls("finish_reason")
    if known.is_empty():
        return Finding.no_data("truncation", "no turn says why it finished", missing=("turns.finish_reason",))
    cut = known.filter(pl.col("finish_reason") == "length")
    share = cut.height / known.height
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
        summary=f"{cut.height} of {known.height} turns were cut by the length limit",
        check_next=("max_tokens", "the context limit", "reward-eval-gap (a cut answer earns nothing)"),
        evidence=evidence,
        evidence_omitted=omitted,
        metrics={"truncated_share": share},
    )
