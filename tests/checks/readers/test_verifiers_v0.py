"""verifiers v0: results in the layout of real runs (the sample files are hand-made by others), and generated ones."""

import json
from pathlib import Path

from checks.suite import run, select_checks
from tests.checks.readers.reading import opened, rows, turns, unreadable, write_lines


def test_results_give_rewards_groups_and_text(shared_folder: Path) -> None:
    path = shared_folder / "samples/verifiers/rolloutscope__results.jsonl"
    found = turns(opened(path))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [turn["reward"] for turn in found] == [line["reward"] for line in lines]
    assert [turn["task_id"] for turn in found] == [str(line["example_id"]) for line in lines]
    assert [turn["group_id"].rsplit("#")[1] for turn in found] == [str(line["example_id"]) for line in lines]
    assert len({turn["session_id"] for turn in found}) == 5
    assert json.loads(found[0]["request"])["messages"] == lines[0]["prompt"]
    assert json.loads(found[0]["response"]) == lines[0]["completion"][0]
    assert {turn["purpose"] for turn in found} == {"eval"}
    assert found[0]["prompt_ids"] is None
    truth = ["length" if line["is_truncated"] else "error" if line["error"] else "stop" for line in lines]
    assert [turn["finish_reason"] for turn in found] == truth


def test_a_trajectory_gives_a_turn_for_each_step(shared_folder: Path) -> None:
    first, second = turns(opened(shared_folder / "samples/verifiers/rolloutscope__multi_turn_rollout.jsonl"))
    assert (first["turn"], second["turn"], first["session_id"]) == (1, 2, second["session_id"])
    assert [len(json.loads(turn["request"])["messages"]) for turn in (first, second)] == [1, 3]
    assert (first["finish_reason"], second["finish_reason"]) == ("stop", "stop")
    assert first["started_at"].timestamp() == 1751700100.0


def test_outputs_with_tokens_give_ids_masks_and_log_probabilities(shared_folder: Path) -> None:
    path = shared_folder / "samples/verifiers/rolloutviz__verifiers-generate.json"
    steps = json.loads(path.read_text())["outputs"][0]["trajectory"]
    found = turns(opened(path))
    for turn, step in zip(found, steps, strict=True):
        assert turn["prompt_ids"] == step["tokens"]["prompt_ids"]
        assert turn["completion_ids"] == step["tokens"]["completion_ids"]
        assert turn["sampled_logprobs"] == step["tokens"]["completion_logprobs"]
        assert turn["loss_mask"] == step["tokens"]["completion_mask"]
        assert turn["advantages"] == [step["advantage"]] * len(turn["completion_ids"])
        assert (turn["reward"], turn["base_model"]) == (1.0, "example/model")


def test_metadata_belongs_to_the_results_beside_it(tmp_path: Path, shared_folder: Path) -> None:
    samples = shared_folder / "samples/verifiers"
    (tmp_path / "metadata.json").write_bytes((samples / "rolloutscope__metadata.json").read_bytes())
    alone = opened(tmp_path)
    assert unreadable(alone) == [
        ("metadata.json", "metadata of an evaluation without its rollouts; expected results.jsonl beside it")
    ]
    (tmp_path / "results.jsonl").write_bytes((samples / "rolloutscope__results.jsonl").read_bytes())
    log = opened(tmp_path)
    found = turns(log)
    assert {(turn["base_model"], turn["temperature"], turn["max_tokens"]) for turn in found} == {
        ("synthetic/test-model", 1.0, 512)
    }
    assert log.source().unreadable == 0


def test_groups_of_two_evaluations_are_not_one(tmp_path: Path) -> None:
    rollout = {"example_id": 0, "prompt": "q", "completion": "a", "reward": 1.0}
    for folder in ("a", "b"):
        write_lines(tmp_path / folder / "results.jsonl", [rollout, rollout])
    found = turns(opened(tmp_path))
    assert len({turn["session_id"] for turn in found}) == 4
    assert len({turn["group_id"] for turn in found}) == 2
    assert (found[0]["prompt_text"], found[0]["completion_text"]) == ("q", "a")


def test_rollouts_of_training_are_not_evaluations(tmp_path: Path) -> None:
    rollout = {"example_id": 0, "prompt": "q", "completion": "a", "reward": 1.0, "is_truncated": True}
    (turn,) = turns(opened(write_lines(tmp_path / "step_12" / "train_rollouts.jsonl", [rollout])))
    assert (turn["purpose"], turn["trainer_step"], turn["finish_reason"]) == (None, 12, "length")


def test_evaluations_give_pass_at_k_by_example(tmp_path: Path) -> None:
    """Of 2 tasks with 2 samples: one solved once, one never. pass@1 = (1/2 + 0)/2, pass@2 = (1 + 0)/2."""
    rollouts = [{"example_id": n, "prompt": "q", "completion": "a", "reward": r} for n, r in enumerate([1.0, 0.2])]
    again = [each | {"reward": 0.0} for each in rollouts]
    write_lines(tmp_path / "a" / "results.jsonl", [*rollouts, *again])
    write_lines(tmp_path / "train" / "train_rollouts.jsonl", rollouts)
    log = opened(tmp_path)
    assert [(row["task_id"], row["sample"], row["score"]) for row in rows(log, "evals")] == [
        ("0", 0, 1.0),
        ("1", 0, 0.2),
        ("0", 1, 0.0),
        ("1", 1, 0.0),
    ]
    report = run(log, checks=select_checks(["pass-at-k"]))
    assert report.metrics == {"pass_at_1": 0.25, "pass_at_2": 0.5}


def test_a_file_that_several_units_need_is_counted_once(tmp_path: Path) -> None:
    rollout = {"example_id": 0, "prompt": "q", "completion": "a", "reward": 1.0}
    about = {"env_id": "e", "model": "m", "num_examples": 1, "rollouts_per_example": 1}
    write_lines(tmp_path / "metadata.json", [about])
    for name in ("a.jsonl", "b.jsonl"):
        write_lines(tmp_path / name, [rollout])
    assert opened(tmp_path).source().files == 3
