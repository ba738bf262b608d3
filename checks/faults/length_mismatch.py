"""Token ids and what the log says about each token, of unequal length."""

import polars as pl

from checks.finding import Evidence, Finding, Number, Threshold, kept, worst
from checks.measures.parts import part

CERTAIN = -1e-4
"""The trainer finds a token certain above this,"""
DOUBTED = -0.01
"""and not at all certain below this."""


def length_mismatch(found: pl.DataFrame, *, last_zero_share: float = 0.9) -> Finding:
    """Token ids and what the log says about each token, of unequal length.

    Definition: the completion ids have as many entries as sampled_logprobs, trainer_logprobs,
    sampling_version_logprobs, entropies, reference_logprobs and advantages have; loss_mask has as many or as many as
    prompt + completion; expert routes cover the completion, prompt + completion, or all but the last of those; version
    spans cover every completion token once; the source's own token counts agree. Whatever does not is one
    length_mismatch, and no ratio is computed from it: cutting or padding would shift every value.
    token_not_sampled: the last token is a stop token with mu exactly 0.0 and loss on it, as when a framework appends
    the stop token itself. A model that is sure of its stop token logs 0.0 too, so the turn is named (warn) only when
    the trainer's own log-probability of that token is below -0.01, or is not there and at least 90 % of the turns that
    end with a stop token end like that; never when the trainer is sure too or the source's own count includes it, nor
    in a log rounded to four decimals. It fails where the source itself counts one completion token less. Stop tokens
    are those of --tokenizer, else the last token of a turn that finished with "stop"; where neither is known, the last
    token is named when the trainer finds it improbable (below -0.5).
    Units: faults.
    Reads: turns(prompt_ids, completion_ids, sampled_logprobs, loss_mask, weight_versions, routed_experts_tokens,
    stated_prompt_tokens, stated_completion_tokens, finish_reason), scores(trainer_logprobs, sampling_version_logprobs,
    entropies, reference_logprobs, advantages).
    Threshold: any mismatch fails: there is no harmless one. The share of 90 % is provisional: of 5 real rollouts and
    512 sequences with 3 to 25 % zeros in all, none ended with one.
    Check next: the code that joins ids and log-probabilities (an entry too many in front, a stop token appended, a
    prompt's last token counted in), then loss-mask.
    """
    counts = part(found, "counts").row(0, named=True) if found.height else {}
    if not counts.get("compared"):
        return Finding.no_data(
            "length-mismatch",
            "nothing stands beside the token ids to compare them with",
            missing=("turns.completion_ids", "turns.sampled_logprobs"),
        )
    not_sampled = _not_sampled(found, counts, last_zero_share)
    mismatches = [*_lists(found, {(each.session_id, each.turn) for each in not_sampled if each.status == "fail"})]
    mismatches += _spans(found)
    evidence, omitted = kept([*mismatches, *not_sampled])
    held = sum(part(found, name).height for name in ("faults", "spans") if name in found.columns)
    faults = len(evidence) + omitted + counts["faults"] + counts["spans"] - held
    return Finding(
        check="length-mismatch",
        status=worst([each.status or "fail" for each in evidence]),
        value=faults,
        unit="faults",
        threshold=Threshold(warn=0, fail=0),
        summary=_summary(mismatches, not_sampled, faults, counts),
        check_next=(
            "the code that joins ids and log-probabilities: an entry too many in front, a stop token appended",
            "loss-mask",
        )
        if evidence
        else (),
        evidence=evidence,
        evidence_omitted=faults - len(evidence),
    )


def _lists(found: pl.DataFrame, explained: set[tuple[str | None, int | None]]) -> list[Evidence]:
    """Lists and counts of another length; a count that a token not sampled explains is not told twice."""
    if "faults" not in found.columns:
        return []
    faults: list[Evidence] = []
    for row in part(found, "faults").iter_rows(named=True):
        column, tokens, values = row["column"], row["tokens"], row["found"]
        if column == "stated_completion_tokens" and (row["session_id"], row["turn"]) in explained:
            continue
        of = "prompt" if column == "stated_prompt_tokens" else "completion"
        name = "n_logprobs" if column.endswith("logprobs") else "n_values"
        text = f"{column} is {values}" if column.endswith("tokens") else f"{values} {column}"
        detail: dict[str, Number | str | None] = {"column": column, "n_tokens": tokens, name: values}
        faults.append(
            Evidence(
                session_id=row["session_id"],
                turn=row["turn"],
                kind="length_mismatch",
                status="fail",
                value=values - tokens,
                text=f"{text} for {tokens} {of} tokens",
                detail=detail,
            )
        )
    return faults


def _spans(found: pl.DataFrame) -> list[Evidence]:
    if "spans" not in found.columns:
        return []
    return [
        Evidence(
            session_id=row["session_id"],
            turn=row["turn"],
            token_index=_first_uncovered(**{name: row[name] for name in ("before", "start", "end", "tokens")}),
            kind="length_mismatch",
            status="fail",
            value=None if row["end"] is None else row["end"] - row["tokens"],
            text=f"weight_versions has a span {row['start']} to {row['end']} after one to {row['before']}, expected the"
            f" spans to cover {row['tokens']} completion tokens once",
            detail={"column": "weight_versions", "n_tokens": row["tokens"], "n_values": row["end"]},
        )
        for row in part(found, "spans").iter_rows(named=True)
    ]


def _first_uncovered(before: int | None, start: int | None, end: int | None, tokens: int) -> int | None:
    """The first token that no span or more than one covers."""
    if before is None or start is None:
        return None
    index = min(before, start) if before != start else end
    return None if index is None else min(max(index, 0), tokens)


def _not_sampled(found: pl.DataFrame, counts: dict[str, int], share: float) -> list[Evidence]:
    if "last" not in found.columns:
        return []
    last = part(found, "last")
    counted_less = (pl.col("stated") == pl.col("token_index")).fill_null(False)
    doubted = (pl.col("trainer") < DOUBTED).fill_null(False)
    sure = (pl.col("trainer") > CERTAIN).fill_null(False)
    telling = counts["stopped"] > 0 and counts["last"] >= share * counts["stopped"]
    agreed = (pl.col("stated") == pl.col("token_index") + 1).fill_null(False)
    told = doubted | (pl.col("stop") & pl.lit(telling) & ~sure & ~agreed)
    named = pl.col("zero") & pl.lit(not counts["rounded"]) & told
    rows = last.with_columns(failed=counted_less).filter(counted_less | named).sort("failed", descending=True)
    return [
        Evidence(
            session_id=row["session_id"],
            turn=row["turn"],
            token_index=row["token_index"],
            kind="token_not_sampled",
            status="fail" if row["failed"] else "warn",
            value=row["trainer"],
            text=_reason(row["failed"], row["stated"], row["token_index"] + 1, of_stop=row["stop"]),
            detail={"token_id": row["token_id"], "n_tokens": row["token_index"] + 1, "n_stated": row["stated"]},
        )
        for row in rows.iter_rows(named=True)
    ]


def _reason(failed: bool, stated: int | None, tokens: int, *, of_stop: bool) -> str:
    if failed:
        return f"the source counts {stated} completion tokens, the log has {tokens}: the last one was not sampled"
    what = (
        "is a stop token with mu exactly 0.0" if of_stop else "has mu exactly 0.0, which the trainer finds improbable,"
    )
    return f"the last token {what} and loss on it: it may not have been sampled"


def _summary(mismatches: list[Evidence], not_sampled: list[Evidence], faults: int, counts: dict[str, int]) -> str:
    if not faults:
        zeros = f"; {counts['last']} of {counts['stopped']} stop tokens have mu exactly 0" if counts["last"] else ""
        return f"{counts['compared']} lists and counts are as long as the token ids{zeros}"
    columns = list(dict.fromkeys(str(each.detail["column"]) for each in mismatches))
    said = f"{len(mismatches)} of another length ({', '.join(columns)})" if mismatches else ""
    last = f"{len(not_sampled)} turns end with a token that was not sampled" if not_sampled else ""
    return "; ".join(part for part in (said, last) if part)
