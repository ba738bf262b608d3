"""Tests of trainer.plan.captured: a real store's lengths, waits and prefix tree, worked by hand."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from collector.records import Turn, VersionSpan
from collector.store.writer import Writer
from trainer.plan.captured import captured_workload
from trainer.plan.workload import TurnLengths

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
SYSTEM = list(range(100, 110))


def turn(session: str, number: int, prompt: list[int], completion: list[int], at_s: float, **fields: object) -> Turn:
    """A turn that takes one second."""
    return Turn(
        turn_id=f"{session}-{number}",
        session_id=session,
        turn=number,
        tenant="acme",
        api="chat",
        started_at=NOON + timedelta(seconds=at_s),
        finished_at=NOON + timedelta(seconds=at_s + 1),
        prompt_ids=prompt,
        completion_ids=completion,
        sampled_logprobs=[-0.5] * len(completion),
        weight_versions=[VersionSpan(version=0, start=0, end=len(completion))] if completion else [],
        **fields,  # pyright: ignore[reportArgumentType]
    )


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Session a: two turns, the second extends; b: shares the system prompt; c: one turn under another adapter."""
    second = [*SYSTEM, 1, 2, 11, 12, 13, 3, 4]
    turns = [
        turn("a", 1, [*SYSTEM, 1, 2], [11, 12, 13], 0),
        turn("b", 1, [*SYSTEM, 5], [21, 22], 1),
        turn("a", 2, second, [14], 4),
        turn("c", 1, [*SYSTEM, 1], [31], 5, adapter="other", adapter_version=1),
        turn("d", 1, [*SYSTEM, 9], [41], 6, purpose="eval"),
        turn("e", 1, [*SYSTEM, 9], [], 7, finish_reason="error"),
    ]
    writer = Writer(tmp_path / "store", "collector")
    try:
        for each in turns:
            writer.append(each).result(timeout=30)
    finally:
        writer.close()
    return tmp_path / "store"


def test_lengths_waits_and_rows_are_the_store_s(store: Path) -> None:
    workload = captured_workload(store, rollouts=3, seed=0)
    by_rows = {rollout.row_tokens: rollout.turns for rollout in workload.rollouts}
    assert by_rows == {
        (18,): (TurnLengths(12, 12, 3), TurnLengths(17, 2, 1)),
        (13,): (TurnLengths(11, 11, 2),),
        (12,): (TurnLengths(11, 11, 1),),
    }
    assert workload.tool_wait_s == 3.0
    assert captured_workload(store, rollouts=3, seed=0, tool_wait_s=1.5).tool_wait_s == 1.5


def test_the_cache_and_the_tree_share_what_the_store_shares(store: Path) -> None:
    """Cache: a 12, b its own token, a again 2, c under another adapter 11. Tree: 18 + 3 and 12."""
    workload = captured_workload(store, rollouts=3, seed=0)
    assert workload.computed_prefill_tokens == pytest.approx(12 + 1 + 2 + 11)
    assert workload.submitted_tokens == 12 + 11 + 17 + 11
    assert (workload.sharing.all_tokens, workload.sharing.tree_tokens) == (18 + 13 + 12, 18 + 3 + 12)
    pairs = 18 * 19 / 2 + (11 + 12 + 13) + 12 * 13 / 2
    assert workload.tree_pairs == pytest.approx(pairs)


def test_more_rollouts_than_sessions_are_drawn_again_and_said(store: Path) -> None:
    workload = captured_workload(store, rollouts=10, seed=0)
    assert len(workload.rollouts) == 10
    assert (
        "10 rollouts drawn with replacement, as there are fewer (seed 0) from the 3 sessions and 4 turns"
        in (workload.assumptions[0])
    )
    assert workload.assumptions[1].startswith("2 turns left out")


def test_a_rewritten_history_makes_a_second_row(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "store", "collector")
    writer.append(turn("a", 1, [1, 2, 3], [4], 0)).result(timeout=30)
    writer.append(turn("a", 2, [1, 9, 9, 9, 9], [5], 2)).result(timeout=30)
    writer.close()
    (rollout,) = captured_workload(tmp_path / "store", rollouts=1, seed=0).rollouts
    assert sorted(rollout.row_tokens) == [4, 6]
    assert [each.fresh for each in rollout.turns] == [3, 4]


def test_a_store_with_nothing_sampled_is_refused(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "store", "collector")
    writer.append(turn("a", 1, [1, 2, 3], [], 0)).result(timeout=30)
    writer.close()
    with pytest.raises(ValueError, match="holds no turn with sampled tokens"):
        captured_workload(tmp_path / "store", rollouts=1, seed=0)
