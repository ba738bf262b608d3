"""Metric logs as JSON in the shapes that trainers and trackers write them."""

import json
import math
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from checks.readers.file_head import FileHead
from checks.readers.formats import FORMATS
from checks.readers.open_log import open_log
from checks.readers.trainer_metrics import TRAINER_METRICS
from checks.readers.unreadable import UnreadableParts
from checks.rows import StepRow


def read(*paths: Path) -> tuple[list[StepRow], UnreadableParts]:
    unreadable = UnreadableParts()
    heads = [FileHead.of(path) for path in paths]
    for head in heads:
        assert next(form.name for form in FORMATS if form.recognise(head)) == "trainer-metrics"
    found = [row for unit in TRAINER_METRICS.units(heads) for row in TRAINER_METRICS.read(unit, unreadable)]
    return [row for row in found if isinstance(row, StepRow)], unreadable


def lines(path: Path, *each: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in each))
    return path


def test_verls_file_logger(tmp_path: Path) -> None:
    path = lines(
        tmp_path / "exp.jsonl",
        {"step": 1, "data": {"actor/grad_norm": 0.5, "training/global_step": 1}},
        {"step": 2, "data": {"actor/grad_norm": float("nan")}},
    )
    rows, _ = read(path)
    assert [row.step for row in rows] == [1, 2]
    assert rows[0].grad_norm == 0.5
    assert math.isnan(rows[1].grad_norm or 0)


def test_lines_of_one_step_are_one_row(tmp_path: Path) -> None:
    """As of a trainer that logs each family of metrics in a line of its own, and its actors in a file each."""
    trainer = lines(
        tmp_path / "trainer.jsonl",
        {"step": 0, "perf/mfu/actor": 0.3},
        {"step": 0, "actor/grad_norm": 0.25},
        {"step": 1, "actor/grad_norm": 0.5},
    )
    rollouts = lines(tmp_path / "rollouts.jsonl", {"step": 1, "critic/score/mean": 0.75, "timing_s/param_sync": 3.0})
    rows, _ = read(trainer, rollouts)
    assert [(row.step, row.mfu, row.grad_norm, row.reward_mean, row.engine_wait_s) for row in rows] == [
        (0, pytest.approx(0.3), 0.25, None, None),
        (1, None, 0.5, 0.75, 3.0),
    ]


def test_a_trainer_state_keeps_training_and_evaluation_apart(tmp_path: Path) -> None:
    history = [
        {"step": 10, "loss": 0.5, "grad_norm": 1.0, "reward": 0.25, "entropy": 0.5},
        {"step": 10, "eval_reward": 0.125, "eval_entropy": 9.0, "eval_loss": 7.0},
        {"step": 10, "train_runtime": 99.0, "train_loss": 0.5},
    ]
    state = {"best_metric": None, "epoch": 1.0, "global_step": 10, "log_history": history}
    path = tmp_path / "trainer_state.json"
    path.write_text(json.dumps(state, indent=2))
    (row,) = read(path)[0]
    assert (row.loss, row.grad_norm, row.reward_mean, row.entropy, row.reward_eval) == (0.5, 1.0, 0.25, 0.5, 0.125)


def test_a_list_of_lines_larger_than_the_head_is_recognised(tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    path.write_text(
        json.dumps([{"step": i, "actor/grad_norm": i / 2, "note": "x" * 1000} for i in range(600)], indent=1)
    )
    rows, _ = read(path)
    assert [row.grad_norm for row in rows] == [i / 2 for i in range(600)]


def test_exports_of_trackers(tmp_path: Path) -> None:
    wandb = lines(tmp_path / "wandb.jsonl", {"_step": 5, "_timestamp": 1_700_000_000, "actor/grad_norm": "NaN"})
    trackio = lines(tmp_path / "trackio.jsonl", {"step": 6, "metrics": {"train/grad_norm": 0.5}})
    assert [(row.step, row.at is not None) for row in read(wandb)[0]] == [(5, True)]
    assert [(row.step, row.grad_norm) for row in read(trackio)[0]] == [(6, 0.5)]


def test_a_first_line_without_a_known_metric_is_no_obstacle(tmp_path: Path) -> None:
    path = lines(tmp_path / "m.jsonl", {"step": 0, "disk/free": 1.0}, {"step": 0, "optim/grad_norm": 0.5})
    assert [row.grad_norm for row in read(path)[0]] == [0.5]


def test_other_lines_are_not_taken_for_metrics(tmp_path: Path) -> None:
    for held in ({"step": 1, "text": "x"}, {"loss": 0.5, "grad_norm": 1.0}, {"step": 1, "reward": 0.5}, {"a": 1}):
        head = FileHead.of(lines(tmp_path / "x.jsonl", held))
        assert TRAINER_METRICS.recognise(head) is None


def test_broken_lines_are_counted_and_the_rest_read(tmp_path: Path) -> None:
    path = lines(tmp_path / "m.jsonl", {"step": 1, "actor/grad_norm": 0.5}, {"actor/grad_norm": 0.5})
    with path.open("a") as file:
        file.write('{"step": 3, "actor/gr\n[1]\n')
    rows, unreadable = read(path)
    assert [row.step for row in rows] == [1]
    assert [part.place for part in unreadable.first] == ["m.jsonl:2", "m.jsonl:3", "m.jsonl:4"]


def test_a_cut_list_is_named(tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    path.write_text('[{"step": 1, "actor/grad_norm": 0.5}, {"step"')
    rows, unreadable = read(path)
    assert (rows, unreadable.count) == ([], 1)


@pytest.mark.parametrize(
    ("name", "steps", "told"),
    [
        ("trl_grpo_vllm_a10g_16steps_seed0_t1.0_fp32_probe", 16, ("grad_norm", "entropy", "lr", "duration_s")),
        ("verl_grpo_vllm_t4_8steps_seed0", 8, ("grad_norm", "entropy", "kl_mu_old", "kl_k3", "reward_mean", "tokens")),
    ],
)
def test_real_logs(shared_folder: Path, name: str, steps: int, told: tuple[str, ...]) -> None:
    path = shared_folder / "samples" / "martingale" / name / "trainer_log.json"
    table = open_log(path).table("steps")
    real = json.loads(path.read_text())
    assert table["step"].to_list() == list(range(1, steps + 1))
    assert table.select(pl.col(told).is_not_null().all()).row(0) == (True,) * len(told)
    key = "grad_norm" if name.startswith("trl") else "actor/grad_norm"
    assert table["grad_norm"].to_list() == [line[key] for line in real if key in line]
    assert table["mfu"].null_count() == steps
    assert table["max_w"].null_count() == steps
