"""The trainer's schedule: microbatches under a token budget, the pipeline's bubble, the price of recomputing."""

import math

from trainer.plan.quantity import require_count, require_not_negative, require_positive


def microbatches(*, rows: int, row_tokens: int, budget_tokens: int) -> int:
    """Microbatches of equal rows under a token budget; a row is never cut. Lecture 12, section 3."""
    require_count(rows=rows, row_tokens=row_tokens, budget_tokens=budget_tokens)
    held = budget_tokens // row_tokens
    if not held:
        raise ValueError(f"a row has {row_tokens} tokens and a microbatch holds {budget_tokens}; raise the budget")
    return math.ceil(rows / held)


def packed_microbatches(row_tokens: list[int], *, budget_tokens: int) -> int:
    """Microbatches of unequal rows, longest first into the first that has room (first-fit decreasing)."""
    require_count(budget_tokens=budget_tokens)
    left: list[int] = []
    for tokens in sorted(row_tokens, reverse=True):
        if tokens > budget_tokens:
            raise ValueError(f"a row has {tokens} tokens and a microbatch holds {budget_tokens}; raise the budget")
        for at, room in enumerate(left):
            if tokens <= room:
                left[at] -= tokens
                break
        else:
            left.append(budget_tokens - tokens)
    return len(left)


def bubble_of_busy(*, stages: int, microbatches: int) -> float:
    """Idle over busy time of a stage, as Megatron-LM reports it. Lecture 12, section 3."""
    require_count(stages=stages, microbatches=microbatches)
    return (stages - 1) / microbatches


def bubble_of_wall(*, stages: int, microbatches: int) -> float:
    """Idle share of wall-clock time. Lecture 12, section 3."""
    require_count(stages=stages, microbatches=microbatches)
    return (stages - 1) / (stages - 1 + microbatches)


def recompute_overhead(*, recomputed_forward_share: float, backward_over_forward: float = 2.0) -> float:
    """Extra arithmetic of recomputing a share of the forward pass: 1/3 for all of it. Lecture 12, section 3."""
    require_not_negative(recomputed_forward_share=recomputed_forward_share)
    require_positive(backward_over_forward=backward_over_forward)
    return recomputed_forward_share / (1 + backward_over_forward)
