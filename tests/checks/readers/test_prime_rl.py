"""prime-rl: token exports and metrics generated from prime-rl's own writer (no public file of them is known)."""

import json
import math
from pathlib import Path
from typing import Any

from tests.checks.readers.reading import opened, rows, scores, turns, unreadable, write_lines


def _export(**changes: Any) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "step": 5,
        "rank": 1,
        "micro_step": 0,
        "micro_sequence_idx": 0,
        "export_sequence_idx": 3,
        "env_name": "math",
        "token_ids": [10, 11, 12, 13, 14, 15],
        "position_ids": [0, 1, 2, 3, 4, 5],
        "loss_mask": [False, False, True, True, False, True],
        "advantages": [0.0, 0.0, 0.5, 0.5, 0.0, 0.5],
        "inference_logprobs": [0.0, 0.0, -0.125, -1.5, 0.0, 0.0],
        "trainer_logprobs": [-9.0, -8.0, -0.25, -1.0, -7.0, -0.5],
        "entropy": [1.0, 2.0, 0.25, 0.75, 3.0, 0.5],
        "mismatch_kl": [None] * 6,
        "rl_weights": None,
        "ce_weights": None,
        "ref_kl_weights": None,
    } | changes


def test_a_packed_sequence_is_a_turn_for_each_sampled_run_with_both_sides(tmp_path: Path) -> None:
    log = opened(write_lines(tmp_path / "token_exports/step_5/rank_1.jsonl", [_export()]))
    first, second = turns(log)
    assert first["session_id"] == second["session_id"] == "step_5/rank_1/3"
    assert (first["turn"], first["prompt_ids"], first["completion_ids"]) == (1, [10, 11], [12, 13])
    assert (second["turn"], second["prompt_ids"], second["completion_ids"]) == (2, [10, 11, 12, 13, 14], [15])
    assert (first["sampled_logprobs"], second["sampled_logprobs"]) == ([-0.125, -1.5], [0.0])
    assert (first["loss_mask"], first["place"]) == ([1, 1], "step_5/rank_1.jsonl:1")
    one, two = scores(log)
    assert (one["trainer_logprobs"], two["trainer_logprobs"]) == ([-0.25, -1.0], [-0.5])
    assert (one["entropies"], one["advantages"]) == ([0.25, 0.75], [0.5, 0.5])
    assert (one["trainer_step"], one["trainer_version"]) == (5, 4), "step 5 updates what 4 steps have made"
    assert log.source().format == "prime-rl"


def test_one_object_per_token_is_the_same(tmp_path: Path) -> None:
    names = {
        "id": "token_ids",
        "loss_mask": "loss_mask",
        "advantage": "advantages",
        "inference_logprob": "inference_logprobs",
        "trainer_logprob": "trainer_logprobs",
        "entropy": "entropy",
    }
    columns = _export()
    tokens = [{name: columns[column][index] for name, column in names.items()} for index in range(6)]
    older = {name: value for name, value in columns.items() if not isinstance(value, list)} | {"tokens": tokens}
    new = opened(write_lines(tmp_path / "new" / "rank_1.jsonl", [columns]))
    old = opened(write_lines(tmp_path / "old" / "rank_1.jsonl", [older]))
    skipped = {"place"}
    for one, two in zip(turns(new), turns(old), strict=True):
        assert {k: v for k, v in one.items() if k not in skipped} == {k: v for k, v in two.items() if k not in skipped}
    assert scores(new) == scores(old)


def test_a_number_that_was_not_finite_is_not_a_number(tmp_path: Path) -> None:
    broken = _export(trainer_logprobs=[None, -8.0, None, -1.0, -7.0, -0.5])
    first, _ = scores(opened(write_lines(tmp_path / "rank_0.jsonl", [broken])))
    assert math.isnan(first["trainer_logprobs"][0])
    assert first["trainer_logprobs"][1] == -1.0


def test_tokens_with_a_cross_entropy_weight_only_were_not_sampled(tmp_path: Path) -> None:
    weights = {"rl_weights": [0, 0, 1.0, 1.0, 0, 0], "ce_weights": [0, 0, 0, 0, 0, 1.0]}
    (turn,) = turns(opened(write_lines(tmp_path / "rank_0.jsonl", [_export(**weights)])))
    assert turn["completion_ids"] == [12, 13]


def test_sequences_of_all_steps_and_ranks_are_apart_and_in_order(tmp_path: Path) -> None:
    for step in (10, 2):
        for rank in (0, 1):
            lines = [_export(step=step, rank=rank, export_sequence_idx=index) for index in range(2)]
            write_lines(tmp_path / f"token_exports/step_{step}/rank_{rank}.jsonl", lines)
    (tmp_path / "token_exports/step_2/STABLE").touch()
    found = [turn for turn in turns(opened(tmp_path)) if turn["turn"] == 1]
    assert [turn["trainer_step"] for turn in found] == [2] * 4 + [10] * 4
    assert len({turn["session_id"] for turn in found}) == 8


def _traces(step: int, *runs: tuple[list[int], int]) -> dict[str, Any]:
    """An episode with a trace for each of some sequences, each of which ends in some sampled tokens."""
    traces = [
        {
            "id": f"trace-{step}-{index}",
            "nodes": [
                {
                    "message": {"role": "assistant"},
                    "sampled": True,
                    "token_ids": ids,
                    "mask": [False] * (len(ids) - sampled) + [True] * sampled,
                    "logprobs": [-0.1] * sampled,
                }
            ],
            "rewards": {"r": {"score": float(index)}},
        }
        for index, (ids, sampled) in enumerate(runs)
    ]
    work = {"type": "train", "step": step, "policy": {"start": step - 2, "end": step - 2}}
    return {
        "env": {"id": "e"},
        "task": {"type": "t"},
        "run": {"type": "train", "id": "r", "work": work},
        "traces": traces,
    }


def _short(ids: list[int], mu: float, pi: float, step: int, index: int) -> dict[str, Any]:
    columns = {"token_ids": ids, "loss_mask": [False, True], "advantages": [0, 1.0], "entropy": [0, 0.5]}
    both = {"inference_logprobs": [0.0, mu], "trainer_logprobs": [0.0, pi]}
    return _export(**columns, **both, step=step, export_sequence_idx=index)


def test_exports_of_a_step_are_joined_with_its_traces_by_their_tokens(tmp_path: Path) -> None:
    for step in (2, 3):
        lines = [_traces(step, ([1, 2], 1), ([1, 2], 1), ([1, 3], 1), ([1, 4], 1))]
        write_lines(tmp_path / f"rollouts/step_{step}/train/all/traces.jsonl", lines)
        write_lines(tmp_path / f"rollouts/step_{step}/train/effective/traces.jsonl", lines)
        exports = [
            _short([1, 3], -0.125, -0.25, step, 0),
            _short([1, 2], -0.5, -0.75, step, 1),
            _short([1, 2], -0.5, -1.0, step, 2),
            _short([8, 9], -2.0, -3.0, step, 3),
        ]
        write_lines(tmp_path / f"token_exports/step_{step}/rank_0.jsonl", exports)
    log = opened(tmp_path)
    found, scored = turns(log), scores(log)
    of_step = [turn for turn in found if turn["trainer_step"] == 3]
    assert [turn["session_id"] for turn in of_step] == [*(f"trace-3-{n}" for n in range(4)), "step_3/rank_1/3"]
    assert [turn["sampled_logprobs"] for turn in of_step] == [[-0.5], [-0.5], [-0.125], [-0.1], [-2.0]]
    assert [turn["trainer_logprobs"] for turn in of_step] == [[-0.75], [-1.0], [-0.25], None, [-3.0]]
    assert [turn["reward"] for turn in of_step] == [0.0, 1.0, 2.0, 3.0, None]
    assert of_step[0]["weight_versions"] == [{"version": "1", "start": 0, "end": 1}]
    assert {(score["trainer_step"], score["trainer_version"]) for score in scored} == {(2, 1), (3, 2)}
    assert len(found) == 10
    assert log.source().format == "prime-rl"


def test_metric_lines_of_one_step_are_joined(tmp_path: Path) -> None:
    trainer = {
        "step": 1,
        "time": 1_760_000_000.0,
        "mismatch_kl/all/mean": 0.002,
        "entropy/all/mean": 0.5,
        "optim/grad_norm": 0.25,
        "optim/lr": 1e-6,
        "perf/mfu": 38.5,
        "time/step": 12.0,
        "time/wait_for_batch": 3.0,
    }
    orchestrator = {
        "step": 1,
        "time": 1_760_000_001.0,
        "time/step": 13.0,
        "time/wait_for_policy": 4.0,
        "off_policy/mean": 1.5,
        "off_policy/max": 3.0,
        "reward/all/mean": 0.75,
        "eval/math/avg@4": 0.5,
    }
    log = opened(write_lines(tmp_path / "metrics.jsonl", [orchestrator, trainer, {"time": 1.0, "perf/mfu": 1.0}]))
    (step,) = rows(log, "steps")
    assert step.pop("at").timestamp() == 1_760_000_000.0
    assert step == {
        "step": 1,
        "duration_s": 12.0,
        "wait_s": 3.0,
        "engine_wait_s": 4.0,
        "mfu": 0.385,
        "grad_norm": 0.25,
        "entropy": 0.5,
        "reward_mean": 0.75,
        "reward_eval": 0.5,
        "kl_k3": 0.002,
        "staleness_mean": 1.5,
        "staleness_max": 3.0,
        "lr": 1e-6,
    }
    assert unreadable(log)[0][1] == "no step, expected {step, time, metric: number}"


def test_a_packed_batch_is_refused_with_the_switch_that_helps(tmp_path: Path) -> None:
    path = tmp_path / "rollouts/step_3/rank_0.bin"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"\x91\x93\x91\x01\x91\xc3\x91\xca\x00\x00\x00\x00")
    ((place, reason),) = unreadable(opened(path))
    assert place == "step_3/rank_0.bin"
    assert "set trainer.enable_token_export = true" in reason


def test_a_broken_line_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    lines: list[Any] = [_export(), json.dumps(_export())[:-30], _export(token_ids="x"), _export(export_sequence_idx=4)]
    log = opened(write_lines(tmp_path / "step_5" / "rank_1.jsonl", lines))
    assert len(turns(log)) == 4
    assert [place for place, _ in unreadable(log)] == ["rank_1.jsonl:2", "step_5/rank_1.jsonl:3"]


def test_a_line_larger_than_the_head_of_a_file_is_recognised(tmp_path: Path) -> None:
    tokens = 100_000
    columns = {name: [value[2]] * tokens for name, value in _export().items() if isinstance(value, list)}
    columns["loss_mask"] = [False] * 90_000 + [True] * 10_000
    path = write_lines(tmp_path / "rank_1.jsonl", [_export(**columns)])
    assert path.stat().st_size > 2**20
    (turn,) = turns(opened(path))
    assert (len(turn["prompt_ids"]), turn["completion_ids"]) == (90_000, [12] * 10_000)
