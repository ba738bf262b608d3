"""Tests of trainer.plan.prefill: lecture 12, section 2."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.plan.prefill import (
    cached_group_prefill_tokens,
    context_tokens,
    edited_group_prefill_tokens,
    uncached_prefill_tokens,
)

REPAIR_RUN = {"prompt": 2_000, "turns": 4, "action": 200, "observation": 1_500}


def test_the_repair_run_has_8_800_tokens() -> None:
    assert context_tokens(**REPAIR_RUN) == 8_800


def test_without_a_cache_a_rollout_submits_18_200_tokens_and_a_group_145_600() -> None:
    assert uncached_prefill_tokens(**REPAIR_RUN) == 18_200
    assert 8 * uncached_prefill_tokens(**REPAIR_RUN) == 145_600


def test_with_every_prefix_cached_the_group_computes_38_000_tokens() -> None:
    assert cached_group_prefill_tokens(rollouts=8, **REPAIR_RUN) == 38_000
    assert pytest.approx(3.8, abs=0.05) == 145_600 / 38_000


def test_an_edit_after_the_prompt_computes_the_rest_of_the_context_again() -> None:
    """Before turn 4 the context is 2,000 + 3 x 1,700 = 7,100 tokens; 5,100 instead of 1,500 are computed."""
    edited = edited_group_prefill_tokens(rollouts=8, **REPAIR_RUN, edits={4: 2_000})
    assert edited == 38_000 + 8 * (5_100 - 1_500)


def test_an_edit_past_the_cached_part_costs_nothing() -> None:
    assert edited_group_prefill_tokens(rollouts=8, **REPAIR_RUN, edits={4: 7_000}) == 38_000


def test_an_edit_before_the_first_turn_is_refused() -> None:
    with pytest.raises(ValueError, match="before turn 1, expected a turn from 2 to 4"):
        edited_group_prefill_tokens(rollouts=8, **REPAIR_RUN, edits={1: 0})


@settings(deadline=None)
@given(
    prompt=st.integers(1, 50),
    turns=st.integers(1, 6),
    action=st.integers(1, 20),
    observation=st.integers(0, 20),
    rollouts=st.integers(1, 5),
    edited=st.dictionaries(st.integers(2, 6), st.integers(0, 100), max_size=3),
)
def test_counting_matches_a_cache_played_token_by_token(
    prompt: int, turns: int, action: int, observation: int, rollouts: int, edited: dict[int, int]
) -> None:
    edits = {turn: first for turn, first in edited.items() if turn <= turns}
    computed = submitted = 0
    cached_prompts: set[tuple[int, ...]] = set()
    for rollout in range(rollouts):
        context = [("prompt", at) for at in range(prompt)]
        cached: list[tuple[str, int]] = context if cached_prompts else []
        cached_prompts.add(())
        fresh = rollout * 10_000
        for turn in range(1, turns + 1):
            if turn in edits:
                context = [
                    (kind, at) if index < edits[turn] else (f"{kind} edited {rollout} {turn}", at)
                    for index, (kind, at) in enumerate(context)
                ]
            common = 0
            while common < min(len(cached), len(context)) and cached[common] == context[common]:
                common += 1
            computed += len(context) - common
            submitted += len(context)
            cached = context + [("action", fresh + at) for at in range(action)]
            fresh += action
            context = cached + [("observation", fresh + at) for at in range(observation)]
            fresh += observation
    lengths = {"prompt": prompt, "turns": turns, "action": action, "observation": observation}
    assert edited_group_prefill_tokens(rollouts=rollouts, **lengths, edits=edits) == computed
    assert rollouts * uncached_prefill_tokens(**lengths) == submitted
