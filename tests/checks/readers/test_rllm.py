"""rLLM: episode files and the gateway's traces."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

from checks.readers.rllm_gateway import Chains
from tests.checks.readers.reading import opened, rows, turns, unreadable, write_lines
from tests.checks.readers.seeds import RLLM_EPISODE, RLLM_TRACES, rllm_store, rllm_trace


def _episode(path: Path, **fields: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**RLLM_EPISODE, **fields}, indent=2))
    return path


def test_an_episode_of_training_has_its_steps_as_turns(tmp_path: Path) -> None:
    log = opened(_episode(tmp_path / "train_step_5_epoch_0" / "episode_hashdeadbeef_idtask7_1.json"))
    first, second = turns(log)
    assert (first["session_id"], first["group_id"]) == (
        "train_step_5_epoch_0/task7:1",
        "train_step_5_epoch_0/deadbeef/solver",
    )
    assert (first["trainer_step"], first["reward"], first["purpose"]) == (5, 1.0, "traffic")
    assert json.loads(first["request"])["messages"] == [{"role": "user", "content": "q"}]
    assert (first["finish_reason"], second["finish_reason"]) == (None, "length")
    assert second["request"] is None
    assert log.table("evals").is_empty()


def test_an_episode_of_validation_is_a_sample_too(tmp_path: Path) -> None:
    log = opened(_episode(tmp_path / "val_step_5_epoch_0" / "e.json"))
    assert {turn["purpose"] for turn in turns(log)} == {"eval"}
    [sample] = rows(log, "evals")
    assert (sample["step"], sample["task_id"], sample["score"], sample["passed"]) == (5, "deadbeef", 1.0, True)


def test_several_trajectories_are_several_sessions(tmp_path: Path) -> None:
    solver = RLLM_EPISODE["trajectories"][0]
    path = _episode(tmp_path / "train_step_1_epoch_0" / "e.json", trajectories=[solver, {**solver, "name": "judge"}])
    assert sorted({turn["session_id"].rsplit("/", 1)[1] for turn in turns(opened(path))}) == ["judge.1", "solver.0"]


def test_a_trace_has_exact_tokens_and_its_version(tmp_path: Path) -> None:
    first, second = turns(opened(rllm_store(tmp_path)))
    assert (first["session_id"], first["turn_id"]) == ("run1/s", "a")
    assert (first["prompt_ids"], first["completion_ids"], first["sampled_logprobs"]) == ([1, 2], [3], [-0.5])
    assert first["weight_versions"] == [{"version": "7", "start": 0, "end": 1}]
    assert (first["finished_at"] - first["started_at"]).total_seconds() == 0.5
    # Stored as [4] after the prompt and completion of the trace before it.
    assert second["prompt_ids"] == [1, 2, 3, 4]


def test_a_long_chain_is_put_together_though_little_is_kept_at_hand() -> None:
    length = 60
    links = {
        f"t{i}": rllm_trace(
            f"t{i}",
            prompt_token_ids=[0] if i == 0 else [],
            prompt_delta_token_ids=None if i == 0 else [1000 + i],
            parent_trace_id=None if i == 0 else f"t{i - 1}",
            completion_token_ids=[i],
        )
        for i in range(length)
    }
    expected = [[0]]
    for i in range(1, length):
        expected.append([*expected[-1], i - 1, 1000 + i])
    chains = Chains(links.get, kept_tokens=5)
    # Backwards, so that none can build on the one before it.
    assert [chains.prompt(links[f"t{i}"]) for i in reversed(range(length))] == expected[::-1]


def test_a_chain_that_is_broken_or_goes_round_is_counted(tmp_path: Path) -> None:
    lost = rllm_trace("l", prompt_delta_token_ids=[1], parent_trace_id="gone")
    one = rllm_trace("x", prompt_delta_token_ids=[1], parent_trace_id="y")
    other = rllm_trace("y", prompt_delta_token_ids=[1], parent_trace_id="x")
    log = opened(rllm_store(tmp_path, [RLLM_TRACES[0], lost, one, other]))
    assert [turn["turn_id"] for turn in turns(log)] == ["a"]
    assert log.source().unreadable == 3


def test_traces_without_ids_have_none(tmp_path: Path) -> None:
    bare = rllm_trace("a", prompt_token_ids=[], completion_token_ids=[], logprobs=None)
    [turn] = turns(opened(write_lines(tmp_path / "t.jsonl", [bare])))
    assert (turn["prompt_ids"], turn["completion_ids"], turn["weight_versions"]) == (None, None, None)
    assert (turn["stated_prompt_tokens"], turn["stated_completion_tokens"]) == (2, 1)


def test_a_trace_that_is_no_json_is_counted_and_the_rest_is_read(tmp_path: Path) -> None:
    path = rllm_store(tmp_path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("INSERT INTO traces VALUES ('broken', '{', 0.5)")
    log = opened(path)
    assert [place for place, _ in unreadable(log)] == [f"{tmp_path.name}/gateway_traces.db trace broken"]
    assert len(turns(log)) == 2
