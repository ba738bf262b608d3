"""tinker-cookbook: summaries, metrics and timing generated from the cookbook's own writers (version 0.6.1)."""

from pathlib import Path
from typing import Any

import pytest

from tests.checks.readers.reading import opened, rows, turns, unreadable, write_lines


def _summary(**changes: Any) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "split": "train",
        "iteration": 5,
        "group_idx": 2,
        "traj_idx": 1,
        "tags": ["math"],
        "sampling_client_step": 3,
        "total_reward": 1.5,
        "final_reward": 1.0,
        "trajectory_metrics": {},
        "steps": [
            {"step_idx": 0, "ob_len": 10, "ac_len": 4, "reward": 0.5, "episode_done": False, "metrics": {}, "logs": {}},
            {"step_idx": 1, "ob_len": 20, "ac_len": 6, "reward": 1.0, "episode_done": True, "metrics": {}, "logs": {}},
        ],
        "final_ob_len": 26,
    } | changes


def test_a_trajectory_gives_lengths_versions_and_its_reward(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "iteration_000005/train_rollout_summaries.jsonl", [_summary()])
    first, second = turns(opened(path))
    assert [turn["session_id"] for turn in (first, second)] == ["train/5/2/1"] * 2
    assert [(turn["turn"], turn["group_id"], turn["reward"]) for turn in (first, second)] == [
        (1, "train/5/2", 1.5),
        (2, "train/5/2", 1.5),
    ]
    assert [(turn["stated_prompt_tokens"], turn["stated_completion_tokens"]) for turn in (first, second)] == [
        (10, 4),
        (20, 6),
    ]
    assert (first["prompt_ids"], first["completion_ids"], first["task_id"]) == (None, None, "math")
    assert second["weight_versions"] == [{"version": "3", "start": 0, "end": 6}]
    assert (second["trainer_step"], second["trainer_version"], second["purpose"]) == (5, 5, None)


def test_evaluations_are_samples_of_their_iteration_and_not_trained(tmp_path: Path) -> None:
    line = _summary(split="eval/gsm8k", sampling_client_step=5)
    log = opened(write_lines(tmp_path / "iteration_000005/eval_gsm8k_rollout_summaries.jsonl", [line]))
    assert {(turn["purpose"], turn["trainer_step"]) for turn in turns(log)} == {("eval", None)}
    assert rows(log, "evals") == [
        {"step": 5, "version": 5, "suite": "eval/gsm8k", "task_id": "2", "sample": 1, "score": 1.5}
    ]


def test_metrics_are_steps_and_the_sampled_entropy_is_not_taken_for_the_entropy(tmp_path: Path) -> None:
    line = {
        "step": 4,
        "progress/batch": 4,
        "progress/done_frac": 0.5,
        "optim/lr": 1e-5,
        "optim/kl_sample_train_v1": 0.001,
        "optim/entropy": 0.75,
        "env/all/reward/total": 0.25,
        "env/all/by_group/frac_all_good": 0.25,
        "env/all/by_group/frac_all_bad": 0.5,
        "test/env/all/reward/total": 0.5,
        "async/staleness_mean": 1.5,
        "time/total": 30.0,
    }
    assert rows(opened(write_lines(tmp_path / "metrics.jsonl", [line])), "steps") == [
        {
            "step": 4,
            "duration_s": 30.0,
            "reward_mean": 0.25,
            "reward_eval": 0.5,
            "kl_mu_old": 0.001,
            "staleness_mean": 1.5,
            "zero_variance_share": 0.75,
            "lr": 1e-5,
        }
    ]


def test_waiting_is_the_time_that_only_sampling_took(tmp_path: Path) -> None:
    spans = [
        {"name": "sampling", "duration": 10.0, "wall_start": 0.0, "wall_end": 10.0},
        {"name": "trajectory_group_worker", "duration": 9.0, "wall_start": 1.0, "wall_end": 12.0},
        {"name": "train_step", "duration": 5.0, "wall_start": 11.0, "wall_end": 16.0},
        {"name": "run_evals", "duration": 4.0, "wall_start": 16.0, "wall_end": 20.0},
    ]
    log = opened(write_lines(tmp_path / "timing_spans.jsonl", [{"step": 7, "spans": spans}, {"step": 8, "spans": []}]))
    assert rows(log, "steps") == [{"step": 7, "duration_s": 20.0, "wait_s": 11.0}]
    assert unreadable(log) == [
        (
            f"{tmp_path.name}/timing_spans.jsonl:2",
            "no step or no spans, expected {step, spans: [{name, wall_start, wall_end}]}",
        )
    ]


def test_a_run_s_folder_joins_what_it_holds(tmp_path: Path) -> None:
    for iteration in (0, 1):
        lines = [_summary(iteration=iteration, traj_idx=index) for index in range(2)]
        write_lines(tmp_path / f"iteration_{iteration:06d}/train_rollout_summaries.jsonl", lines)
    write_lines(tmp_path / "metrics.jsonl", [{"step": 0, "progress/done_frac": 0.5, "optim/lr": 1e-5}])
    (tmp_path / "config.json").write_text("{}")
    log = opened(tmp_path)
    assert len({turn["session_id"] for turn in turns(log)}) == 4
    assert log.source().format == "tinker"
    assert rows(log, "steps") == [{"step": 0, "lr": 1e-5}]


@pytest.mark.parametrize(
    "broken", [_summary(iteration="five"), _summary(steps=[{"ob_len": 1.5}]), _summary(total_reward="x")]
)
def test_a_broken_line_is_named_and_the_others_are_read(tmp_path: Path, broken: dict[str, Any]) -> None:
    log = opened(write_lines(tmp_path / "it/train_rollout_summaries.jsonl", [_summary(), broken, _summary(traj_idx=9)]))
    assert len(turns(log)) == 4
    assert [place for place, _ in unreadable(log)] == ["it/train_rollout_summaries.jsonl:2"]
