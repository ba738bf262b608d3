"""Prefill tokens of multi-turn rollouts: without a cache, with a prefix cache, and when history is edited."""

from collections.abc import Mapping

from trainer.plan.quantity import require_count, require_whole


def context_tokens(*, prompt: int, turns: int, action: int, observation: int) -> int:
    """Length of a rollout that appends every action and observation. Lecture 12, section 0."""
    _require_workload(prompt=prompt, turns=turns, action=action, observation=observation)
    return prompt + turns * (action + observation)


def uncached_prefill_tokens(*, prompt: int, turns: int, action: int, observation: int) -> int:
    """Tokens a rollout submits when every turn sends its whole context again. Lecture 12, section 2."""
    _require_workload(prompt=prompt, turns=turns, action=action, observation=observation)
    return turns * prompt + (action + observation) * turns * (turns - 1) // 2


def cached_group_prefill_tokens(*, rollouts: int, prompt: int, turns: int, action: int, observation: int) -> int:
    """Tokens a group computes when every prefix is cached: the prompt once, then only new observations.

    Actions have their keys and values from decoding, and the last observation follows the last request.
    Lecture 12, section 2.
    """
    return edited_group_prefill_tokens(
        rollouts=rollouts, prompt=prompt, turns=turns, action=action, observation=observation, edits={}
    )


def edited_group_prefill_tokens(
    *, rollouts: int, prompt: int, turns: int, action: int, observation: int, edits: Mapping[int, int]
) -> int:
    """The same when the harness edits history: `edits` maps a 1-based turn to the first token changed before it.

    From that token to the end of the turn's context nothing cached is valid. An edit keeps the length; each
    rollout edits its own copy, so an edit inside the prompt costs every rollout. Lecture 12, section 2.
    """
    require_count(rollouts=rollouts)
    _require_workload(prompt=prompt, turns=turns, action=action, observation=observation)
    for turn, first in edits.items():
        if not 2 <= turn <= turns:
            raise ValueError(f"an edit stands before turn {turn}, expected a turn from 2 to {turns}")
        require_whole(first_edited_token=first)
    after_prompt = 0
    for turn in range(2, turns + 1):
        context = prompt + (turn - 1) * (action + observation)
        cached = context - observation
        after_prompt += context - min(edits.get(turn, cached), cached)
    return prompt + rollouts * after_prompt


def _require_workload(*, prompt: int, turns: int, action: int, observation: int) -> None:
    require_count(prompt_tokens=prompt, turns=turns, action_tokens=action)
    require_whole(observation_tokens=observation)
