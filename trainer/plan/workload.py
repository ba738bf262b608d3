"""The rollouts of one step: their lengths turn by turn, made from flags; a captured store gives real ones."""

import math
import random
from typing import NamedTuple

import msgspec

from trainer.plan.compaction import appended_rows, compacted_rows
from trainer.plan.flops import causal_pairs
from trainer.plan.prefix_sharing import Sharing
from trainer.plan.quantity import require_count, require_not_negative, require_whole


class TurnLengths(NamedTuple):
    """Tokens of one model call."""

    prompt: int
    """All tokens submitted."""
    fresh: int
    """Those that extend what the rollout's earlier turns left in the cache."""
    completion: int
    """Tokens sampled."""


class Compaction(NamedTuple):
    """A harness that replaces history by a summary."""

    every_turns: int
    summary_tokens: int


class Rollout(NamedTuple):
    """One agent run: its calls in order, and the training rows it becomes."""

    turns: tuple[TurnLengths, ...]
    row_tokens: tuple[int, ...]

    @property
    def submitted(self) -> int:
        """Prompt tokens over all turns."""
        return sum(turn.prompt for turn in self.turns)

    @property
    def fresh(self) -> int:
        """Prompt tokens that the rollout's own history does not hold."""
        return sum(turn.fresh for turn in self.turns)

    @property
    def sampled(self) -> int:
        """Completion tokens over all turns."""
        return sum(turn.completion for turn in self.turns)

    @property
    def peak(self) -> int:
        """Most tokens the rollout holds in the cache at once."""
        return max(turn.prompt + turn.completion for turn in self.turns)

    @property
    def decode_context(self) -> float:
        """Sum over sampled tokens of the context each attends to."""
        return sum(turn.completion * (turn.prompt + turn.completion / 2) for turn in self.turns)

    @property
    def fresh_pairs(self) -> float:
        """Query-key pairs of prefilling the fresh tokens against everything before them."""
        return sum(turn.fresh * (turn.prompt - (turn.fresh - 1) / 2) for turn in self.turns)


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """The rollouts of one optimizer step and what they share."""

    rollouts: tuple[Rollout, ...]
    computed_prefill_tokens: float
    """Prompt tokens an engine with a perfect prefix cache computes in a step."""
    sharing: Sharing
    """Training rows of the step, one by one and as a prefix tree."""
    tree_pairs: float
    """Query-key pairs of that tree."""
    tool_wait_s: float
    """Time a rollout waits between one call's end and the next call's start."""
    assumptions: tuple[str, ...]
    """Where the lengths are from and what was taken for granted."""

    @property
    def submitted_tokens(self) -> int:
        """Prompt tokens over all turns of all rollouts."""
        return sum(rollout.submitted for rollout in self.rollouts)

    @property
    def sampled_tokens(self) -> int:
        """Completion tokens of the step."""
        return sum(rollout.sampled for rollout in self.rollouts)

    @property
    def rows(self) -> list[int]:
        """Lengths of every training row of the step."""
        return [tokens for rollout in self.rollouts for tokens in rollout.row_tokens]

    @property
    def mean_peak_tokens(self) -> float:
        """Mean over rollouts of the most tokens each holds in the cache."""
        return sum(rollout.peak for rollout in self.rollouts) / len(self.rollouts)

    @property
    def mean_decode_context(self) -> float:
        """Context that a sampled token attends to, on average."""
        return sum(rollout.decode_context for rollout in self.rollouts) / self.sampled_tokens


def assumed_workload(
    *,
    tasks: int,
    group_size: int,
    prompt: int = 2000,
    turns: int = 4,
    action: int = 200,
    observation: int = 1500,
    length_spread: float = 0.5,
    tool_wait_s: float = 2.0,
    max_tokens: int = 32_768,
    compaction: Compaction | None = None,
    seed: int = 0,
) -> Workload:
    """`tasks` groups of rollouts that append every action and observation; action lengths differ by rollout.

    The defaults are lecture 12's repair run, with a spread and a wait.

    A rollout's actions are all scaled by one log-normal factor of mean 1 and standard deviation `length_spread`;
    a rollout whose context would pass `max_tokens` ends with the last turn that fits.
    """
    require_count(tasks=tasks, group_size=group_size, prompt_tokens=prompt, turns=turns, action_tokens=action)
    require_whole(observation_tokens=observation)
    require_count(max_tokens=max_tokens)
    require_not_negative(length_spread=length_spread, tool_wait_s=tool_wait_s)
    sigma = math.sqrt(math.log1p(length_spread**2))
    draw = random.Random(seed)
    factors = [draw.lognormvariate(-sigma * sigma / 2, sigma) for _ in range(tasks * group_size)]
    rollouts = tuple(
        _rollout(prompt, turns, max(1, round(action * factor)), observation, max_tokens, compaction)
        for factor in factors
    )
    rows = [tokens for rollout in rollouts for tokens in rollout.row_tokens]
    repeats = len(rows) - tasks
    return Workload(
        rollouts=rollouts,
        computed_prefill_tokens=sum(rollout.fresh for rollout in rollouts) - tasks * (group_size - 1) * prompt,
        sharing=Sharing(all_tokens=sum(rows), tree_tokens=sum(rows) - repeats * prompt),
        tree_pairs=sum(map(causal_pairs, rows)) - repeats * causal_pairs(prompt),
        tool_wait_s=tool_wait_s,
        assumptions=(
            f"{tasks} tasks x {group_size} rollouts, up to {turns} turns: prompt {prompt:,}, action {action:,}, "
            f"observation {observation:,} tokens",
            f"action lengths differ between rollouts by a log-normal factor of spread {length_spread:g} (seed {seed}); "
            f"a rollout stops before {max_tokens:,} tokens",
            f"{tool_wait_s:g} s between one call and the next",
            _history(compaction),
        ),
    )


def _history(compaction: Compaction | None) -> str:
    if compaction is None:
        return "history is only ever appended to"
    return (
        f"after every {compaction.every_turns} turns history becomes a summary of {compaction.summary_tokens} tokens "
        "that another model writes"
    )


def _rollout(
    prompt: int, turns: int, action: int, observation: int, max_tokens: int, compaction: Compaction | None
) -> Rollout:
    growth = action + observation
    every = compaction.every_turns if compaction else turns
    summary = compaction.summary_tokens if compaction else 0
    if prompt + summary + growth > max_tokens:
        raise ValueError(
            f"prompt and one turn take {prompt + summary + growth} tokens, more than max_tokens {max_tokens}"
        )
    if compaction is None:
        turns = min(turns, (max_tokens - prompt) // growth)
        rows = appended_rows(prompt=prompt, turns=turns, action=action, observation=observation)
    else:
        every = min(every, (max_tokens - prompt - summary) // growth)
        rows = compacted_rows(
            prompt=prompt, turns=turns, action=action, observation=observation, every_turns=every, summary=summary
        )
    lengths: list[TurnLengths] = []
    for turn in range(turns):
        kept, since = divmod(turn, every)
        held = prompt + (summary if kept else 0) + since * growth
        # After a compaction the cache still holds the task prompt; the summary is new.
        fresh = observation if since else (summary if kept else prompt)
        lengths.append(TurnLengths(prompt=held, fresh=fresh, completion=action))
    return Rollout(turns=tuple(lengths), row_tokens=rows)
