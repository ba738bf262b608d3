"""The ranking that stays while it is read, its sentence, its hint, and what fell on few evaluations."""

from datetime import UTC, datetime

import msgspec
import pytest

from checks.eval_falls import Change
from checks.paired_tasks import Paired
from checks.ranking import Move, Ranked
from console.watch.views.falls import RewardMove, ToldFall
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


def fell(
    first: int, last: int, *, reward: RewardMove | None = None, verdict: str | None = "refuse", state: str = "rejected"
) -> ToldFall:
    """Version 2 on 48 tasks, by half."""
    score = Paired(tasks=48, before=0.75, after=0.25, by=-0.5, low=-0.625, high=-0.375, errors=8.0)
    change = Change(since=first - 1, step=last, version=2, parent=1, score=score)
    return ToldFall(fall=change, verdict=verdict, reward=reward, state=state)


UP = Paired(tasks=48, before=0.25, after=0.75, by=0.5, low=0.375, high=0.625, errors=8.0)
AGAINST = RewardMove(before=0.5, after=0.25, sampler_before=0, sampler_after=1, held_out=UP)


def test_a_fall_says_signal_steps_version_verdict_reward_and_interval() -> None:
    view = FirstMover(unknown=tuple(LABELS), falls=(fell(2, 9, reward=AGAINST),))
    assert said(view, LABELS) == (
        "rew-eval @2–9: held-out 0.75 → 0.25 by v2, refused "
        "┊ reward 0.50 → 0.25 where held-out rose 0.25 → 0.75 (turns of v0 → v1) "
        "┊ -0.50 (95 % -0.62 to -0.38) paired over 48 tasks "
        "┊ hint: the reward asks for what the held-out check counts as worse "
        "┊ no signal has enough steps for a baseline"
    )
    assert said(view, LABELS, short=True) == (
        "rew-eval@2–9 held-out 0.75 → 0.25 v2 refused ┊ reward 0.50 → 0.25 "
        "┊ hint: the reward asks for what the held-out check counts as worse ┊ no baseline yet"
    )


@pytest.mark.parametrize(
    ("reward", "told", "hinted"),
    [
        (None, "reward n/d", False),
        (RewardMove(before=None, after=0.5), "reward 0.50, before n/d", False),
        (RewardMove(before=0.25, after=0.5), "reward 0.25 → 0.50 did not fall", True),
        (RewardMove(before=0.5, after=0.5), "reward 0.50 → 0.50 did not fall", False),
        (RewardMove(before=0.5, after=0.25), "reward 0.50 → 0.25 fell too", False),
        # Both rose, or the interval of the held-out score holds 0: nothing is said to contradict.
        (msgspec.structs.replace(AGAINST, after=0.75), "reward 0.50 → 0.75 did not fall", True),
        (
            msgspec.structs.replace(AGAINST, held_out=msgspec.structs.replace(UP, low=-0.125)),
            "reward 0.50 → 0.25 fell too",
            False,
        ),
    ],
)
def test_what_the_reward_did_is_said_as_it_was_recorded(reward: RewardMove | None, told: str, hinted: bool) -> None:
    text = said(FirstMover(falls=(fell(2, 9, reward=reward),)), LABELS)
    assert f"┊ {told} ┊" in text
    assert ("hint: " in text) == hinted


@pytest.mark.parametrize(
    ("verdict", "state", "told"),
    [
        ("refuse", "rejected", "by v2, refused ┊"),
        ("pass", "live", "by v2, live ┊"),
        # Promoted against the gate.
        ("refuse", "live", "by v2, live ┊"),
        ("pass", "canary", "by v2, on trial ┊"),
        ("inconclusive", "rejected", "by v2 ┊"),
        (None, "candidate", "by v2 ┊"),
    ],
)
def test_a_version_that_fell_and_serves_is_said_to(verdict: str | None, state: str, told: str) -> None:
    assert told in said(FirstMover(falls=(fell(2, 9, verdict=verdict, state=state),)), LABELS)


def test_a_fall_stands_before_what_surely_moved_later_and_behind_what_surely_moved_before() -> None:
    later, before = first_mover_of(ranked(move("entropy", 20))), first_mover_of(ranked(move("entropy", 1)))
    between = first_mover_of(ranked(move("entropy", 5)))
    texts = [
        said(msgspec.structs.replace(view, falls=(fell(2, 9),)), LABELS).split(" ┊ ")[0]
        for view in (later, before, between)
    ]
    assert texts[0].startswith("rew-eval @2–9: held-out 0.75 → 0.25 by v2, refused")
    assert texts[1] == "entropy @1"
    assert texts[2].startswith("entropy @5 = rew-eval @2–9: held-out")
    assert "then rew-eval @2–9" in said(msgspec.structs.replace(before, falls=(fell(2, 9),)), LABELS)


def test_what_fell_is_not_said_to_be_unknown() -> None:
    view = FirstMover(unknown=("reward_eval_gap", "pass_at_k"), steady=("mfu",), falls=(fell(2, 9),))
    assert said(view, LABELS).endswith("steady: mfu ┊ n/d: pass@k")
