"""Agent Lightning: events, spans of versions 0, uploaded trajectories."""

import json
from pathlib import Path

from tests.checks.readers.reading import opened, rows, turns, write_lines
from tests.checks.readers.seeds import LIGHTNING_EVENTS, LIGHTNING_SPANS, lightning_zip


def test_model_requests_are_turns_and_the_last_reward_holds(tmp_path: Path) -> None:
    log = opened(write_lines(tmp_path / "events.jsonl", LIGHTNING_EVENTS))
    whole, trimmed = turns(log)
    assert (whole["session_id"], whole["turn"], trimmed["turn"]) == ("r/a1", 1, 2)
    assert (whole["prompt_ids"], whole["completion_ids"], whole["sampled_logprobs"]) == ([1, 2], [3, 4], [-0.5, -0.25])
    assert whole["weight_versions"] == [{"version": "3", "start": 0, "end": 2}]
    assert (whole["finished_at"] - whole["started_at"]).total_seconds() == 0.25
    assert (whole["stated_prompt_tokens"], whole["finish_reason"]) == (2, "stop")
    assert (trimmed["prompt_ids"], trimmed["completion_ids"]) == ([1, 2, 3, 4, 5], [6])
    assert trimmed["weight_versions"] == [{"version": "4", "start": 0, "end": 1}]
    assert [(row["session_id"], row["value"]) for row in rows(log, "rewards")] == [("r/a1", 0.75)]


def test_a_failed_request_is_an_incomplete_turn(tmp_path: Path) -> None:
    event = LIGHTNING_EVENTS[0]
    failed = {**event, "data": {**event["data"], "response": {"error": "x"}, "status": "error", "http_status": 500}}
    [turn] = turns(opened(write_lines(tmp_path / "events.jsonl", [failed])))
    assert (turn["finish_reason"], turn["complete"], turn["completion_ids"]) == ("error", False, None)


def test_a_reply_stored_in_pieces_is_put_together(tmp_path: Path) -> None:
    pieces = [
        {"prompt_token_ids": [1, 2], "choices": [{"token_ids": [3]}]},
        {"choices": [{"token_ids": [4, 5]}]},
        {"choices": []},
    ]
    event = LIGHTNING_EVENTS[0]
    event = {**event, "data": {**event["data"], "response": pieces}}
    [turn] = turns(opened(write_lines(tmp_path / "events.jsonl", [event])))
    assert (turn["prompt_ids"], turn["completion_ids"]) == ([1, 2], [3, 4, 5])


def test_spans_have_the_ids_that_their_attributes_hold(tmp_path: Path) -> None:
    log = opened(write_lines(tmp_path / "spans.jsonl", LIGHTNING_SPANS))
    [turn] = turns(log)
    assert (turn["session_id"], turn["api"]) == ("r/a", "import:agent-lightning")
    assert (turn["prompt_ids"], turn["completion_ids"], turn["sampled_logprobs"]) == ([1, 2], [3], [-0.5])
    assert json.loads(turn["request"])["messages"] == [{"role": "user", "content": "q"}]
    assert [(row["session_id"], row["value"]) for row in rows(log, "rewards")] == [("r/a", 0.5)]


def test_uploaded_trajectories_are_read_inside_of_their_zip(tmp_path: Path) -> None:
    log = opened(lightning_zip(tmp_path))
    [turn] = turns(log)
    assert (turn["session_id"], turn["purpose"], turn["completion_text"]) == ("step_4/r", "eval", "a")
    assert [(row["step"], row["suite"], row["score"]) for row in rows(log, "evals")] == [(4, "validation", 1.0)]
