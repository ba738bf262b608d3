"""Turns that go on from an earlier turn without beginning with its exact tokens."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from checks.finding import Evidence, Finding, Status, Threshold, grade, kept, worst

_CHECK_NEXT = (
    "the evidence's kind: reasoning_stripped and empty_think_block are the chat template's, tool_call_reserialized and "
    "retokenized come from sending text back instead of ids",
    "template-mismatch and retokenization-drift with --tokenizer",
    "a compaction or subagent event for what the agent does on purpose",
)
_DETAIL = (
    "previous_id",
    "current_id",
    "previous_tokens_lost",
    "inside_previous",
    "index_in_previous_part",
    "previous_text_near",
    "current_text_near",
)


def prefix_break(
    breaks: pl.DataFrame, events: pl.DataFrame, turns: pl.DataFrame, *, warn_at: float = 0, fail_at: float = 0
) -> Finding:
    """Turns that go on from an earlier turn without beginning with its exact tokens.

    Definition: a turn's parent is the deepest earlier turn of its session whose prompt and completion begin its prompt.
        A turn that extends none, yet continues one, is a break of that one; so is a turn that extends an earlier turn
        and holds the rewritten reply of a later one. A declared event decides: subagent is a new root, compaction
        is a break that was meant. Otherwise messages do, where they are logged; otherwise ids: of the turns that none
        extends so far it continues the one most of whose prompt's 6-grams reappear, if they are at least half of them,
        and else the line in which its prompt begins with a whole earlier prompt.
        The same prompt again, a prompt that ends before it differs, and what a failed turn said are no breaks.
    Units: breaks that were not declared; token_index is the length of the common prefix.
    Reads: turns(session_id, turn, prompt_ids, completion_ids, complete, request, response), events(kind, session_id,
        turn). The kind needs the model's tokenizer, or messages; turn and index do not.
    Threshold: warn 0, fail 0: a break makes the trainer score tokens in a context that the policy never saw, or train
        two rows where the rollout was one (the token-in-token-out rule of Miles and prime-rl).
    Check next: the evidence's kind; template-mismatch; retokenization-drift; declared events.
    """
    declared = _declared(events)
    compactions = [place for place, kind in declared.items() if kind == "compaction"]
    seen = turns.filter(pl.col("prompt_tokens").is_not_null() & pl.col("completion_tokens").is_not_null())
    nearest = {(row["session_id"], row["turn"]): row for row in _rows(breaks, "nearest")}
    meant = [
        _evidence(nearest[place], kind="compaction", status="info")
        if place in nearest
        else Evidence(session_id=place[0], turn=place[1], kind="compaction", status="info", text="declared")
        for place in compactions
    ]
    if seen.is_empty():
        missing = ("turns.prompt_ids", "turns.completion_ids")
        evidence, omitted = kept(meant)
        return Finding(
            check="prefix-break",
            status="no_data",
            summary="no turn is logged with its token ids",
            evidence=evidence,
            evidence_omitted=omitted,
            missing=missing,
        )
    found = [row for row in _rows(breaks, "previous") if (row["session_id"], row["turn"]) not in declared]
    faults = [_evidence(row, kind=row["kind"] or "other") for row in found]
    evidence, omitted = kept([*faults, *meant])
    graded = grade(len(faults), warn_at=warn_at, fail_at=fail_at)
    return Finding(
        check="prefix-break",
        status=worst([graded, "info"]) if meant else graded,
        value=len(faults),
        unit="breaks",
        threshold=Threshold(warn=warn_at, fail=fail_at),
        summary=_summary(faults, len(meant), seen.height),
        check_next=_CHECK_NEXT if faults else (),
        evidence=evidence,
        evidence_omitted=omitted,
        metrics={"prefix_breaks": len(faults)},
    )


def _declared(events: pl.DataFrame) -> dict[tuple[str | None, int | None], str]:
    """Session and turn to the event declared of it, the last one where there are several."""
    wanted = events.filter(pl.col("kind").is_in(["compaction", "subagent"]))
    return {(session, turn): kind for session, turn, kind in wanted.select("session_id", "turn", "kind").iter_rows()}


# Any: rows of a frame.
def _rows(breaks: pl.DataFrame, relation: str) -> Iterator[dict[str, Any]]:
    return breaks.filter(pl.col("relation") == relation).iter_rows(named=True)


def _evidence(row: Mapping[str, Any], *, kind: str, status: Status | None = None) -> Evidence:
    return Evidence(
        session_id=row["session_id"],
        turn=row["turn"],
        previous_turn=row["previous_turn"],
        token_index=row["token_index"],
        kind=kind,
        status=status,
        detail={name: row[name] for name in _DETAIL if row[name] is not None},
    )


def _summary(faults: list[Evidence], declared: int, turns: int) -> str:
    told = f"; {declared} declared compactions" if declared else ""
    if not faults:
        return f"every one of {turns} turns extends the turn it continues{told}"
    kinds = ", ".join(f"{count} {kind}" for kind, count in Counter(each.kind for each in faults).most_common())
    return f"{len(faults)} of {turns} turns do not begin with the tokens of the turn they continue: {kinds}{told}"
