"""Training rows: what is merged, what carries loss, and that every sampled token does so exactly once."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.rows import CapturedTurn, TrainingRow, parents, training_rows


def turn(
    number: int,
    prompt: list[int],
    completion: list[int],
    *,
    session: str = "s",
    adapter: str | None = "a",
    reason: str | None = None,
) -> CapturedTurn:
    """A captured turn whose log-probabilities are minus its ids over a hundred."""
    ids = np.array(completion, dtype=np.int32)
    logprobs = (-ids / 100).astype(np.float32)
    prompt_ids = np.array(prompt, dtype=np.int32)
    return CapturedTurn(f"{session}-{number}", session, number, adapter, 1, prompt_ids, ids, logprobs, 1.0, reason)


def spans(row: TrainingRow) -> list[tuple[str, int, int]]:
    """Turn, start and end of each run."""
    return [(run.turn_id, run.start, run.end) for run in row.runs]


def test_turns_that_extend_each_other_are_one_row() -> None:
    made = training_rows([turn(1, [1, 2], [3]), turn(2, [1, 2, 3, 9], [4, 5])])
    assert len(made.rows) == 1
    assert made.rows[0].ids.tolist() == [1, 2, 3, 9, 4, 5]
    assert spans(made.rows[0]) == [("s-1", 2, 3), ("s-2", 4, 6)]
    assert made.rows[0].trained_tokens == 3


def test_a_break_begins_a_row_with_the_context_that_was_seen() -> None:
    made = training_rows([turn(1, [1, 2], [3, 4]), turn(2, [1, 2, 4, 9], [5])])
    assert [row.ids.tolist() for row in made.rows] == [[1, 2, 3, 4], [1, 2, 4, 9, 5]]
    assert [spans(row) for row in made.rows] == [[("s-1", 2, 4)], [("s-2", 4, 5)]]


def test_a_turn_with_two_continuations_carries_loss_once() -> None:
    made = training_rows([turn(1, [1], [2]), turn(2, [1, 2, 7], [3]), turn(3, [1, 2, 8], [4])])
    assert [spans(row) for row in made.rows] == [[("s-1", 1, 2), ("s-2", 3, 4)], [("s-3", 3, 4)]]
    assert made.rows[1].ids.tolist() == [1, 2, 8, 4], "the second row still has the whole context"


def test_the_same_ids_sampled_twice_are_two_samples() -> None:
    made = training_rows([turn(1, [1], [2]), turn(2, [1], [2])])
    assert [spans(row) for row in made.rows] == [[("s-1", 1, 2)], [("s-2", 1, 2)]]


def test_an_untrainable_turn_is_context_and_counted() -> None:
    made = training_rows([turn(1, [1], [2], reason="top_p"), turn(2, [1, 2, 7], [3])])
    assert [spans(row) for row in made.rows] == [[("s-2", 3, 4)]]
    assert (made.trained_turns, made.left_out) == (1, {"top_p": 1})


def test_an_untrainable_last_turn_is_cut_off() -> None:
    made = training_rows([turn(1, [1], [2]), turn(2, [1, 2, 7], [3], reason="incomplete")])
    assert [row.ids.tolist() for row in made.rows] == [[1, 2]]


def test_a_turn_that_sampled_nothing_is_nobodys_parent() -> None:
    assert parents([turn(1, [1], []), turn(2, [1, 5], [3])]) == [None, None]


def test_the_deepest_of_several_ancestors_is_the_parent() -> None:
    turns = [turn(1, [1], [2]), turn(2, [1, 2], [3]), turn(3, [1, 2, 3, 4], [5]), turn(4, [1, 2, 6], [7])]
    assert parents(turns) == [None, 0, 1, 0]


def test_sessions_and_adapters_are_never_merged() -> None:
    made = training_rows([turn(1, [1], [2]), turn(1, [1, 2], [3], session="t"), turn(2, [1, 2], [4], adapter="b")])
    assert sorted((row.session_id, row.adapter, row.ids.tolist()) for row in made.rows) == [
        ("s", "a", [1, 2]),
        ("s", "b", [1, 2, 4]),
        ("t", "a", [1, 2, 3]),
    ]


def test_turns_may_come_in_any_order() -> None:
    turns = [turn(1, [1], [2]), turn(2, [1, 2, 7], [3]), turn(3, [1, 2, 7, 3, 8], [4])]
    assert [spans(row) for row in training_rows(turns[::-1]).rows] == [[("s-1", 1, 2), ("s-2", 3, 4), ("s-3", 5, 6)]]


def test_log_probabilities_that_do_not_fit_stop_the_rows() -> None:
    broken = turn(1, [1], [2, 3])._replace(sampled_logprobs=np.zeros(1, dtype=np.float32))
    with pytest.raises(ValueError, match="turn s-1: 1 log-probabilities of 2 sampled tokens"):
        training_rows([broken])


small = st.lists(st.integers(1, 3), min_size=0, max_size=4)


@given(st.lists(st.tuples(st.integers(0, 5), small, st.lists(st.integers(1, 3), min_size=0, max_size=3)), max_size=8))
def test_every_trainable_token_carries_loss_once_in_the_context_it_was_sampled_in(
    script: list[tuple[int, list[int], list[int]]],
) -> None:
    """Random trees: each turn extends an earlier one (or none) by some prompt tokens and samples a completion."""
    turns: list[CapturedTurn] = []
    for number, (pick, added, completion) in enumerate(script, start=1):
        base = turns[pick % len(turns)] if turns and pick else None
        before = [] if base is None else [*base.prompt_ids.tolist(), *base.completion_ids.tolist()]
        turns.append(turn(number, [*before, *added], completion, reason=None if completion else "empty"))
    made = training_rows(turns)
    by_id = {each.turn_id: each for each in turns}
    seen: Counter[str] = Counter()
    for row in made.rows:
        for run in row.runs:
            source = by_id[run.turn_id]
            seen[run.turn_id] += 1
            assert row.ids[: run.start].tolist() == source.prompt_ids.tolist()
            assert row.ids[run.start : run.end].tolist() == source.completion_ids.tolist()
            assert run.logprobs.tolist() == source.sampled_logprobs.tolist()
    assert seen == Counter({each.turn_id: 1 for each in turns if each.untrainable_reason is None})
    assert sum(made.left_out.values()) + made.trained_turns == len(turns)


small_ids = st.lists(st.integers(0, 1), max_size=6)


@given(st.lists(st.tuples(small_ids, st.lists(st.integers(0, 1), max_size=2)), max_size=10))
def test_a_parent_is_the_deepest_earlier_turn_that_the_prompt_begins_with(
    drawn: list[tuple[list[int], list[int]]],
) -> None:
    """Against every earlier turn in turn."""
    expected: list[int | None] = []
    for index, (prompt, _) in enumerate(drawn):
        whole = [before + after if after else None for before, after in drawn[:index]]
        fits = [n for n, ids in enumerate(whole) if ids is not None and prompt[: len(ids)] == ids]
        expected.append(max(fits, key=lambda n: (len(drawn[n][0]) + len(drawn[n][1]), -n), default=None))
    assert parents([turn(n, *ids) for n, ids in enumerate(drawn, start=1)]) == expected
