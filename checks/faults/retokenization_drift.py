"""Completions that give other token ids once they have been text."""

from typing import Any

import polars as pl

from checks.finding import EVIDENCE_LIMIT, Evidence, Finding, Status, Threshold, grade

CHECK = "retokenization-drift"


def retokenization_drift(round_trip: pl.DataFrame, *, warn_at: float = 0.0, fail_at: float | None = None) -> Finding:
    """Completions that give other token ids once they have been text.

    Definition: share of turns whose completion_ids, decoded with special tokens and encoded again, are not the same
    ids. `drift`: the text is whole and is encoded otherwise. `invalid_utf8`: the ids hold half a character, which
    text cannot carry. A completion that the length limit ended within its last character is listed as `info` and not
    counted. With a tokenizer that gives the first word of a text a space (SentencePiece), one that changes alone is
    also encoded after the end of its prompt and after a newline, and counts only if it changes there too. Prompts
    are not checked: somebody else chose their ids.
    Units: share of turns, 0 to 1; token_index counts completion_ids.
    Reads: turns(session_id, turn, prompt_ids, completion_ids, finish_reason), and the tokenizer.
    Threshold: warn above 0: one turn that goes through text trains on ids that were never sampled. No failure by
    itself, provisional: a loop that keeps the ids is not hurt, and prefix-break fails where one did not.
    Check next: prefix-break with kind retokenized; whether the next turn is built from ids or from text; whether
    --tokenizer is the model's own.
    """
    row: dict[str, Any] = round_trip.row(0, named=True)  # Any: polars gives rows so
    turns, changed, cut = int(row["turns"]), int(row["changed"]), int(row["cut"])
    if not turns:
        return Finding.no_data(CHECK, "no turn holds the ids of its completion", missing=("turns.completion_ids",))
    share = changed / turns
    status: Status = grade(share, warn_at=warn_at, fail_at=fail_at)
    if status == "ok" and cut:
        status = "info"
    said = f"{changed} of {turns} completions give other ids after decode and encode"
    faults: list[dict[str, Any]] = sorted(row["faults"], key=lambda fault: (fault["cut"], fault["kind"] != "drift"))
    return Finding(
        check=CHECK,
        status=status,
        value=share,
        unit="share of turns",
        threshold=Threshold(warn=warn_at, fail=fail_at),
        summary=said + (f"; {cut} more were cut by length within a character" if cut else ""),
        check_next=(
            "prefix-break with kind retokenized",
            "whether the next turn is built from ids or from text",
            "whether --tokenizer is the model's own",
        )
        if changed
        else (),
        evidence=tuple(_evidence(fault) for fault in faults),
        evidence_omitted=max(0, changed + cut - EVIDENCE_LIMIT),
        metrics={"drift_turns": changed},
    )


# Any: one struct of the measure's frame.
def _evidence(fault: dict[str, Any]) -> Evidence:
    sides = [" ".join(repr(piece) for piece in fault[side]) or "nothing" for side in ("sampled", "encoded")]
    return Evidence(
        session_id=fault["session_id"],
        turn=fault["turn"],
        token_index=fault["token_index"],
        kind=fault["kind"],
        status="info" if fault["cut"] else None,
        text=f"sampled {sides[0]}, encoded again {sides[1]}" + ("; cut by length" if fault["cut"] else ""),
        detail={"sampled_id": fault["sampled_id"], "encoded_id": fault["encoded_id"]},
    )
