"""ART: exchanges, choices among messages, both Parquet versions, and the metrics."""

import json
from pathlib import Path
from typing import Any

import pyarrow as arrow
import pyarrow.parquet as parquet

from tests.checks.readers.reading import opened, rows, turns, unreadable, write_lines
from tests.checks.readers.seeds import ART_GROUP, ART_HISTORY, ART_TRAJECTORY, art_parquet, art_parquet_v1


def _parquet(path: Path, *trajectories: dict[str, Any], version: int = 2) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    made = [
        {
            "format_version": version,
            "group_index": 0,
            "trajectory_index": index,
            "group_json": "{}",
            "trajectory_json": json.dumps(each),
        }
        for index, each in enumerate(trajectories)
    ]
    parquet.write_table(arrow.Table.from_pylist(made), path)
    return path


def test_exchanges_of_every_api_are_turns_in_the_order_of_their_ends(tmp_path: Path) -> None:
    found = turns(opened(art_parquet(tmp_path)))
    assert [turn["turn"] for turn in found] == [1, 2, 3]
    assert {turn["session_id"] for turn in found} == {f"{tmp_path.name}/train/0003/0/0"}
    assert {turn["group_id"] for turn in found} == {f"{tmp_path.name}/train/0003/0"}
    chat, responses, messages = found
    assert (chat["prompt_ids"], chat["completion_ids"], chat["sampled_logprobs"]) == ([1, 2], [3, 4], [-0.5, -0.25])
    assert chat["weight_versions"] == [{"version": "4", "start": 0, "end": 2}]
    assert (chat["temperature"], chat["max_tokens"], chat["cached_tokens"]) == (1.0, 8, 1)
    assert (chat["trainer_step"], chat["reward"], chat["purpose"]) == (3, 0.5, "traffic")
    assert responses["prompt_ids"] is None
    assert (responses["stated_prompt_tokens"], responses["max_tokens"]) == (7, 5)
    assert json.loads(responses["request"])["messages"][0] == {"role": "system", "content": "be brief"}
    assert (messages["stated_prompt_tokens"], messages["finish_reason"]) == (7, "length")
    assert json.loads(messages["response"]) == {"role": "assistant", "content": "b"}


def test_versions_that_differ_are_not_laid_to_a_turn(tmp_path: Path) -> None:
    path = _parquet(tmp_path / "train" / "0001.parquet", {**ART_TRAJECTORY, "final_policy_version": 5})
    assert [turn["weight_versions"] for turn in turns(opened(path))] == [None, None, None]


def test_two_choices_are_two_turns_and_their_tokens_are_not_counted_apart(tmp_path: Path) -> None:
    trajectory = json.loads(json.dumps(ART_TRAJECTORY))
    trajectory["exchanges"]["responses"] = trajectory["exchanges"]["messages"] = []
    response = trajectory["exchanges"]["chat_completions"][0]["response"]
    response["choices"].append({**response["choices"][0], "token_ids": [9, 9]})
    found = turns(opened(_parquet(tmp_path / "train" / "0001.parquet", trajectory)))
    assert [turn["completion_ids"] for turn in found] == [[3, 4], [9, 9]]
    assert [turn["stated_completion_tokens"] for turn in found] == [None, None]
    assert [turn["stated_prompt_tokens"] for turn in found] == [2, 2]


def test_ids_may_stand_in_the_names_of_the_logprobs(tmp_path: Path) -> None:
    trajectory = json.loads(json.dumps(ART_TRAJECTORY))
    choice = trajectory["exchanges"]["chat_completions"][0]["response"]["choices"][0]
    del choice["token_ids"]
    for name, each in zip((7, 8), choice["logprobs"]["content"], strict=True):
        each["token"] = f"token_id:{name}"
    assert turns(opened(_parquet(tmp_path / "train" / "1.parquet", trajectory)))[0]["completion_ids"] == [7, 8]


def test_choices_among_messages_answer_all_before_them(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "trajectories" / "train" / "0001.jsonl", [ART_GROUP])
    found = turns(opened(path))
    assert [len(json.loads(turn["request"])["messages"]) for turn in found] == [1, 3]
    assert [turn["finish_reason"] for turn in found] == ["stop", "length"]


def test_the_first_version_and_held_out_trajectories(tmp_path: Path) -> None:
    log = opened(art_parquet_v1(tmp_path))
    [turn] = turns(log)
    assert (turn["purpose"], turn["trainer_step"], json.loads(turn["response"])["content"]) == ("eval", None, "a")
    [sample] = rows(log, "evals")
    assert (sample["step"], sample["suite"], sample["task_id"], sample["score"]) == (2, "val", "0", 1.0)


def test_a_version_that_is_not_known_is_counted(tmp_path: Path) -> None:
    path = _parquet(tmp_path / "train" / "0001.parquet", ART_TRAJECTORY, version=3)
    assert unreadable(opened(path)) == [("train/0001.parquet[0]", "format_version 3, expected 2")]


def test_a_damaged_trajectory_is_counted_and_the_next_is_read(tmp_path: Path) -> None:
    path = _parquet(tmp_path / "train" / "0001.parquet", {**ART_TRAJECTORY, "reward": "high"}, ART_TRAJECTORY)
    log = opened(path)
    assert len(turns(log)) == 3
    assert log.source().unreadable == 1


def test_lines_of_metrics_are_one_row_for_each_step(tmp_path: Path) -> None:
    log = opened(
        write_lines(tmp_path / "history.jsonl", [*ART_HISTORY, {"step": 2, "recorded_at": "x", "val/reward": 1}])
    )
    assert turns(log) == []
    first, second = rows(log, "steps")
    assert (first["step"], first["loss"], first["grad_norm"], first["reward_mean"]) == (1, 0.25, 2.0, 0.5)
    assert (second["step"], second["reward_eval"]) == (2, 1.0)
