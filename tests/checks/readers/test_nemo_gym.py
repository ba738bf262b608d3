"""NeMo Gym: real rollouts with and without token ids; token capture and companions generated from their definition."""

import json
from pathlib import Path
from typing import Any

from tests.checks.readers.reading import opened, turns, unreadable, write_lines


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_rollouts_with_tokens_give_ids_log_probabilities_and_group(shared_folder: Path) -> None:
    path = shared_folder / "samples/nemo-gym/competitive_coding_challenges__example_rollouts.jsonl"
    found, lines = turns(opened(path)), _lines(path)
    assert len(found) == len(lines) == 5
    for turn, line in zip(found, lines, strict=True):
        item = line["response"]["output"][-1]
        assert turn["prompt_ids"] == item["prompt_token_ids"]
        assert turn["completion_ids"] == item["generation_token_ids"]
        assert turn["sampled_logprobs"] == item["generation_log_probs"]
        usage = line["response"]["usage"]
        assert turn["stated_prompt_tokens"] == usage["input_tokens"] == len(turn["prompt_ids"])
        assert turn["stated_completion_tokens"] == usage["output_tokens"] == len(turn["completion_ids"])
        assert (turn["reward"], turn["finish_reason"], turn["loss_mask"]) == (line["reward"], None, None)
        assert turn["session_id"] == f"nemo-gym/{path.name}/task0-roll{line['_ng_rollout_index']}"
    assert len({turn["session_id"] for turn in found}) == 5
    assert {turn["group_id"] for turn in found} == {f"nemo-gym/{path.name}/task0"}


def test_rollouts_of_text_give_a_turn_for_each_reply(shared_folder: Path) -> None:
    path = shared_folder / "samples/nemo-gym/example_single_tool_call__example_rollouts.jsonl"
    found, lines = turns(opened(path)), _lines(path)
    assert len({turn["session_id"] for turn in found}) == len(lines) == 5
    tools = [sum(item["type"] == "function_call_output" for item in line["response"]["output"]) for line in lines]
    assert len(found) == sum(count + 1 for count in tools) == 8
    assert {turn["reward"] for turn in found} == {1.0}
    assert all(turn["prompt_ids"] is None and turn["completion_ids"] is None for turn in found)
    first = json.loads(found[0]["request"])
    assert first["messages"] == lines[0]["responses_create_params"]["input"]
    assert json.loads(found[0]["response"])["content"] == lines[0]["response"]["output"][0]["content"][0]["text"]
    last = [turn for turn in found if turn["session_id"].endswith(":5")]
    assert json.loads(last[0]["response"])["tool_calls"][0]["function"]["name"] == "get_weather"
    assert [turn["finish_reason"] for turn in last] == [None, "stop"]


def _call(prompt: list[int], generated: list[int], **item: Any) -> dict[str, Any]:
    tokens = {
        "prompt_token_ids": prompt,
        "generation_token_ids": generated,
        "generation_log_probs": [-0.5] * len(generated),
    }
    return {"type": "message", "role": "assistant", "content": [{"text": "x"}]} | tokens | item


def test_a_tool_loop_is_a_turn_for_each_call(tmp_path: Path) -> None:
    output = [
        {"type": "reasoning", "summary": [{"text": "hm"}]},
        _call([1, 2], [3], type="function_call", name="f", call_id="c", arguments="{}"),
        {"type": "function_call_output", "call_id": "c", "output": "o"},
        _call([1, 2, 3, 9], [4, 5]),
    ]
    response = {"output": output, "incomplete_details": {"reason": "max_output_tokens"}, "usage": {"input_tokens": 6}}
    line = {
        "responses_create_params": {"input": "q"},
        "response": response,
        "reward": 0.5,
        "_ng_task_index": 3,
        "_ng_rollout_index": 1,
    }
    first, second = turns(opened(write_lines(tmp_path / "run" / "r.jsonl", [line])))
    assert (first["prompt_ids"], first["completion_ids"], first["finish_reason"]) == ([1, 2], [3], None)
    assert (second["prompt_ids"], second["completion_ids"], second["finish_reason"]) == ([1, 2, 3, 9], [4, 5], "length")
    assert [turn["turn"] for turn in (first, second)] == [1, 2]
    assert (second["session_id"], second["group_id"]) == ("run/r.jsonl/task3-roll1", "run/r.jsonl/task3")
    assert second["stated_prompt_tokens"] is None, "the usage is of both calls together"


def test_captured_calls_are_turns_of_their_rollout_and_newer_schemas_are_refused(tmp_path: Path) -> None:
    entry = {
        "schema_version": 1,
        "rollout_id": "task0-roll1",
        "model_call_id": "m1",
        "model": "policy",
        "prompt_token_ids": [1, 2],
        "generation_token_ids": [3],
        "generation_log_probs": [-0.25],
        "routed_experts": [[0], [1], [2]],
        "output_items": [],
        "created_at": 1_760_000_000.5,
    }
    newer = entry | {"schema_version": 2}
    log = opened(write_lines(tmp_path / "task0-roll1.tokens.jsonl", [entry, newer, entry | {"model_call_id": "m2"}]))
    first, second = turns(log)
    assert (first["session_id"], first["turn_id"], first["turn"], second["turn"]) == ("task0-roll1", "m1", 1, 2)
    assert (first["prompt_ids"], first["completion_ids"], first["sampled_logprobs"]) == ([1, 2], [3], [-0.25])
    assert first["routed_experts_tokens"] == 3
    assert first["finished_at"].timestamp() == 1_760_000_000.5
    assert unreadable(log) == [("task0-roll1.tokens.jsonl:2", "schema_version 2, expected at most 1")]


def test_companions_are_left_out_beside_rollouts_and_refused_alone(tmp_path: Path) -> None:
    write_lines(tmp_path / "x_materialized_inputs.jsonl", [{"responses_create_params": {"input": "q"}}])
    alone = opened(tmp_path)
    assert unreadable(alone) == [
        ("x_materialized_inputs.jsonl:1", "responses_create_params without a response, expected a rollout")
    ]
    line = {"responses_create_params": {"input": "q"}, "response": {"output": [_call([1], [2])]}, "reward": 1}
    write_lines(tmp_path / "x.jsonl", [line])
    both = opened(tmp_path)
    assert len(turns(both)) == 1
    assert both.source().unreadable == 0
