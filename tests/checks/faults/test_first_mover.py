"""What the first mover says: order, ties, steadiness, and nothing of what is not known."""

from datetime import UTC, datetime
from typing import Any

import numpy as np
import polars as pl
import pytest

from checks.finding import Finding
from checks.suite import run, select_checks
from tests.checks.simulated_runs import COLUMNS, SPARSE, Move, simulated_run

CHECK = select_checks(["first-mover"])


def found(steps: pl.DataFrame, **tables: pl.DataFrame) -> Finding:
    return run({"steps": steps, **tables}, checks=CHECK).finding("first-mover")


def incident(*moves: Move, every: int = 10, seed: int = 1, adapter: str | None = None) -> pl.DataFrame:
    last = max((move.onset for move in moves), default=300)
    return simulated_run(np.random.default_rng(seed), last + 60, moves, every=every, adapter=adapter).steps


def order(finding: Finding) -> list[tuple[Any, ...]]:
    return [(each.detail["rank"], each.detail["signal"]) for each in finding.evidence]


def test_the_sentence_names_the_first_mover_its_followers_and_the_rest() -> None:
    steps = incident(Move("staleness", 300, 12, 1), Move("max_w", 306, 12, 1), Move("grad_norm", 315, 12, 1))
    finding = found(steps.drop("mfu"))
    assert finding.status == "warn"
    assert finding.summary == (
        "staleness @300 → max_w +6 → grad_norm +15; steady: stall, reward_eval_gap, pass_at_k, entropy; no data: mfu"
    )
    assert order(finding) == [(1, "staleness"), (2, "max_w"), (3, "grad_norm")]
    assert [each.step for each in finding.evidence] == [300, 306, 315]


@pytest.mark.parametrize("first", [name for name in COLUMNS if name not in SPARSE])
def test_each_signal_can_be_the_first(first: str) -> None:
    others = [name for name in COLUMNS if name not in SPARSE and name != first][:2]
    moves = [Move(name, 300 + 8 * at, 12, 2) for at, name in enumerate([first, *others])]
    assert [signal for _, signal in order(found(incident(*moves)))] == [first, *others]


@pytest.mark.parametrize("first", SPARSE)
def test_a_sparse_signal_can_be_the_first_of_those_it_does_not_overlap(first: str) -> None:
    finding = found(incident(Move(first, 295, 14, 1), Move("staleness", 312, 12, 2), every=10))
    assert order(finding) == [(1, first), (2, "staleness")]
    assert not any(each.detail["tie"] for each in finding.evidence)


def test_an_onset_interval_that_overlaps_is_a_tie_and_said_to_be_one() -> None:
    finding = found(incident(Move("reward_eval_gap", 302, 16, 1), Move("staleness", 306, 12, 1), every=20))
    assert [each.detail["tie"] for each in finding.evidence] == [True, True]
    assert [rank for rank, _ in order(finding)] == [1, 1]
    assert "staleness @306 = reward_eval_gap +14" in finding.summary
    gap = next(each for each in finding.evidence if each.detail["signal"] == "reward_eval_gap")
    assert (gap.detail["onset_first"], gap.detail["onset_last"]) == (301, 320)


def test_adapters_are_ranked_each_for_itself() -> None:
    steps = pl.concat([incident(Move("entropy", 300, 12, 1), adapter="a"), incident(adapter="b", seed=2)])
    finding = found(steps)
    assert [(each.adapter, each.detail["signal"]) for each in finding.evidence] == [("a", "entropy")]
    assert finding.summary.startswith("a: entropy @300; steady: ")
    assert "; b: steady: " in finding.summary


def test_a_surge_of_entropy_is_as_bad_as_a_collapse() -> None:
    assert order(found(incident(Move("entropy", 300, -12, 1)))) == [(1, "entropy")]


def test_a_healthy_run_is_ok_and_ranks_nothing() -> None:
    finding = found(incident())
    assert (finding.status, finding.value, finding.evidence) == ("ok", 0, ())
    assert finding.summary.startswith("steady: max_w, staleness,")


def test_rows_out_of_order_twice_or_missing_change_nothing_or_little() -> None:
    steps = incident(Move("staleness", 300, 12, 1), Move("max_w", 310, 12, 1))
    clean = found(steps).evidence
    shuffled = pl.concat([steps.sample(fraction=1.0, shuffle=True, seed=3), steps])
    assert found(shuffled).evidence == clean
    holes = steps.with_columns(
        max_w=pl.when(pl.col("step") % 7 == 0)
        .then(None)
        .when(pl.col("step") % 11 == 0)
        .then(float("nan"))
        .otherwise("max_w")
    )
    (first, second) = found(holes).evidence
    assert (first.step, second.detail["signal"]) == (300, "max_w")
    assert second.step is not None
    assert abs(second.step - 310) <= 2


def test_an_infinite_gradient_norm_is_bad_and_breaks_nothing() -> None:
    norm = pl.when(pl.col("step") >= 300).then(float("inf")).otherwise("grad_norm").alias("grad_norm")
    assert order(found(incident(Move("mfu", 310, 12, 1)).with_columns(norm))) == [(1, "grad_norm"), (2, "mfu")]


def test_too_few_steps_are_no_data() -> None:
    finding = found(incident(Move("staleness", 300, 12, 1)).head(40))
    assert (finding.status, finding.value) == ("no_data", None)
    assert "48 steps, or 14 evaluations" in finding.summary


def test_evaluations_of_versions_are_a_signal_without_any_steps() -> None:
    rng = np.random.default_rng(4)
    passed = [rng.random((20, 8)) < (0.7 if version < 22 else 0.2) for version in range(30)]
    evals = pl.DataFrame(
        [
            {"adapter": "a", "version": version, "task_id": str(task), "sample": sample, "passed": bool(one)}
            for version, grid in enumerate(passed)
            for (task, sample), one in np.ndenumerate(grid)
        ]
    )
    versions = pl.DataFrame(
        {"adapter": ["a"] * 30, "version": list(range(30)), "optimizer_step": [10 * at for at in range(30)]}
    )
    evidence = run({"evals": evals, "versions": versions}, checks=CHECK).finding("first-mover").evidence
    (move,) = [each for each in evidence if each.detail["signal"] == "reward_eval_gap"]
    assert move.detail["part"] == "reward_eval"
    first, last = move.detail["onset_first"], move.detail["onset_last"]
    assert isinstance(first, int)
    assert isinstance(last, int)
    assert first <= 220 <= last


def scored_at(updates: int, onset: int, *, stood_at: int) -> pl.DataFrame:
    """A turn for each update, whose w scatters ten times as far from `onset` on; scored at the update + `stood_at`."""
    rng = np.random.default_rng(7)
    mu = rng.normal(-1.5, 0.3, (updates, 24)).clip(max=-0.1)
    spread = np.where(np.arange(1, updates + 1) >= onset, 0.3, 0.03)[:, None]
    return pl.DataFrame(
        {
            "session_id": [f"s{update}" for update in range(1, updates + 1)],
            "adapter": ["a"] * updates,
            "prompt_ids": [[1]] * updates,
            "completion_ids": [list(range(24))] * updates,
            "sampled_logprobs": mu.tolist(),
            "trainer_logprobs": (mu + spread * rng.normal(size=mu.shape)).tolist(),
            "temperature": [1.0] * updates,
            "trainer_step": [update + stood_at for update in range(1, updates + 1)],
        }
    )


def test_w_and_gradient_norm_that_move_in_one_update_are_a_tie() -> None:
    steps = incident(Move("grad_norm", 300, 12, 1), adapter="a").select("step", "adapter", "grad_norm")
    # Our own trainer scores at the step that the weights stood at, and counts the step it makes of that from 1.
    versions = pl.DataFrame({"adapter": ["a"], "version": [0], "optimizer_step": [0]})
    ours = found(steps, turns=scored_at(360, 300, stood_at=-1), versions=versions)
    # Others give both one number.
    others = found(steps, turns=scored_at(360, 300, stood_at=0))
    for finding in (ours, others):
        assert [(each.detail["signal"], each.step) for each in finding.evidence] == [("max_w", 300), ("grad_norm", 300)]
        assert all(each.detail["tie"] for each in finding.evidence)
        assert finding.summary.startswith("max_w @300 = grad_norm +0; ")


def test_a_run_begun_again_moves_in_another_order_by_the_clock() -> None:
    steps = incident(Move("staleness", 300, 12, 1), Move("max_w", 310, 12, 1))
    noon = datetime(2026, 11, 1, 12, tzinfo=UTC)
    minutes = pl.duration(minutes=pl.col("step"))
    timed = found(steps.with_columns(at=pl.lit(noon) + minutes))
    assert [each.detail["at"] for each in timed.evidence] == ["2026-11-01 17:00:00.000Z", "2026-11-01 17:10:00.000Z"]
    assert "clock" not in timed.summary
    again = pl.when(pl.col("step") <= 305).then(pl.duration(days=1)).otherwise(pl.duration(days=0))
    turned = found(steps.with_columns(at=pl.lit(noon) + minutes + again))
    assert [each.detail["signal"] for each in turned.evidence] == ["staleness", "max_w"], "ranks go by step"
    assert turned.summary.endswith(
        "; by the clock the order is another: max_w 2026-11-01 17:10:00.000Z, staleness 2026-11-02 17:00:00.000Z"
    )
    assert [each.detail["at"] for each in found(steps).evidence] == [None, None]


def test_a_run_that_seldom_samples_with_older_weights_ranks_nothing() -> None:
    moved = 0
    for seed in range(10):
        stale = np.random.default_rng([8, seed]).binomial(8, 0.02, 600) / 8
        moved += bool(found(pl.DataFrame({"step": np.arange(600), "staleness_mean": stale})).evidence)
    assert moved == 0


def test_weights_that_begin_to_be_older_in_a_synchronous_run_are_found() -> None:
    stale = np.random.default_rng(8).binomial(8, 0.02, 400) / 8
    stale[300:] += 1
    (move,) = found(pl.DataFrame({"step": np.arange(400), "staleness_mean": stale})).evidence
    assert (move.detail["signal"], move.step) == ("staleness", 300)


def test_a_run_that_is_too_short_misses_no_column() -> None:
    finding = found(incident(Move("staleness", 300, 12, 1)).head(40).drop("max_w"))
    assert finding.missing == ()
    assert finding.summary.endswith("for a baseline: the log has 40 steps")


def test_a_long_run_without_signals_names_what_would_tell_of_them() -> None:
    finding = found(pl.DataFrame({"step": range(60), "lr": [1e-3] * 60}))
    assert {"steps.grad_norm", "turns.trainer_logprobs"} <= {*finding.missing}


def test_steps_without_a_gradient_are_no_part_of_the_norms_curve() -> None:
    # 300 norms with a rise at the 250th; without a gradient in three of four steps the ranking sees just those.
    rng = np.random.default_rng(3)
    norms = np.exp(0.1 * rng.normal(size=300)) * np.where(np.arange(300) >= 250, 3.0, 1.0)
    dense = pl.DataFrame({"step": np.arange(300) * 4, "grad_norm": norms})
    idle = pl.DataFrame({"step": [at for at in range(1200) if at % 4], "grad_norm": [0.0] * 900})
    alone, among = found(dense), found(pl.concat([dense, idle]).sort("step"))
    assert [each.detail for each in among.evidence] == [each.detail for each in alone.evidence]
    assert [each.step for each in alone.evidence] == [1000]
