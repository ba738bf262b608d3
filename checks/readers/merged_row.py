"""A training row that merges several model calls, taken apart: one turn per sampled run of tokens."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from checks.rows import TurnRow


def sampled_runs(sampled: Sequence[bool | int]) -> list[tuple[int, int]]:
    """Start and end (exclusive) of each run of sampled tokens."""
    edges = np.diff(np.asarray(sampled, dtype=bool).astype(np.int8), prepend=0, append=0)
    starts, ends = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
    return list(zip(starts.tolist(), ends.tolist(), strict=True))


# Any: whatever other fields of TurnRow a reader sets, as they are.
def turns_or_whole(
    token_ids: Sequence[int],
    sampled: Sequence[bool | int],
    *,
    session_id: str,
    per_token: Mapping[str, Sequence[Any] | None],
    **fields: Any,
) -> Iterator[TurnRow]:
    """As `turns_of`; a row whose lists are of unequal length stays one turn with its lists as they are, for the checks.

    Its prompt is what comes before the first sampled token, and every list begins there.
    """
    lists = {"token_ids": token_ids, "sampled": sampled, **per_token}
    if len({len(values) for values in lists.values() if values is not None}) <= 1:
        yield from turns_of(token_ids, sampled, session_id=session_id, per_token=per_token, **fields)
        return
    start = next((start for start, _ in sampled_runs(sampled)), 0)
    cut = {name: None if values is None else list(values[start:]) for name, values in per_token.items()}
    yield TurnRow(
        session_id=session_id,
        turn=1,
        prompt_ids=list(token_ids[:start]),
        completion_ids=list(token_ids[start:]),
        **cut,
        **fields,
    )


def turns_of(
    token_ids: Sequence[int],
    sampled: Sequence[bool | int],
    *,
    session_id: str,
    per_token: Mapping[str, Sequence[Any] | None],
    **fields: Any,
) -> Iterator[TurnRow]:
    """One turn per sampled run: its prompt is every token before it, in the order the policy saw them.

    `per_token` are fields of TurnRow (`sampled_logprobs`, `loss_mask`, …), each as long as `token_ids`, cut to the run.
    Arrays of another length are the caller's to refuse: nothing is cut to fit here.
    """
    if len(sampled) != len(token_ids):
        raise ValueError(f"{len(sampled)} flags for {len(token_ids)} tokens, expected as many")
    for name, values in per_token.items():
        if values is not None and len(values) != len(token_ids):
            raise ValueError(f"{len(values)} {name} for {len(token_ids)} tokens, expected as many")
    for turn, (start, end) in enumerate(sampled_runs(sampled), start=1):
        cut = {name: None if values is None else list(values[start:end]) for name, values in per_token.items()}
        yield TurnRow(
            session_id=session_id,
            turn=turn,
            prompt_ids=list(token_ids[:start]),
            completion_ids=list(token_ids[start:end]),
            **cut,
            **fields,
        )
