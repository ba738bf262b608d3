"""Merged rows that are taken apart, and those whose lists do not fit each other."""

import pytest

from checks.readers.merged_row import turns_of, turns_or_whole


def test_every_run_is_a_turn_after_all_that_came_before() -> None:
    found = list(
        turns_of([1, 2, 3, 4], [0, 1, 0, 1], session_id="s", per_token={"sampled_logprobs": [0.0, -1.0, 0.0, -2.0]})
    )
    assert [(turn.prompt_ids, turn.completion_ids, turn.sampled_logprobs) for turn in found] == [
        ([1], [2], [-1.0]),
        ([1, 2, 3], [4], [-2.0]),
    ]


def test_even_lists_are_taken_apart_and_uneven_ones_stay_whole() -> None:
    even = list(turns_or_whole([1, 2, 3], [0, 1, 1], session_id="s", per_token={"sampled_logprobs": [0.0, -1.0, -2.0]}))
    assert [(turn.prompt_ids, turn.completion_ids) for turn in even] == [([1], [2, 3])]
    (uneven,) = turns_or_whole([1, 2, 3], [0, 1, 1], session_id="s", per_token={"sampled_logprobs": [0.0, -1.0]})
    assert (uneven.prompt_ids, uneven.completion_ids, uneven.sampled_logprobs) == ([1], [2, 3], [-1.0])


def test_a_list_that_is_not_there_is_not_uneven() -> None:
    (turn,) = turns_or_whole([1, 2], [0, 1], session_id="s", per_token={"sampled_logprobs": None})
    assert turn.sampled_logprobs is None


def test_uneven_lists_are_refused_where_nothing_says_otherwise() -> None:
    with pytest.raises(ValueError, match="1 flags for 2 tokens"):
        list(turns_of([1, 2], [1], session_id="s", per_token={}))
