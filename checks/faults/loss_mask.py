"""Loss on tokens that were not sampled, and sampled tokens without loss."""

import polars as pl

from checks.finding import Evidence, Finding, Threshold, grade, kept, worst
from checks.measures.parts import part

_TEXT = {
    "prompt": "{n} prompt tokens carry loss that no earlier turn of the session sampled (tool results, user text)",
    "null": "{n} tokens carry loss, and the log holds no log-probability of them: they were not sampled",
    "zeros": "{n} tokens in a row carry loss with mu exactly 0.0, and the trainer finds them improbable: a placeholder",
    "completion": "{n} tokens have a log-probability of their own and carry no loss",
}


def loss_mask(
    masks: pl.DataFrame,
    *,
    not_sampled_fail_at: float = 0,
    masked_out_warn_at: float = 0,
    masked_out_fail_at: float = float("inf"),
) -> Finding:
    """Loss on tokens that were not sampled, and sampled tokens without loss.

    Definition: only masks that the log states are judged; they are as long as the completion or as prompt +
    completion. not_sampled: mask 1 on a prompt token that lies in no earlier completion of the session whose tokens
    the prompt repeats; on a completion token whose log-probability is null; or on a run of completion tokens with mu
    exactly 0.0 of which 4 and a third at least have a trainer's log-probability below -0.5 (placeholders). A single mu
    of exactly 0.0 under loss is normal: 1 to 25 % of sampled tokens have it. masked_out: mask 0 on a completion token
    whose log-probability is not a placeholder (0.0, 1.0 or null). A turn without any loss was left out on purpose and
    is counted only. One entry per turn and kind, at its first token: in prompt_ids when the text says prompt.
    Units: tokens.
    Reads: turns(prompt_ids, completion_ids, sampled_logprobs, loss_mask), scores(trainer_logprobs).
    Threshold: any token not sampled fails, since the loss then teaches what the policy never did; any token masked
    out warns (of 8 real Polar traces with 23,000 tokens none had one).
    Check next: how the trainer builds the mask: an assistant mask from text, tool results counted as the assistant's;
    length-mismatch.
    """
    counts = part(masks, "counts").row(0, named=True) if masks.height else {}
    if not counts.get("masked"):
        return Finding.no_data("loss-mask", "no turn states a loss mask", missing=("turns.loss_mask",))
    if counts["unfit"] == counts["masked"]:
        return Finding.no_data(
            "loss-mask",
            f"none of {counts['masked']} loss masks is as long as its completion, or as prompt + completion",
            missing=("turns.completion_ids",),
        )
    added, dropped = counts["not_sampled"], counts["masked_out"]
    evidence, omitted = kept(_faults(masks))
    return Finding(
        check="loss-mask",
        status=worst(
            [
                grade(added, warn_at=None, fail_at=not_sampled_fail_at),
                grade(dropped, warn_at=masked_out_warn_at, fail_at=masked_out_fail_at),
            ]
        ),
        value=added + dropped,
        unit="tokens",
        threshold=Threshold(warn=masked_out_warn_at, fail=not_sampled_fail_at),
        summary=_summary(counts),
        check_next=("how the trainer builds the mask: from text, or from what was sampled", "length-mismatch")
        if evidence
        else (),
        evidence=evidence,
        evidence_omitted=omitted + max(0, counts["turns"] - len(evidence) - omitted),
    )


def _faults(masks: pl.DataFrame) -> list[Evidence]:
    if "faults" not in masks.columns:
        return []
    rows = part(masks, "faults").sort(pl.col("kind") == "not_sampled", "tokens", descending=True, maintain_order=True)
    return [
        Evidence(
            session_id=row["session_id"],
            turn=row["turn"],
            token_index=row["token_index"],
            kind=row["kind"],
            status="fail" if row["kind"] == "not_sampled" else "warn",
            value=row["tokens"],
            text=_TEXT[row["where"]].format(n=row["tokens"]),
            detail={"in": "prompt_ids" if row["where"] == "prompt" else "completion_ids"},
        )
        for row in rows.iter_rows(named=True)
    ]


def _summary(counts: dict[str, int]) -> str:
    said = f"{counts['masked']} turns state a mask: {counts['not_sampled']} tokens with loss were not sampled,"
    said += f" {counts['masked_out']} sampled ones have none"
    if counts["left_out"]:
        said += f"; {counts['left_out']} turns have no loss at all"
    if counts["unfit"]:
        said += f"; {counts['unfit']} masks of another length (length-mismatch)"
    return said
