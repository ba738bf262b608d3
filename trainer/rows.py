"""Training rows from captured turns: branches merged where the ids prove it, loss on sampled tokens, each once."""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

# Any: NumPy's own parameter for a shape.
Ids = np.ndarray[Any, np.dtype[np.int32]]
Logprobs = np.ndarray[Any, np.dtype[np.float32]]


class CapturedTurn(NamedTuple):
    """A turn as the store gives it, as far as rows need it."""

    turn_id: str
    session_id: str
    turn: int
    adapter: str | None
    adapter_version: int | None
    prompt_ids: Ids
    completion_ids: Ids
    sampled_logprobs: Logprobs
    temperature: float | None
    untrainable_reason: str | None
    """None where the turn may be trained on."""

    @property
    def tokens(self) -> int:
        """Prompt and completion."""
        return len(self.prompt_ids) + len(self.completion_ids)


class SampledRun(NamedTuple):
    """The completion of one turn inside a row: where loss is."""

    turn_id: str
    start: int
    """Position of its first token in the row's ids."""
    end: int
    """One past its last."""
    logprobs: Logprobs
    """log mu of its tokens."""
    temperature: float
    """What they were sampled at: pi is scored at the same."""
    adapter_version: int | None
    """The version that sampled them."""


class TrainingRow(NamedTuple):
    """A context the policy really saw, with every sampled run in it that no other row carries."""

    session_id: str
    adapter: str | None
    ids: Ids
    """Up to the end of the last run: what follows it changes no loss."""
    runs: tuple[SampledRun, ...]
    """In order of position; at least one."""

    @property
    def trained_tokens(self) -> int:
        """Tokens with loss."""
        return sum(run.end - run.start for run in self.runs)


class Rows(NamedTuple):
    """The rows of some sessions, and what became of every turn."""

    rows: tuple[TrainingRow, ...]
    trained_turns: int
    left_out: Mapping[str, int]
    """Reason to how many turns carry no loss for it."""


def training_rows(turns: Iterable[CapturedTurn]) -> Rows:
    """Rows of whole sessions. A turn that extends an earlier one lies in its row; a break begins a new row."""
    by_session: dict[str, list[CapturedTurn]] = {}
    for turn in turns:
        _refuse_unequal(turn)
        by_session.setdefault(turn.session_id, []).append(turn)
    rows: list[TrainingRow] = []
    left_out: Counter[str] = Counter()
    for session in by_session.values():
        rows += _rows_of_session(sorted(session, key=lambda turn: turn.turn))
        left_out.update(turn.untrainable_reason for turn in session if turn.untrainable_reason is not None)
    return Rows(tuple(rows), sum(len(row.runs) for row in rows), dict(left_out))


def parents(turns: Sequence[CapturedTurn]) -> list[int | None]:
    """For each turn of a session, in its order, the deepest earlier one whose ids are a prefix of its prompt.

    A turn that sampled nothing is nobody's parent, and an adapter's turn continues no other adapter's.
    """
    found: list[int | None] = []
    # By (-tokens, index): the first that fits is the deepest, and of equal ones the earliest.
    earlier: list[tuple[int, int]] = []
    for index, turn in enumerate(turns):
        short_enough = earlier[bisect_left(earlier, (-len(turn.prompt_ids), -1)) :]
        found.append(next((before for _, before in short_enough if _begins(turn.prompt_ids, turns[before])), None))
        if len(turn.completion_ids):
            insort(earlier, (-turn.tokens, index))
    return found


def _begins(prompt: Ids, before: CapturedTurn) -> bool:
    """Whether the prompt begins with all ids of an earlier turn, which is no longer than it is."""
    start, end = len(before.prompt_ids), before.tokens
    # The last id first: of many branches nearly all differ there.
    return (
        prompt[end - 1] == before.completion_ids[-1]
        and np.array_equal(prompt[start:end], before.completion_ids)
        and np.array_equal(prompt[:start], before.prompt_ids)
    )


def _rows_of_session(turns: list[CapturedTurn]) -> list[TrainingRow]:
    """One row per leaf of each adapter's tree, in the order of the leaves; an ancestor's run goes to the first."""
    rows: list[TrainingRow] = []
    for adapter in dict.fromkeys(turn.adapter for turn in turns):
        of_adapter = [turn for turn in turns if turn.adapter == adapter]
        parent = parents(of_adapter)
        carried: set[int] = set()
        for leaf in sorted(set(range(len(of_adapter))).difference(parent)):
            path = [index for index in _path(leaf, parent) if index not in carried]
            runs = [_run(of_adapter[index]) for index in path if of_adapter[index].untrainable_reason is None]
            carried.update(path)
            if runs:
                last = of_adapter[leaf]
                ids = np.concatenate([last.prompt_ids, last.completion_ids])[: runs[-1].end]
                rows.append(TrainingRow(last.session_id, adapter, ids, tuple(runs)))
    return rows


def _path(leaf: int, parent: Sequence[int | None]) -> list[int]:
    """From the root to the leaf."""
    path: list[int] = []
    here: int | None = leaf
    while here is not None:
        path.append(here)
        here = parent[here]
    return path[::-1]


def _run(turn: CapturedTurn) -> SampledRun:
    assert turn.temperature is not None, "a turn without a temperature is not trainable"
    start = len(turn.prompt_ids)
    return SampledRun(turn.turn_id, start, turn.tokens, turn.sampled_logprobs, turn.temperature, turn.adapter_version)


def _refuse_unequal(turn: CapturedTurn) -> None:
    if turn.untrainable_reason is None and len(turn.sampled_logprobs) != len(turn.completion_ids):
        raise ValueError(
            f"turn {turn.turn_id}: {len(turn.sampled_logprobs)} log-probabilities of {len(turn.completion_ids)} "
            "sampled tokens in a turn marked trainable, expected as many; run roundhouse verify"
        )
