"""The ranking that stays while it is read, its sentence, its hint, and falls between few evaluations."""

from datetime import UTC, datetime

import polars as pl
import pytest

from checks.columns import completed
from checks.ranking import Move, Ranked
from console.watch.views.eval_falls import eval_falls
from console.watch.views.first_mover import FirstMover, FrozenRanking, first_mover_of, said
from console.watch.views.signal_lanes import LABELS

AT = datetime(2026, 11, 29, 11, 31, 2, tzinfo=UTC)


def move(signal: str, last: int, first: int | None = None, **more: object) -> Move:
    """A signal that moved; exactly at `last` unless an earlier first step is given."""
    fields = {"part": signal, "seen": last + 3, "score": 9.0, "was": 1.0} | more
    return Move(signal=signal, first=last if first is None else first, last=last, **fields)  # type: ignore[arg-type]


def ranked(*moves: Move, steady: tuple[str, ...] = (), unknown: tuple[str, ...] = ()) -> Ranked:
    """One adapter."""
    return Ranked("a", moves, steady, unknown)


def names(view: FirstMover) -> list[str]:
    """Who moved, in order."""
    return [each.signal for each in view.movers]


def test_the_sentence_has_steps_after_the_first_the_time_what_is_steady_and_what_is_unknown() -> None:
    view = first_mover_of(
        ranked(move("staleness", 1826, at=AT), move("max_w", 1829), steady=("entropy", "mfu"), unknown=("pass_at_k",))
    )
    assert said(view, LABELS) == (
        "staleness @1826 11:31:02Z → max_w +3 ┊ hint: stale data ┊ steady: entropy mfu ┊ n/d: pass@k"
    )
    assert said(view, LABELS, short=True) == "staleness@1826→max_w+3 ┊ hint: stale data ┊ 2 steady ┊ n/d: pass@k"


def test_a_tie_is_an_equals_sign_and_shares_its_rank() -> None:
    view = first_mover_of(ranked(move("entropy", 100), move("reward_eval_gap", 100, 81), move("grad_norm", 120)))
    assert [each.rank for each in view.movers] == [1, 1, 3]
    assert [each.tie for each in view.movers] == [True, True, False]
    assert said(view, LABELS).startswith("entropy @100 = rew-eval +0 → grad_norm +20")


def test_of_two_that_are_first_both_hints_are_given() -> None:
    view = first_mover_of(ranked(move("entropy", 100), move("mfu", 100)))
    assert view.hint == "entropy or KL term or padding, microbatch or waiting"


def test_another_order_by_the_clock_is_said() -> None:
    late = AT.replace(hour=12)
    view = first_mover_of(ranked(move("entropy", 100, at=late), move("mfu", 120, at=AT)))
    assert "by the clock the order is another" in said(view, LABELS)


def test_the_ranking_stays_as_it_was_read_and_what_moves_later_stands_behind() -> None:
    frozen = FrozenRanking()
    first = frozen.of(ranked(move("staleness", 100), move("max_w", 110), steady=("entropy",)), 112)
    assert first.frozen_at == 112
    # Now the test dates max_w before staleness, and entropy before both.
    later = frozen.of(ranked(move("entropy", 90), move("max_w", 98), move("staleness", 100)), 130)
    assert names(later) == ["staleness", "max_w", "entropy"]
    assert [each.rank for each in later.movers] == [1, 2, 3]
    assert [each.late for each in later.movers] == [False, False, True]
    assert later.frozen_at == 112
    assert later.steady == ()
    assert "entropy(later) -10" in said(later, LABELS)


def test_it_is_ranked_anew_when_nothing_is_out_of_its_band_any_more() -> None:
    frozen = FrozenRanking()
    frozen.of(ranked(move("staleness", 100)), 112)
    assert names(frozen.of(ranked(steady=("staleness",)), 150)) == []
    assert names(frozen.of(ranked(move("mfu", 160), move("staleness", 170)), 175)) == ["mfu", "staleness"]


def test_another_incident_is_ranked_anew() -> None:
    frozen = FrozenRanking()
    frozen.of(ranked(move("staleness", 100)), 112)
    assert names(frozen.of(ranked(move("mfu", 160)), 175)) == ["mfu"]


def test_going_back_in_time_forgets_what_was_frozen() -> None:
    frozen = FrozenRanking()
    frozen.of(ranked(move("staleness", 100), move("max_w", 110)), 130)
    before = frozen.of(ranked(move("max_w", 98)), 105)
    assert names(before) == ["max_w"]
    assert before.frozen_at == 105


def test_adapters_are_frozen_each_for_itself() -> None:
    frozen = FrozenRanking()
    frozen.of(ranked(move("staleness", 100)), 112)
    other = frozen.of(Ranked("b", (move("mfu", 50),), (), ()), 60)
    assert names(other) == ["mfu"]


NOTHING = completed(pl.DataFrame(), "versions")


def evals(*scores: list[float], adapter: str | None = "a") -> pl.DataFrame:
    """Evaluations of versions 0, 1 and so on, each with a score a task."""
    rows = [
        {"adapter": adapter, "version": version, "suite": "s", "task_id": f"t{task}", "sample": 0, "score": score}
        for version, of_version in enumerate(scores)
        for task, score in enumerate(of_version)
    ]
    return completed(pl.DataFrame(rows), "evals")


def test_a_fall_is_the_mean_of_paired_differences_in_their_standard_errors() -> None:
    # Differences: six of 1 and two of 0: mean 3/4, sum of squares 6/16 + 18/16 = 1.5, over 7 and 8: error sqrt(1.5/56).
    (fall,) = eval_falls(evals([1.0] * 8, [0.0] * 6 + [1.0] * 2), NOTHING, "a")
    assert (fall.since, fall.step, fall.tasks) == (0, 1, 8)
    assert fall.by == pytest.approx(0.75)
    assert fall.errors == pytest.approx(0.75 / (1.5 / 56) ** 0.5)


@pytest.mark.parametrize(
    "scores",
    [
        ([0.0] * 8, [1.0] * 8),
        ([1.0] * 7, [0.0] * 7),
        ([1.0, 0.0] * 4, [0.0, 1.0] * 4),
        ([1.0] * 8, [1.0] * 8),
        ([1.0] * 8,),
    ],
)
def test_a_rise_few_tasks_and_what_may_be_chance_are_no_fall(scores: tuple[list[float], ...]) -> None:
    assert eval_falls(evals(*scores), NOTHING, "a") == ()


def test_a_fall_of_every_task_alike_has_no_error_and_another_adapters_is_not_this_ones() -> None:
    (fall,) = eval_falls(evals([1.0] * 8, [0.5] * 8), NOTHING, "a")
    assert fall.errors is None
    assert eval_falls(evals([1.0] * 8, [0.5] * 8), NOTHING, "b") == ()


def test_falls_are_said_only_where_nothing_has_a_baseline() -> None:
    (fall,) = eval_falls(evals([1.0] * 8, [0.5] * 8), NOTHING, "a")
    view = FirstMover(unknown=tuple(LABELS), falls=(fall,))
    assert said(view, LABELS) == (
        "held-out -0.5 @1–1 (paired over 8 tasks) ┊ no signal has enough steps for a baseline"
    )
