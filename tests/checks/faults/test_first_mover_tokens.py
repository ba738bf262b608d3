"""The first mover of logs that hold turns and scores and no table of steps: of tokens alone."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

from checks.finding import Finding
from checks.readers.open_log import open_log
from checks.suite import run, select_checks
from tests.checks.scored_turns import PROMPT, ScoredTurn, native, scored_turns

CHECK = select_checks(["first-mover"])
STEPS, STALE, SKEWED = 120, 84, 92


def incident(seed: int = 5) -> list[ScoredTurn]:
    return scored_turns(np.random.default_rng(seed), STEPS, stale=STALE, skewed=SKEWED)


def healthy(seed: int = 6) -> list[ScoredTurn]:
    return scored_turns(np.random.default_rng(seed), STEPS, stale=STEPS + 1, skewed=STEPS + 1)


# Any: lines of any format.
def lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def found(path: Path) -> Finding:
    return run(open_log(path), checks=CHECK).finding("first-mover")


def said(finding: Finding) -> list[tuple[Any, ...]]:
    names = ("rank", "signal", "onset_first", "onset_last", "tie")
    return [(each.step, each.adapter, *(each.detail[name] for name in names)) for each in finding.evidence]


RIGHT = [
    (STALE, "bot", 1, "staleness", STALE, STALE, False),
    (SKEWED, "bot", 2, "max_w", SKEWED, SKEWED, False),
]
UNSEEN = "no data: stall, mfu, reward_eval_gap, pass_at_k, grad_norm"


def test_turns_and_scores_alone_give_the_order_and_the_steps(tmp_path: Path) -> None:
    finding = found(lines(tmp_path / "log.jsonl", [native(turn) for turn in incident()]))
    assert finding.status == "warn"
    assert said(finding) == RIGHT
    assert finding.summary == f"staleness @{STALE} → max_w +{SKEWED - STALE}; steady: entropy; {UNSEEN}"


def test_a_healthy_log_of_turns_and_scores_ranks_nothing(tmp_path: Path) -> None:
    finding = found(lines(tmp_path / "log.jsonl", [native(turn) for turn in healthy()]))
    assert (finding.status, finding.summary) == ("ok", f"steady: max_w, staleness, entropy; {UNSEEN}")


def test_scores_in_a_file_of_their_own_are_the_same(tmp_path: Path) -> None:
    of_score = ("trainer_step", "trainer_logprobs")
    rows = [native(turn, turn_id=f"t{index}") for index, turn in enumerate(incident())]
    pl.DataFrame([{k: v for k, v in row.items() if k not in of_score} for row in rows]).write_parquet(
        tmp_path / "turns.parquet"
    )
    scores = pl.DataFrame([{k: v for k, v in row.items() if k in ("turn_id", "adapter", *of_score)} for row in rows])
    scores.write_parquet(tmp_path / "scores.parquet")
    assert said(found(tmp_path)) == RIGHT


def test_rewards_of_sessions_meet_evaluations_at_the_steps_of_scores(tmp_path: Path) -> None:
    turns = healthy()
    rows = [native(turn, turn_id=f"t{index}") for index, turn in enumerate(turns)]
    pl.DataFrame([{k: v for k, v in row.items() if k != "trainer_step"} for row in rows]).drop(
        "trainer_logprobs"
    ).write_parquet(tmp_path / "turns.parquet")
    pl.DataFrame([{k: row[k] for k in ("turn_id", "trainer_step", "trainer_logprobs")} for row in rows]).write_parquet(
        tmp_path / "scores.parquet"
    )
    pl.DataFrame(
        [{"session_id": row["session_id"], "value": turn.reward} for row, turn in zip(rows, turns, strict=True)]
    ).write_parquet(tmp_path / "rewards.parquet")
    rng = np.random.default_rng(9)
    evals = [
        {
            "adapter": "bot",
            "version": step,
            "task_id": f"t{task}",
            "score": 0.5 - 0.4 * (step >= 80) + rng.normal(0, 0.02),
        }
        for step in range(4, STEPS + 1, 4)
        for task, noise in enumerate(rng.normal(0, 0.02, 5))
    ]
    pl.DataFrame(evals).write_parquet(tmp_path / "evals.parquet")
    finding = found(tmp_path)
    (move,) = finding.evidence
    assert (move.detail["signal"], move.detail["onset_first"], move.detail["onset_last"]) == ("reward_eval_gap", 77, 80)


def test_a_log_that_gives_versions_only_reads_them_as_steps(tmp_path: Path) -> None:
    rows = [native(turn, trainer_step=None, trainer_version=turn.step) for turn in incident()]
    assert said(found(lines(tmp_path / "log.jsonl", rows))) == RIGHT


def test_adapters_are_ranked_each_by_its_own_tokens(tmp_path: Path) -> None:
    rows = [native(turn) for turn in incident()]
    rows += [native(turn, session_id=f"other/{turn.step}/{turn.number}", adapter="calm") for turn in healthy()]
    finding = found(lines(tmp_path / "log.jsonl", rows))
    assert said(finding) == RIGHT
    assert "; calm: steady: max_w, staleness, entropy; " in finding.summary


def test_the_trainers_entropies_stand_before_the_estimate_from_sampled_tokens(tmp_path: Path) -> None:
    given = [
        native(turn, entropies=[value * (0.4 if turn.step >= 80 else 1) for value in turn.entropies])
        for turn in healthy()
    ]
    (move,) = found(lines(tmp_path / "given.jsonl", given)).evidence
    assert (move.step, move.detail["part"]) == (80, "entropy")
    sampled = [
        native(turn, trainer_logprobs=None, sampled_logprobs=[v * (0.3 if turn.step >= 80 else 1) for v in turn.mu])
        for turn in healthy()
    ]
    (move,) = found(lines(tmp_path / "sampled.jsonl", sampled)).evidence
    assert (move.step, move.detail["part"]) == (80, "entropy_sampled_estimate")


def prime_rl(folder: Path, turns: list[ScoredTurn]) -> None:
    for step in range(1, STEPS + 1):
        rows = [
            {
                "schema_version": 1,
                "step": step,
                "rank": 0,
                "micro_step": 0,
                "micro_sequence_idx": 0,
                "export_sequence_idx": turn.number,
                "env_name": "math",
                "token_ids": [*PROMPT, *turn.ids],
                "position_ids": list(range(len(PROMPT) + len(turn.ids))),
                "loss_mask": [False] * len(PROMPT) + [True] * len(turn.ids),
                "advantages": [0.5] * (len(PROMPT) + len(turn.ids)),
                "inference_logprobs": [0.0] * len(PROMPT) + turn.mu,
                "trainer_logprobs": [0.0] * len(PROMPT) + turn.old,
                "entropy": [0.0] * len(PROMPT) + turn.entropies,
                "mismatch_kl": [None] * (len(PROMPT) + len(turn.ids)),
                "rl_weights": None,
                "ce_weights": None,
                "ref_kl_weights": None,
            }
            for turn in turns
            if turn.step == step
        ]
        lines(folder / f"token_exports/step_{step}/rank_0.jsonl", rows)


def nemo_rl(folder: Path, turns: list[ScoredTurn]) -> None:
    for step in range(1, STEPS + 1):
        rows = [
            {
                "content": ["q"],
                "rewards": [turn.reward],
                "input_lengths": [len(PROMPT) + len(turn.ids)],
                "token_ids": [[*PROMPT, *turn.ids, 0]],
                "token_loss_mask": [[0] * len(PROMPT) + [1] * len(turn.ids) + [0]],
                "sample_loss_mask": [1.0],
                "advantages": [[0.5]],
                "generation_logprobs": [[0.0] * len(PROMPT) + turn.mu + [0.0]],
                "prev_logprobs": [[0.0] * len(PROMPT) + turn.old + [0.0]],
                "idx": turn.number,
            }
            for turn in turns
            if turn.step == step
        ]
        lines(folder / f"train_data_step{step}.jsonl", rows)


def slime(folder: Path, turns: list[ScoredTurn]) -> None:
    for step in range(1, STEPS + 1):
        of_step = [turn for turn in turns if turn.step == step]
        samples = [
            {
                "group_index": 0,
                "index": turn.number,
                "prompt": "q",
                "tokens": [*PROMPT, *turn.ids],
                "response": "a",
                "response_length": len(turn.ids),
                "reward": turn.reward,
                "loss_mask": None,
                "weight_versions": [str(turn.version)],
                "rollout_log_probs": turn.mu,
                "remove_sample": False,
                "status": "completed",
                "metadata": {},
            }
            for turn in of_step
        ]
        trained = [
            {
                "data_parallel_rank": 0,
                "sample_index": turn.number,
                "rollout_position": turn.number,
                "tokens": torch.tensor([*PROMPT, *turn.ids]),
                "loss_masks": torch.ones(len(turn.ids), dtype=torch.int32),
                "response_lengths": len(turn.ids),
                "total_lengths": len(PROMPT) + len(turn.ids),
                "log_probs": torch.tensor(turn.old),
            }
            for turn in of_step
        ]
        for name, held in (
            ("rollout", {"rollout_id": step, "samples": samples}),
            ("train", {"format_version": 2, "rollout_id": step, "rank": 0, "samples": trained, "dp_shards": []}),
        ):
            (folder / name).mkdir(parents=True, exist_ok=True)
            torch.save(held, folder / name / f"{step}.pt")


@pytest.mark.parametrize(
    ("write", "form", "order"),
    [
        (prime_rl, "prime-rl", [("max_w", SKEWED)]),
        (nemo_rl, "nemo-rl", [("max_w", SKEWED)]),
        (slime, "slime", [("staleness", STALE), ("max_w", SKEWED)]),
    ],
)
def test_logs_of_frameworks_rank_what_their_tokens_tell(
    tmp_path: Path, write: Callable[[Path, list[ScoredTurn]], None], form: str, order: list[tuple[str, int]]
) -> None:
    write(tmp_path, incident())
    report = run(open_log(tmp_path), checks=CHECK)
    assert (report.source.format, report.source.unreadable) == (form, 0)
    assert [(each.detail["signal"], each.step) for each in report.finding("first-mover").evidence] == order
