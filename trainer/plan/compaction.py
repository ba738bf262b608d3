"""A harness that appends against one that compacts: positions, pairs and FLOPs of the rows a rollout becomes."""

from typing import NamedTuple

from trainer.plan.flops import causal_pairs, rows_forward_flops
from trainer.plan.quantity import require_count, require_whole


class RowsCost(NamedTuple):
    """What the rows of one rollout cost the trainer's forward pass."""

    row_tokens: tuple[int, ...]
    positions: int
    pairs: int
    flops: float


def appended_rows(*, prompt: int, turns: int, action: int, observation: int) -> tuple[int, ...]:
    """One row: everything is appended. Lecture 12, section 5, harness A."""
    require_count(prompt_tokens=prompt, turns=turns, action_tokens=action)
    require_whole(observation_tokens=observation)
    return (prompt + turns * (action + observation),)


def compacted_rows(
    *, prompt: int, turns: int, action: int, observation: int, every_turns: int, summary: int
) -> tuple[int, ...]:
    """One row per compaction: task, summary of what went before, and the turns until the next. Harness B."""
    require_count(prompt_tokens=prompt, turns=turns, action_tokens=action, every_turns=every_turns)
    require_whole(observation_tokens=observation, summary_tokens=summary)
    rows: list[int] = []
    for first in range(0, turns, every_turns):
        held = min(every_turns, turns - first)
        rows.append(prompt + (summary if first else 0) + held * (action + observation))
    return tuple(rows)


def rows_cost(row_tokens: tuple[int, ...], *, matmul_parameters: float, layers: int, attention_width: int) -> RowsCost:
    """Positions, pairs and forward FLOPs of the rows. Lecture 12, exercise 3."""
    return RowsCost(
        row_tokens=row_tokens,
        positions=sum(row_tokens),
        pairs=sum(causal_pairs(tokens) for tokens in row_tokens),
        flops=rows_forward_flops(
            row_tokens, matmul_parameters=matmul_parameters, layers=layers, attention_width=attention_width
        ),
    )
