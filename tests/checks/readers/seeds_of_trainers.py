"""Seeds of the formats that trainers and their tools write, generated from each format's own definition."""

import base64
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as arrow
import pyarrow.parquet as parquet
import torch

from tests.checks.readers.seed_file import Seed, document, lines

LINES: dict[str, dict[str, Any]] = {
    "prime-rl": {
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
        "mismatch_kl": [None, None, None, None, None, None],
        "rl_weights": None,
        "ce_weights": None,
        "ref_kl_weights": None,
    },
    "prime-rl-metrics": {
        "step": 1,
        "time": 1.0,
        "perf/mfu": 30.0,
        "optim/grad_norm": 1.0,
        "time/wait_for_batch": 1.0,
        "time/step": 2.0,
    },
    "verifiers": {
        "id": "episode-a",
        "env": {"id": "gsm8k", "name": "math"},
        "task": {"type": "T", "data": {}, "key": "task-7", "hash": "h"},
        "group": {"id": "g1"},
        "run": {"type": "train", "id": "r", "work": {"type": "train", "step": 4, "policy": {"start": 2, "end": 3}}},
        "ok": True,
        "errors": [],
        "traces": [
            {
                "version": 1,
                "id": "trace-a",
                "agent": {"name": "solver", "trainable": True, "config": {}},
                "nodes": [
                    {
                        "parent": None,
                        "message": {"role": "user", "content": "[1, 2]"},
                        "sampled": False,
                        "timestamp": 1760000000.0,
                        "token_ids": [1, 2],
                        "mask": [False, False],
                        "logprobs": [],
                    },
                    {
                        "parent": 0,
                        "message": {"role": "assistant", "content": "[3, 4, 5]"},
                        "sampled": True,
                        "timestamp": 1760000000.0,
                        "token_ids": [3, 4, 5],
                        "mask": [False, True, True],
                        "logprobs": [-0.5, -1.0],
                        "trainer_logprobs": [-0.25, -0.75],
                        "entropies": [0.1, 0.2],
                        "advantages": [1.0, 1.0],
                    },
                    {
                        "parent": 1,
                        "message": {"role": "user", "content": "[6, 7]"},
                        "sampled": False,
                        "timestamp": 1760000000.0,
                        "token_ids": [6, 7],
                        "mask": [False, False],
                        "logprobs": [],
                    },
                    {
                        "parent": 2,
                        "message": {"role": "assistant", "content": "[8, 9]"},
                        "sampled": True,
                        "timestamp": 1760000000.0,
                        "token_ids": [8, 9],
                        "mask": [False, True],
                        "logprobs": [-0.5],
                    },
                    {
                        "parent": None,
                        "message": {"role": "user", "content": "[1, 90]"},
                        "sampled": False,
                        "timestamp": 1760000000.0,
                        "token_ids": [1, 90],
                        "mask": [False, False],
                        "logprobs": [],
                    },
                    {
                        "parent": 4,
                        "message": {"role": "assistant", "content": "[3, 10]"},
                        "sampled": True,
                        "timestamp": 1760000000.0,
                        "token_ids": [3, 10],
                        "mask": [False, True],
                        "logprobs": [-0.5],
                        "semantic_parents": [{"node": 3, "type": "compaction"}],
                    },
                ],
                "calls": [
                    {
                        "node": 1,
                        "model": "m",
                        "finish_reason": "tool_calls",
                        "sampling": {"temperature": 0.7},
                        "usage": {"prompt_tokens": 1, "cached_input_tokens": 2, "completion_tokens": 2},
                        "time": {"start": 1760000000.0, "end": 1760000002.5},
                    },
                    {"node": 3, "model": "m", "finish_reason": "length"},
                    {"model": "m", "error": {"type": "ProviderError", "message": "x"}},
                ],
                "rewards": {
                    "correct": {"score": 1.0, "weight": 0.5},
                    "style": {"score": 0.25, "weight": 1.0},
                    "late": None,
                },
                "metrics": {},
            }
        ],
    },
    "verifiers-eval": {
        "id": "episode-a",
        "env": {"id": "gsm8k", "name": "math"},
        "task": {"type": "T", "data": {}, "key": "task-7", "hash": "h"},
        "group": {"id": "g1"},
        "run": {"type": "train", "id": "r", "work": {"type": "eval", "step": 4, "policy": {"start": 2, "end": 3}}},
        "ok": True,
        "errors": [],
        "traces": [
            {
                "version": 1,
                "id": "trace-a",
                "agent": {"name": "solver", "trainable": True, "config": {}},
                "nodes": [
                    {
                        "parent": None,
                        "message": {"role": "user", "content": "[1, 2]"},
                        "sampled": False,
                        "timestamp": 1760000000.0,
                        "token_ids": [1, 2],
                        "mask": [False, False],
                        "logprobs": [],
                    },
                    {
                        "parent": 0,
                        "message": {"role": "assistant", "content": "[3, 4, 5]"},
                        "sampled": True,
                        "timestamp": 1760000000.0,
                        "token_ids": [3, 4, 5],
                        "mask": [False, True, True],
                        "logprobs": [-0.5, -1.0],
                        "trainer_logprobs": [-0.25, -0.75],
                        "entropies": [0.1, 0.2],
                        "advantages": [1.0, 1.0],
                    },
                    {
                        "parent": 1,
                        "message": {"role": "user", "content": "[6, 7]"},
                        "sampled": False,
                        "timestamp": 1760000000.0,
                        "token_ids": [6, 7],
                        "mask": [False, False],
                        "logprobs": [],
                    },
                    {
                        "parent": 2,
                        "message": {"role": "assistant", "content": "[8, 9]"},
                        "sampled": True,
                        "timestamp": 1760000000.0,
                        "token_ids": [8, 9],
                        "mask": [False, True],
                        "logprobs": [-0.5],
                    },
                    {
                        "parent": None,
                        "message": {"role": "user", "content": "[1, 90]"},
                        "sampled": False,
                        "timestamp": 1760000000.0,
                        "token_ids": [1, 90],
                        "mask": [False, False],
                        "logprobs": [],
                    },
                    {
                        "parent": 4,
                        "message": {"role": "assistant", "content": "[3, 10]"},
                        "sampled": True,
                        "timestamp": 1760000000.0,
                        "token_ids": [3, 10],
                        "mask": [False, True],
                        "logprobs": [-0.5],
                        "semantic_parents": [{"node": 3, "type": "compaction"}],
                    },
                ],
                "calls": [
                    {
                        "node": 1,
                        "model": "m",
                        "finish_reason": "tool_calls",
                        "sampling": {"temperature": 0.7},
                        "usage": {"prompt_tokens": 1, "cached_input_tokens": 2, "completion_tokens": 2},
                        "time": {"start": 1760000000.0, "end": 1760000002.5},
                    },
                    {"node": 3, "model": "m", "finish_reason": "length"},
                    {"model": "m", "error": {"type": "ProviderError", "message": "x"}},
                ],
                "rewards": {
                    "correct": {"score": 1.0, "weight": 0.5},
                    "style": {"score": 0.25, "weight": 1.0},
                    "late": None,
                },
                "metrics": {},
            }
        ],
    },
    "verifiers-v0": {
        "example_id": 0,
        "prompt": [{"role": "user", "content": "q"}],
        "completion": [{"role": "assistant", "content": "a"}],
        "reward": 1.0,
        "timing": {"start_time": 1.0},
        "is_truncated": False,
        "error": None,
        "trajectory": [
            {
                "prompt": [{"role": "user"}],
                "completion": [{"role": "assistant"}],
                "tokens": {
                    "prompt_ids": [1],
                    "completion_ids": [2],
                    "completion_logprobs": [-0.5],
                    "completion_mask": [1],
                },
                "advantage": 0.5,
                "is_truncated": False,
            }
        ],
    },
    "nemo-rl": {
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
        "filtered_rewards": [1.0],
    },
    "nemo-rl-val": {"content": ["x"], "rewards": [1.0], "idx": 0},
    "nemo-gym": {
        "responses_create_params": {"input": [{"role": "user", "content": "q"}], "tools": []},
        "response": {
            "output": [
                {
                    "type": "function_call",
                    "role": "assistant",
                    "content": [{"text": "x"}],
                    "prompt_token_ids": [1],
                    "generation_token_ids": [2],
                    "generation_log_probs": [-0.5],
                },
                {"type": "function_call_output"},
            ],
            "usage": {"input_tokens": 1, "output_tokens": 1},
            "incomplete_details": {"reason": "max_output_tokens"},
            "temperature": 1.0,
        },
        "reward": 1.0,
        "_ng_task_index": 0,
        "_ng_rollout_index": 0,
    },
    "nemo-gym-capture": {
        "schema_version": 1,
        "rollout_id": "r",
        "model_call_id": "m",
        "prompt_token_ids": [1],
        "generation_token_ids": [2],
        "generation_log_probs": [-0.5],
        "created_at": 1.0,
    },
    "polar": {
        "prompt_ids": [1, 2],
        "response_ids": [3, 4, 5, 6],
        "loss_mask": [1, 1, 0, 1],
        "response_logprobs": [-0.5, 0.0, 0.0, -0.25],
        "finish_reason": "length",
        "reward": 1.0,
        "metadata": {"session_id": "s", "task_id": "t", "policy_version": 7},
    },
    "polar-session": {
        "session_id": "s",
        "task_id": "t",
        "trajectory": {
            "metadata": {},
            "traces": [
                {
                    "prompt_ids": [1, 2],
                    "response_ids": [3, 4, 5, 6],
                    "loss_mask": [1, 1, 0, 1],
                    "response_logprobs": [-0.5, 0.0, 0.0, -0.25],
                    "finish_reason": "length",
                    "reward": 1.0,
                    "metadata": {"session_id": "s", "task_id": "t", "policy_version": 7},
                }
            ],
        },
    },
    "harbor-atif": {
        "schema_version": "ATIF-v1.7",
        "session_id": "s",
        "agent": {"name": "x", "version": "1"},
        "steps": [
            {"step_id": 1, "source": "user", "message": "q"},
            {"step_id": 2, "source": "agent", "message": "old", "is_copied_context": True},
            {"step_id": 3, "source": "agent", "message": "rule", "llm_call_count": 0},
            {
                "step_id": 4,
                "source": "agent",
                "message": "a",
                "metrics": {
                    "prompt_tokens": 2,
                    "completion_tokens": 2,
                    "cached_tokens": 1,
                    "prompt_token_ids": [1, 2],
                    "completion_token_ids": [3, 4],
                    "logprobs": [-0.5, -0.25],
                },
            },
        ],
        "subagent_trajectories": [
            {
                "schema_version": "ATIF-v1.7",
                "session_id": "s",
                "agent": {"name": "x", "version": "1"},
                "steps": [
                    {"step_id": 1, "source": "user", "message": "q"},
                    {"step_id": 2, "source": "agent", "message": "old", "is_copied_context": True},
                    {"step_id": 3, "source": "agent", "message": "rule", "llm_call_count": 0},
                    {
                        "step_id": 4,
                        "source": "agent",
                        "message": "a",
                        "metrics": {
                            "prompt_tokens": 2,
                            "completion_tokens": 2,
                            "cached_tokens": 1,
                            "prompt_token_ids": [1, 2],
                            "completion_token_ids": [3, 4],
                            "logprobs": [-0.5, -0.25],
                        },
                    },
                ],
            }
        ],
    },
    "harbor-trial": {
        "task_name": "fix-git",
        "trial_name": "fix-git__abc",
        "trial_uri": "file:///jobs/fix-git__abc",
        "agent_info": {"name": "terminus-2", "model_info": {"name": "m"}},
        "agent_result": {
            "rollout_details": [{"prompt_token_ids": [[1]], "completion_token_ids": [[2]], "logprobs": [[-0.5]]}]
        },
        "verifier_result": {"rewards": {"reward": 1.0, "style": 0.2}},
        "exception_info": None,
    },
    "tinker": {
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
    },
    "tinker-timing": {"step": 1, "spans": [{"name": "sampling", "wall_start": 0.0, "wall_end": 1.0}]},
    "tinker-metrics": {"step": 1, "progress/done_frac": 0.5, "optim/lr": 1.0, "env/all/by_group/frac_all_good": 0.5},
    "tinker-capture": {
        "kind": "sample",
        "scope": {"run_id": "r", "run_attempt": 0, "split": "train", "iteration": 5, "group_idx": 2, "traj_idx": 1},
        "created_at": 1760000000.0,
        "seq_id": 1,
        "model_path": "tinker://run/sampler_weights/000003",
        "base_model": "Qwen/Qwen3-8B",
        "prompt_tokens": [1, 2],
        "prompt_length": 2,
        "sampling_params": {"max_tokens": 64, "temperature": 1.0, "top_p": 1.0, "top_k": -1, "seed": 3},
        "samples": [{"tokens": [3, 4], "logprobs": [-0.5, 0.0], "stop_reason": "length"}],
        "status": "ok",
        "latency_sec": 2.5,
    },
    "atropos": {
        "tokens": [[1, 2, 3, 4], [1, 2, 5, 6, 7]],
        "masks": [[-100, -100, 3, 4], [-100, -100, 5, -100, 7]],
        "scores": [1.0, -1.0],
        "advantages": [[1, 1, 1, 1], 2.0],
        "ref_logprobs": None,
        "messages": None,
        "inference_logprobs": [[1.0, 1.0, -0.5, -0.25], [1.0, 1.0, -1.0, 1.0, -2.0]],
        "group_overrides": None,
    },
    "marin": {
        "run_id": "r",
        "conversations": [
            {
                "messages": [],
                "steps": [
                    {
                        "turn": {
                            "message": {"role": "assistant", "content": "x"},
                            "prompt_token_ids": [1],
                            "response_token_ids": [2],
                            "logprobs": [-0.5],
                            "stop_reason": "stop",
                        },
                        "transition": {"done": False, "observations": [], "token_ids": [], "metrics": {}},
                    }
                ],
            }
        ],
        "stop_reason": "done",
    },
}
"""One line or document of each kind, by a name of its own."""
ROLL = {
    "id": ["a", "b"],
    "prompt": ["p1", "p2"],
    "messages": [json.dumps([{"role": "user", "content": "hi"}]), ""],
    "responses": ["r1", "r2"],
    "scores": [1.0, 0.0],
    "sampling_params": ["{}"] * 2,
    "global_step": [4, 4],
}
VERL = {"input": "a", "output": "b", "gts": None, "score": 1.0, "step": 3}
SKYRL_EVAL = {
    "input_prompt": "2+2",
    "output_response": "4",
    "score": 1.0,
    "stop_reason": "stop",
    "env_class": "gsm8k",
    "env_extras": {},
    "data_source": "gsm8k",
}
AREAL = {
    "task_id": 17,
    "sample_idx": 0,
    "seqlen": 9,
    "prompt_len": 4,
    "head_version": 3,
    "tail_version": 3,
    "reward": 1.0,
    "prompt": "<|user|>hi",
    "completion": "hello<|end|>",
}
SLIME = {
    "group_index": 0,
    "index": 0,
    "prompt": "2+2=",
    "tokens": [1, 2, 3, 10, 11],
    "response": "four",
    "response_length": 2,
    "label": "4",
    "reward": 1.0,
    "loss_mask": None,
    "weight_versions": ["1"],
    "rollout_log_probs": [-0.5, -0.25],
    "remove_sample": False,
    "status": "completed",
    "metadata": {},
}
_EVENTS = (
    "GAAAAAAAAACjf0siCQAAAED8VNlBGg1icmFpbi5FdmVudDoy7O2PnSUAAAAAAAAA6rw28wkAAABA/FTZQRABKhgKFg"
    "oPdHJhaW4vZ3JhZF9ub3JtFQAAAD95fqAG"
)
"""Version and one scalar, train/grad_norm 0.5 at step 1, as records of an event file."""


def one(name: str, file: str) -> Seed:
    """A seed of one line."""
    return lambda folder: lines(folder / file, [LINES[name]])


def whole(name: str, file: str) -> Seed:
    """A seed of one document."""
    return lambda folder: document(folder / file, LINES[name])


def martingale(folder: Path) -> Path:
    """tokens.db with one sequence of one token, scored once."""
    path = folder / "tokens.db"
    token = {"token_id": 3, "position": 0, "revision_digest": "d0", "logprob_bits": "f32:bf000000"}
    record = {
        "prompt_ids": [1, 2],
        "prompt_len": 2,
        "tokens": [token],
        "reward_bits": "f32:3f800000",
        "sequence_id": "s",
    }
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE llm_revisions (digest TEXT, manifest_json TEXT, weights_uri TEXT, step INT)")
        connection.execute(
            "CREATE TABLE sequences (actor_id TEXT, sequence_index INT, digest TEXT, record_json TEXT, created_at REAL)"
        )
        connection.execute(
            "CREATE TABLE scores (sequence_digest TEXT, position INT, train_revision_digest TEXT, record_json TEXT)"
        )
        connection.execute("INSERT INTO llm_revisions VALUES ('d0', '{}', '', 0)")
        connection.execute("INSERT INTO sequences VALUES ('a', 0, 'q', ?, 1.0)", (json.dumps(record),))
        score = json.dumps({"logprob_bits": "f32:bf400000"})
        connection.execute("INSERT INTO scores VALUES ('q', 0, 'd0', ?)", (score,))
    return path


def tinker_store(folder: Path) -> Path:
    """The capture's SQLite store with one row."""
    path = folder / "capture.sqlite"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "CREATE TABLE wire_rows (cursor INTEGER PRIMARY KEY, run_id TEXT, run_attempt INTEGER, split TEXT,"
            " iteration INTEGER, group_idx INTEGER, traj_idx INTEGER, purpose TEXT, sampling_session_id TEXT,"
            " seq_id INTEGER, sample_idx INTEGER, policy_version TEXT, created_at REAL, prompt_tokens TEXT,"
            " sampled_tokens TEXT, logprobs TEXT, metadata TEXT)"
        )
        connection.execute(
            "INSERT INTO wire_rows VALUES (1, 'r', 0, 'train', 5, 2, 1, 'policy', NULL, 1, 0,"
            " 'tinker://run/sampler_weights/000003', 1760000000.0, '[1, 2]', '[3]', '[-0.5]', NULL)"
        )
    return path


def slime(folder: Path) -> Path:
    """A rollout as torch.save writes it."""
    path = folder / "rollout_data" / "3.pt"
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save({"rollout_id": 3, "samples": [SLIME]}, path)
    return path


def trl(folder: Path) -> Path:
    """Logged completions of one step."""
    path = folder / "completions" / "completions_00001.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    row = {"step": 1, "prompt": "q", "completion": "a", "accuracy_reward": 1.0, "advantage": 0.5}
    parquet.write_table(arrow.Table.from_pylist([row]), path)
    return path


def tensorboard(folder: Path) -> Path:
    """An event file."""
    path = folder / "events.out.tfevents.1700000000.host"
    path.write_bytes(base64.b64decode(_EVENTS))
    return path


TRAINER_SEEDS: dict[str, tuple[Seed, ...]] = {
    "prime-rl": (
        one("prime-rl", "token_exports/step_7/rank_0.jsonl"),
        one("prime-rl-metrics", "metrics.jsonl"),
        one("verifiers", "traces.jsonl"),
        one("verifiers-eval", "eval_traces.jsonl"),
    ),
    "verifiers": (
        lambda folder: lines(
            folder / "traces.jsonl", [{name: held for name, held in LINES["verifiers"].items() if name != "run"}]
        ),
    ),
    "verifiers-v0": (one("verifiers-v0", "results.jsonl"),),
    "nemo-rl": (one("nemo-rl", "train_data_step3.jsonl"), one("nemo-rl-val", "val_data_step3.jsonl")),
    "nemo-gym": (one("nemo-gym", "rollouts.jsonl"), one("nemo-gym-capture", "r.tokens.jsonl")),
    "polar": (one("polar", "traces.jsonl"), whole("polar-session", "session.json")),
    "harbor": (whole("harbor-atif", "trajectory.json"), whole("harbor-trial", "result.json")),
    "tinker": (
        one("tinker", "iteration_000005/train_rollout_summaries.jsonl"),
        one("tinker-timing", "timing_spans.jsonl"),
        one("tinker-metrics", "metrics.jsonl"),
    ),
    "tinker-capture": (one("tinker-capture", "sample.jsonl"), tinker_store),
    "martingale": (martingale,),
    "atropos": (one("atropos", "groups.jsonl"),),
    "marin": (one("marin", "rollouts.jsonl"),),
    "slime": (slime,),
    "skyrl": (lambda folder: lines(folder / "dumped_evals" / "global_step_12_evals" / "gsm8k.jsonl", [SKYRL_EVAL]),),
    "verl-validation": (lambda folder: lines(folder / "validation" / "3.jsonl", [VERL]),),
    "verl": (lambda folder: lines(folder / "rollouts" / "3.jsonl", [VERL]),),
    "roll": (lambda folder: lines(folder / "rollout_dump_data.step_4.jsonl", [ROLL]),),
    "trl": (trl,),
    "areal": (lambda folder: lines(folder / "rollout" / "5" / "17.jsonl", [AREAL]),),
    "tensorboard": (tensorboard,),
    "trainer-metrics": (
        lambda folder: lines(folder / "log.jsonl", [{"step": 1, "actor/grad_norm": 0.5, "actor/entropy": 0.25}]),
    ),
}
"""Format to its seeds, one for each kind of its files."""
