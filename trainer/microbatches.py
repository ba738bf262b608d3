"""Rows cut into microbatches by a budget of computed tokens, so that rows which share prefixes meet in one."""

from collections.abc import Sequence

from trainer.packing import shared_tokens, tree_order
from trainer.rows import TrainingRow


def microbatches(rows: Sequence[TrainingRow], *, budget_tokens: int) -> list[list[int]]:
    """Indices of the rows of each microbatch. One row longer than the budget is a microbatch of its own.

    Sorted by adapter and ids, a row costs what it has beyond the row before it, as in the packing.
    """
    made: list[list[int]] = []
    used = 0
    before: TrainingRow | None = None
    for index in tree_order(rows):
        row = rows[index]
        shared = shared_tokens(before, row)
        if not made or used + len(row.ids) - shared > budget_tokens:
            made.append([])
            used, shared = 0, 0
        made[-1].append(index)
        used += len(row.ids) - shared
        before = row
    return made
