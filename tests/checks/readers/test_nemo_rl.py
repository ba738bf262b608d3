"""NeMo-RL: training and validation rows generated from its own writer: each column a batch of one, padded right."""

from pathlib import Path
from typing import Any

from tests.checks.readers.reading import opened, rows, scores, turns, unreadable, write_lines


def _row(**changes: Any) -> dict[str, Any]:
    return {
        "content": ["<user>q<assistant>a<tool>t<assistant>b"],
        "rewards": [0.5],
        "input_lengths": [6],
        "token_ids": [[1, 2, 3, 4, 5, 6, 0, 0]],
        "token_loss_mask": [[0, 0, 1, 1, 0, 1, 0, 0]],
        "sample_loss_mask": [1.0],
        "advantages": [[0.0, 0.0, 0.5, 0.5, 0.5, 0.5, 0.0, 0.0]],
        "generation_logprobs": [[0.0, 0.0, -0.5, -0.25, 0.0, -1.0, 0.0, 0.0]],
        "prev_logprobs": [[0.0, -3.0, -0.625, -0.25, -2.0, -1.5, 0.0, 0.0]],
        "idx": 7,
    } | changes


def test_a_row_is_unnested_unpadded_and_a_turn_for_each_sampled_run(tmp_path: Path) -> None:
    log = opened(write_lines(tmp_path / "exp_001" / "train_data_step12.jsonl", [_row()]))
    first, second = turns(log)
    assert first["session_id"] == second["session_id"] == "exp_001/train_data_step12.jsonl/7"
    assert (first["prompt_ids"], first["completion_ids"]) == ([1, 2], [3, 4])
    assert (second["prompt_ids"], second["completion_ids"]) == ([1, 2, 3, 4, 5], [6])
    assert [turn["sampled_logprobs"] for turn in (first, second)] == [[-0.5, -0.25], [-1.0]]
    assert [score["trainer_logprobs"] for score in scores(log)] == [[-0.625, -0.25], [-1.5]]
    assert [score["advantages"] for score in scores(log)] == [[0.5, 0.5], [0.5]]
    assert (first["reward"], first["trainer_step"], first["trainable"]) == (0.5, 12, None)
    assert first["weight_versions"] is None


def test_samples_of_one_prompt_in_one_step_are_a_group(tmp_path: Path) -> None:
    other = _row(token_ids=[[1, 9, 3, 4, 5, 6, 0, 0]])
    for step in (3, 4):
        write_lines(
            tmp_path / f"train_data_step{step}.jsonl", [_row(idx=0), _row(idx=1, rewards=[0.0]), other | {"idx": 2}]
        )
    found = [turn for turn in turns(opened(tmp_path)) if turn["turn"] == 1]
    groups = [turn["group_id"] for turn in found]
    assert (groups[0] == groups[1], len(set(groups)), len({turn["session_id"] for turn in found})) == (True, 4, 6)


def test_a_dropped_sample_is_not_trainable_and_dynamic_sampling_has_its_own_rewards(tmp_path: Path) -> None:
    row = _row(sample_loss_mask=[0.0], filtered_rewards=[0.25], rewards=[9.0])
    first, _ = turns(opened(write_lines(tmp_path / "train_data_step1.jsonl", [row])))
    assert (first["trainable"], first["untrainable_reason"], first["reward"]) == (False, "sample_loss_mask is 0", 0.25)


def test_an_advantage_of_the_row_is_that_of_its_tokens(tmp_path: Path) -> None:
    log = opened(write_lines(tmp_path / "train_data_step1.jsonl", [_row(advantages=[[1.5]])]))
    assert [score["advantages"] for score in scores(log)] == [[1.5, 1.5], [1.5]]


def test_a_line_of_several_samples_gives_each(tmp_path: Path) -> None:
    both = {name: value * 2 if isinstance(value, list) else value for name, value in _row().items()}
    found = turns(opened(write_lines(tmp_path / "train_data_step1.jsonl", [both | {"rewards": [0.5, 1.0]}])))
    assert [turn["reward"] for turn in found] == [0.5, 0.5, 1.0, 1.0]
    assert len({turn["session_id"] for turn in found}) == 2


def test_lists_of_another_length_stay_for_the_checks(tmp_path: Path) -> None:
    row = _row(generation_logprobs=[[0.0, 0.0, -0.5, -0.25, 0.0]])
    (turn,) = turns(opened(write_lines(tmp_path / "train_data_step1.jsonl", [row])))
    assert (turn["completion_ids"], turn["sampled_logprobs"]) == ([3, 4, 5, 6], [-0.5, -0.25, 0.0])


def test_validation_rows_are_evaluations_of_their_step(tmp_path: Path) -> None:
    rows_ = [
        {"content": ["text"], "rewards": [1.0], "idx": 0},
        {"content": [[{"role": "user"}]], "rewards": [0.0], "idx": 1},
    ]
    log = opened(write_lines(tmp_path / "val_data_step20.jsonl", rows_))
    assert [(turn["purpose"], turn["reward"], turn["completion_text"]) for turn in turns(log)] == [
        ("eval", 1.0, "text"),
        ("eval", 0.0, None),
    ]
    assert [(row["step"], row["suite"], row["score"]) for row in rows(log, "evals")] == [
        (20, "validation", 1.0),
        (20, "validation", 0.0),
    ]


def test_broken_rows_are_named_and_the_others_are_read(tmp_path: Path) -> None:
    lines = [_row(input_lengths=[9]), _row(rewards=[]), _row(token_ids=7), _row(idx=8)]
    log = opened(write_lines(tmp_path / "run" / "train_data_step1.jsonl", lines))
    assert {turn["session_id"] for turn in turns(log)} == {"run/train_data_step1.jsonl/8"}
    assert [place for place, _ in unreadable(log)] == [f"run/train_data_step1.jsonl:{number}" for number in (1, 2, 3)]
    assert unreadable(log)[0][1] == "input_lengths 9 of 8 token_ids, expected no more than there are"
