"""The workload of a captured store: real lengths, real waits, and what its real prefix tree shares."""

import random
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from collector.store.reader import Reader
from collector.store.snapshot import Snapshot
from trainer.plan.flops import causal_pairs
from trainer.plan.prefix_sharing import PrefixTree, Sharing
from trainer.plan.quantity import require_count, require_not_negative
from trainer.plan.workload import Rollout, TurnLengths, Workload

TRAINED_PURPOSES = ("traffic", "canary")
_COLUMNS = (
    "session_id",
    "adapter",
    "adapter_version",
    "purpose",
    "started_at",
    "finished_at",
    "prompt_ids",
    "completion_ids",
)


class _Turn(NamedTuple):
    session_id: str
    adapter: str | None
    adapter_version: int | None
    started_at: datetime
    finished_at: datetime | None
    prompt: NDArray[np.int32]
    completion: NDArray[np.int32]


class _Session:
    """One agent run as it is read: its turns' lengths and the rows they make."""

    def __init__(self) -> None:
        self.tree = PrefixTree()
        self.turns: list[TurnLengths] = []
        self.waits_s: list[float] = []
        self._finished_at: datetime | None = None

    def add(self, turn: _Turn) -> None:
        """Takes the next turn in."""
        if self._finished_at is not None:
            self.waits_s.append(max(0.0, (turn.started_at - self._finished_at).total_seconds()))
        self._finished_at = turn.finished_at
        held = self.tree.shared_tokens(turn.prompt)
        self.tree.add(np.concatenate((turn.prompt, turn.completion)))
        self.turns.append(TurnLengths(turn.prompt.size, turn.prompt.size - held, turn.completion.size))

    def rollout(self) -> Rollout:
        """The session's lengths."""
        return Rollout(turns=tuple(self.turns), row_tokens=tuple(self.tree.leaves()))


class _Totals(NamedTuple):
    """What a whole store holds."""

    sessions: list[_Session]
    computed_prefill_tokens: int
    tree_tokens: int
    tree_pairs: int
    skipped_turns: int
    damage: tuple[str, ...]


def captured_workload(store: Path, *, rollouts: int, seed: int, tool_wait_s: float | None = None) -> Workload:
    """`rollouts` sessions drawn from a store, with the whole store's shared shares.

    The cache is taken to be perfect: it never evicts, and it forgets only when the adapter's version changes.
    Training rows share a prefix when their adapter is the same. `tool_wait_s` replaces the store's median wait.
    """
    require_count(rollouts=rollouts)
    totals = _read(store)
    sessions = [session.rollout() for session in totals.sessions]
    if not sum(rollout.sampled for rollout in sessions):
        raise ValueError(f"{store}: holds no turn with sampled tokens to plan from; capture some traffic first")
    if tool_wait_s is None:
        waits = [wait for session in totals.sessions for wait in session.waits_s]
        tool_wait_s = median(waits) if waits else 0.0
    require_not_negative(tool_wait_s=tool_wait_s)
    draw = random.Random(seed)
    enough = len(sessions) >= rollouts
    drawn = draw.sample(sessions, rollouts) if enough else draw.choices(sessions, k=rollouts)
    all_rows = [tokens for rollout in sessions for tokens in rollout.row_tokens]
    drawn_rows = [tokens for rollout in drawn for tokens in rollout.row_tokens]
    computed = totals.computed_prefill_tokens / sum(rollout.fresh for rollout in sessions)
    kept_tokens = totals.tree_tokens / sum(all_rows)
    kept_pairs = totals.tree_pairs / sum(map(causal_pairs, all_rows))
    how = "drawn without replacement" if enough else "drawn with replacement, as there are fewer"
    return Workload(
        rollouts=tuple(drawn),
        computed_prefill_tokens=computed * sum(rollout.fresh for rollout in drawn),
        sharing=Sharing(all_tokens=sum(drawn_rows), tree_tokens=round(kept_tokens * sum(drawn_rows))),
        tree_pairs=kept_pairs * sum(map(causal_pairs, drawn_rows)),
        tool_wait_s=tool_wait_s,
        assumptions=(
            f"{rollouts} rollouts {how} (seed {seed}) from the {len(sessions)} sessions and "
            f"{sum(len(rollout.turns) for rollout in sessions)} turns of {store}",
            f"{totals.skipped_turns} turns left out: evaluation, probes, or nothing sampled",
            "the drawn step shares prefixes as the whole store does: one tree per adapter for training, one per "
            "version for the cache, which never evicts",
            f"{tool_wait_s:g} s between one call and the next, the median of the store unless given",
            *(f"damaged: {line}" for line in totals.damage),
        ),
    )


def _read(store: Path) -> _Totals:
    sessions: defaultdict[str, _Session] = defaultdict(_Session)
    caches: defaultdict[tuple[str | None, int | None], PrefixTree] = defaultdict(PrefixTree)
    rows: defaultdict[str | None, PrefixTree] = defaultdict(PrefixTree)
    computed = skipped = 0
    with Reader(store).snapshot(["turns"]) as snapshot:
        for frame in _frames(snapshot):
            turns = list(_usable(frame))
            skipped += frame.height - len(turns)
            for turn in turns:
                whole = np.concatenate((turn.prompt, turn.completion))
                cache = caches[turn.adapter, turn.adapter_version]
                computed += turn.prompt.size - cache.shared_tokens(turn.prompt)
                cache.add(whole)
                rows[turn.adapter].add(whole)
                sessions[turn.session_id].add(turn)
        damage = snapshot.damage
    return _Totals(
        sessions=list(sessions.values()),
        computed_prefill_tokens=computed,
        tree_tokens=sum(tree.tokens for tree in rows.values()),
        tree_pairs=sum(tree.pairs for tree in rows.values()),
        skipped_turns=skipped,
        damage=damage,
    )


def _frames(snapshot: Snapshot) -> Iterator[pl.DataFrame]:
    for batch in snapshot.batches("turns", columns=_COLUMNS):  # pyright: ignore[reportUnknownVariableType]
        frame = pl.from_arrow(batch)  # pyright: ignore[reportUnknownArgumentType]
        assert isinstance(frame, pl.DataFrame)
        yield frame


def _usable(frame: pl.DataFrame) -> Iterator[_Turn]:
    kept = frame.filter(
        pl.col("purpose").is_in(TRAINED_PURPOSES)
        & (pl.col("prompt_ids").list.len() > 0)
        & (pl.col("completion_ids").list.len() > 0)
    )
    for session_id, adapter, version, _, started, finished, prompt, completion in kept.iter_rows():
        yield _Turn(
            session_id,
            adapter,
            version,
            started,
            finished,
            np.asarray(prompt, np.int32),
            np.asarray(completion, np.int32),
        )
