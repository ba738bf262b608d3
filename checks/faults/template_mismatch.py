"""Prompts that are not what the chat template makes of their requests."""

from typing import Any

import polars as pl

from checks.finding import EVIDENCE_LIMIT, Evidence, Finding, Threshold, grade

CHECK = "template-mismatch"


def template_mismatch(template_prompts: pl.DataFrame, *, warn_at: float = 0.0, fail_at: float = 0.0) -> Finding:
    """Prompts that are not what the chat template makes of their requests.

    Definition: prompts that differ from the template's rendering of `request` (messages, tools,
    chat_template_kwargs), generation prompt included, encoded without further special tokens. A prompt that begins
    with an earlier turn's prompt and completion is compared in what follows these, since what was sampled is rightly
    kept where a rendering would drop or spell it anew; so a fault counts in the turn that brings it in.
    `separator_missing`: white space or special tokens are left out; `duplicate_bos`: the prompt begins with BOS
    twice, which needs no request; `other`: the rest. A prompt that differs only in a date that the template writes
    is not a fault: it is counted in the summary, as are prompts that cannot be compared because turns before them
    are missing.
    Units: prompts; token_index counts prompt_ids.
    Reads: turns(session_id, turn, prompt_ids, completion_ids, request, response, started_at), the tokenizer and the
    template beside it.
    Threshold: fail above 0: the model never saw such a prompt in training, and the engine's chat route, a
    text-level evaluation and the trainer then disagree about every later token (Miles: a KL of about 0.8 nats at
    step 0 means the wrong template).
    Check next: the code that appends tool results and user messages; whether BOS is added by template and tokenizer
    both; whether --tokenizer holds the template that was served, and chat_template_kwargs all variables it was given.
    """
    row: dict[str, Any] = template_prompts.row(0, named=True)  # Any: polars gives rows so
    compared = row["same"] + row["differs"] + row["dated"]
    if not compared and not (row["has_bos"] and row["prompts"]):
        return _no_data(row)
    found = int(row["faults_found"])
    said = f"{found} faults in {compared} prompts compared with the template"
    if not compared:
        said = f"{found} of {row['prompts']} prompts begin with BOS twice; {_no_data(row).summary}"
    notes = {
        "differ only in the date that the template writes": row["dated"],
        "cannot be told apart from what was sampled in turns that are not in the log": row["unknown"],
        "cannot be rendered": row["not_rendered"],
        "have a request that is not of chat form": row["not_read"],
        "have a request with more than text in it": row["not_text"],
    }
    return Finding(
        check=CHECK,
        status=grade(found, warn_at=warn_at, fail_at=fail_at),
        value=found,
        unit="prompts",
        threshold=Threshold(warn=warn_at, fail=fail_at),
        summary="; ".join([said, *(f"{count} {note}" for note, count in notes.items() if count)]),
        check_next=(
            "the code that appends tool results and user messages",
            "whether BOS is added by the template and the tokenizer both",
            "whether --tokenizer holds the template that was served",
        )
        if found
        else (),
        evidence=tuple(_evidence(fault) for fault in row["faults"]),
        evidence_omitted=max(0, found - EVIDENCE_LIMIT),
    )


# Any: the measure's row.
def _no_data(row: dict[str, Any]) -> Finding:
    if not row["prompts"]:
        return Finding.no_data(CHECK, "no turn holds the ids of its prompt", missing=("turns.prompt_ids",))
    if not row["has_template"]:
        said = "the folder of --tokenizer has no chat template"
        return Finding.no_data(CHECK, said, missing=("chat_template.jinja in --tokenizer",))
    if not row["requests"]:
        return Finding.no_data(CHECK, "no turn holds its request", missing=("turns.request",))
    return Finding.no_data(CHECK, "no request could be compared with its prompt", missing=("turns.request",))


# Any: one struct of the measure's frame.
def _evidence(fault: dict[str, Any]) -> Evidence:
    names = ("template_id", "logged_id", "tokens_missing")
    said = f"template {fault['template_text']!r}, logged {fault['logged_text']!r}"
    return Evidence(
        session_id=fault["session_id"],
        turn=fault["turn"],
        token_index=fault["token_index"],
        kind=fault["kind"],
        text=said,
        detail={name: fault[name] for name in names},
    )
