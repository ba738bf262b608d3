"""Rows packed as a prefix tree: every token that rows of one adapter share is there once.

The rows are sorted, so that each adds to the packing what it has beyond the row before it (a `Branch`), and what it
shares lies on the path before it. Positions and context of a token are those of its row alone.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from trainer.rows import Ids, TrainingRow


class Branch(NamedTuple):
    """The new tokens of one row, `start` to `end` of the packing, after its shared tokens."""

    start: int
    end: int
    context: Tensor | None
    """Packed indices of the row's tokens before `start`, in order; None where there are none."""

    @property
    def tokens(self) -> int:
        """Tokens computed for this branch."""
        return self.end - self.start

    @property
    def past(self) -> int:
        """Tokens of the row before them."""
        return 0 if self.context is None else len(self.context)


class AdapterSlice(NamedTuple):
    """Which tokens of the packing one adapter applies to."""

    adapter: str | None
    start: int
    end: int


class Packed(NamedTuple):
    """A microbatch. Shapes: T packed tokens, N trained tokens (in the order of the rows given and their runs)."""

    ids_T: Tensor
    positions_T: Tensor
    branches: tuple[Branch, ...]
    slices: tuple[AdapterSlice, ...]
    """The packing cut by adapter, in order, without a gap."""
    predicting_N: Tensor
    """Packed index of the token before each trained one: where its logits are."""
    targets_N: Tensor
    """Token id of each trained one."""
    temperatures_N: Tensor
    """float64: the temperature each was sampled at."""
    sampled_logprobs_N: Tensor
    """float32: log mu of each."""
    turns_N: Tensor
    """Which sampled run each belongs to, numbered through the microbatch."""
    rows_N: Tensor
    """Which of the rows given each belongs to."""

    def to(self, device: torch.device) -> "Packed":
        """The same microbatch there, less the contexts of its branches."""
        moved = {name: value.to(device) for name, value in self._asdict().items() if isinstance(value, Tensor)}
        return self._replace(**moved)

    @property
    def unshared_tokens(self) -> int:
        """What the rows would take without sharing."""
        return sum(branch.past + branch.tokens for branch in self.branches)


def pack(rows: Sequence[TrainingRow]) -> Packed:
    """Packs rows of any adapters; an adapter's tokens lie together."""
    if not rows:
        raise ValueError("no rows to pack, expected at least one")
    path = np.empty(0, dtype=np.int64)
    before: TrainingRow | None = None
    paths: dict[int, np.ndarray] = {}  # pyright: ignore[reportMissingTypeArgument]
    branches: list[Branch] = []
    pieces: list[Ids] = []
    slices: list[AdapterSlice] = []
    end = 0
    for index in tree_order(rows):
        row = rows[index]
        shared = shared_tokens(before, row)
        start, end = end, end + len(row.ids) - shared
        context = torch.from_numpy(path[:shared].copy()) if shared else None
        branches.append(Branch(start, end, context))
        pieces.append(row.ids[shared:])
        path = paths[index] = np.concatenate([path[:shared], np.arange(start, end)])
        _extend_slices(slices, row.adapter, start, end)
        before = row
    positions = np.concatenate([np.arange(branch.past, branch.past + branch.tokens) for branch in branches])
    ids = torch.from_numpy(np.concatenate(pieces).astype(np.int64))
    # A row that is wholly shared adds no token, only the places of its losses.
    kept = tuple(branch for branch in branches if branch.tokens)
    return Packed(ids, torch.from_numpy(positions), kept, tuple(slices), *_trained(rows, paths))


def tree_order(rows: Sequence[TrainingRow]) -> list[int]:
    """Indices of the rows in the order of the packing: by adapter, then by ids, so that what is shared is adjacent."""
    return sorted(
        range(len(rows)), key=lambda index: (rows[index].adapter or "", rows[index].ids.astype(">i4").tobytes())
    )


def shared_tokens(before: TrainingRow | None, row: TrainingRow) -> int:
    """How many tokens a row begins with that the row before it in the order has too."""
    if before is None or before.adapter != row.adapter:
        return 0
    shorter = min(len(before.ids), len(row.ids))
    differs = np.flatnonzero(before.ids[:shorter] != row.ids[:shorter])
    return int(differs[0]) if len(differs) else shorter


def _extend_slices(slices: list[AdapterSlice], adapter: str | None, start: int, end: int) -> None:
    if slices and slices[-1].adapter == adapter:
        slices[-1] = slices[-1]._replace(end=end)
    elif end > start:
        slices.append(AdapterSlice(adapter, start, end))


def _trained(
    rows: Sequence[TrainingRow],
    paths: dict[int, np.ndarray],  # pyright: ignore[reportMissingTypeArgument]
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The trained tokens: predicting index, target, temperature, log mu, run and row of each."""
    columns: list[list[np.ndarray]] = [[] for _ in range(6)]  # pyright: ignore[reportMissingTypeArgument]
    runs = 0
    for index, row in enumerate(rows):
        for run in row.runs:
            if run.start == 0:
                raise ValueError(f"turn {run.turn_id} was sampled after an empty prompt, expected at least one token")
            tokens = run.end - run.start
            for column, values in zip(
                columns,
                (
                    paths[index][run.start - 1 : run.end - 1],
                    row.ids[run.start : run.end].astype(np.int64),
                    np.full(tokens, run.temperature, dtype=np.float64),
                    run.logprobs.astype(np.float32),
                    np.full(tokens, runs),
                    np.full(tokens, index),
                ),
                strict=True,
            ):
                column.append(values)
            runs += 1
    made = [torch.from_numpy(np.concatenate(column)) for column in columns]
    return made[0], made[1], made[2], made[3], made[4], made[5]
