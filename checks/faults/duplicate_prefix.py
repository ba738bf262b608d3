"""Prompts that repeat what other turns hold already: what prefix sharing would save."""

import polars as pl

from checks.finding import Finding, Threshold


def duplicate_prefix(prefixes: pl.DataFrame, *, info_at: float = 0.5) -> Finding:
    """Prompts that repeat what other turns hold already: what prefix sharing would save.

    Definition: 1 - nodes of the prefix tree / all tokens, over prompt + completion of every turn that has both. Turns
        of different adapters share nothing, since what one adapter computed cannot serve another; versions of an
        adapter do share, as rows of one training step would. A log without token ids is counted in characters of its
        texts, or of its messages (one line of JSON each), and says so.
    Units: share of tokens (or of characters), 0 to 1.
    Reads: turns(adapter, prompt_ids, completion_ids; else prompt_text, completion_text; else request, response).
    Threshold: info above 0.5, where sharing begins to pay (CMU 11-768, Fall 2026, lecture 12: 80 to 95 % is common in
        long-prompt GRPO). It is never a warning: nothing is wrong with the log.
    Check next: rows packed as a prefix tree in the trainer; turns.cached_tokens (does the engine's cache get it?);
        prefix-break, where the share of a log with long sessions is low.
    """
    if prefixes.is_empty() or not prefixes["tokens"].sum():
        return Finding.no_data(
            "duplicate-prefix",
            "no turn has prompt and completion, neither as token ids nor as text",
            missing=("turns.prompt_ids", "turns.completion_ids", "turns.prompt_text", "turns.request"),
        )
    tokens, tree = int(prefixes["tokens"].sum()), int(prefixes["tree_tokens"].sum())
    unit = prefixes["unit"][0]
    share = 1 - tree / tokens
    return Finding(
        check="duplicate-prefix",
        status="info" if share > info_at else "ok",
        value=share,
        unit=f"share of {unit}",
        threshold=Threshold(),
        summary=f"{tokens - tree} of {tokens} {unit} ({share:.1%}) repeat a prefix of another turn"
        + (f"; computed once each, that is {tokens / tree:.2f} times fewer" if tree < tokens else ""),
        check_next=(
            "rows packed as a prefix tree in the trainer",
            "turns.cached_tokens: does the engine's cache get it?",
            "prefix-break, where long sessions share little",
        ),
        breakdown=tuple(
            {
                "adapter": adapter,
                "turns": turns,
                unit: total,
                f"tree_{unit}": different,
                "share": 1 - different / total if total else None,
            }
            for adapter, turns, total, different in prefixes.select(
                "adapter", "turns", "tokens", "tree_tokens"
            ).iter_rows()
        ),
        metrics={"duplicate_prefix_share": share},
    )
