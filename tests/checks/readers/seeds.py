"""A small valid file of each format, generated from the format's own definition: for tests of what breaks it."""

import json
import sqlite3
import zipfile
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as arrow
import pyarrow.parquet as parquet
import zstandard

from tests.checks.readers.seed_file import Seed, document, lines
from tests.checks.readers.seeds_of_trainers import TRAINER_SEEDS

NATIVE = [
    {"session_id": "s", "prompt_ids": [1, 2], "completion_ids": [3], "sampled_logprobs": [-0.5], "reward": 1.0},
    {"session_id": "s", "prompt_ids": [1, 2, 3, 4], "completion_ids": [5, 6], "sampled_logprobs": [-0.1, -0.2]},
    {"record": "step", "step": 1, "grad_norm": 0.5},
]

CHAT_RESPONSE: dict[str, Any] = {
    "model": "m",
    "prompt_token_ids": [1, 2],
    "choices": [
        {
            "index": 0,
            "finish_reason": "stop",
            "message": {"role": "assistant", "content": "hi"},
            "token_ids": [3, 4],
            "logprobs": {"content": [{"token": "h", "logprob": -0.5}, {"token": "i", "logprob": -0.25}]},
        }
    ],
    "usage": {"prompt_tokens": 2, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 1}},
}
CHAT_REQUEST: dict[str, Any] = {
    "model": "m",
    "messages": [{"role": "user", "content": "q"}],
    "temperature": 1.0,
    "max_tokens": 8,
    "top_p": 1.0,
}

ART_TRAJECTORY: dict[str, Any] = {
    "exchanges": {
        "chat_completions": [
            {
                "start_time": "2026-08-01T10:00:00Z",
                "end_time": "2026-08-01T10:00:02Z",
                "request": CHAT_REQUEST,
                "response": CHAT_RESPONSE,
            }
        ],
        "completions": [],
        "responses": [
            {
                "start_time": "2026-08-01T10:00:03Z",
                "end_time": "2026-08-01T10:00:04Z",
                "request": {"model": "m", "instructions": "be brief", "input": "q", "max_output_tokens": 5},
                "response": {
                    "status": "completed",
                    "output": [
                        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a"}]}
                    ],
                    "usage": {"input_tokens": 7, "output_tokens": 1},
                },
            }
        ],
        "messages": [
            {
                "start_time": "2026-08-01T10:00:05Z",
                "end_time": "2026-08-01T10:00:06Z",
                "request": {"model": "m", "system": "s", "messages": [{"role": "user", "content": "q"}]},
                "response": {
                    "content": [{"type": "text", "text": "b"}],
                    "stop_reason": "max_tokens",
                    "usage": {"input_tokens": 3, "cache_read_input_tokens": 4, "output_tokens": 1},
                },
            }
        ],
    },
    "initial_policy_version": 4,
    "final_policy_version": 4,
    "reward": 0.5,
    "metrics": {},
}
ART_GROUP: dict[str, Any] = {
    "trajectories": [
        {
            "reward": 1.0,
            "metrics": {},
            "metadata": {},
            "messages_and_choices": [
                {"role": "user", "content": "q"},
                {"finish_reason": "stop", "index": 0, "message": {"role": "assistant", "content": "a"}},
                {"role": "user", "content": "more"},
                {"finish_reason": "length", "index": 0, "message": {"role": "assistant", "content": "b"}},
            ],
            "tools": None,
            "logs": [],
        }
    ]
}
ART_HISTORY = [
    {"train/reward": 0.5, "training_step": 1, "step": 1, "recorded_at": "2026-08-01T10:00:00"},
    {"loss/train": 0.25, "loss/grad_norm": 2.0, "training_step": 1, "step": 1, "recorded_at": "2026-08-01T10:00:05"},
]


def art_parquet(folder: Path) -> Path:
    """Version 2, one trajectory."""
    path = folder / "trajectories" / "train" / "0003.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    row = {
        "format_version": 2,
        "group_index": 0,
        "trajectory_index": 0,
        "group_json": "{}",
        "trajectory_json": json.dumps(ART_TRAJECTORY),
        "reward": 0.5,
        "messages": None,
    }
    messages = arrow.list_(arrow.struct([("role", arrow.string()), ("content", arrow.string())]))
    schema = arrow.schema(
        [
            ("format_version", arrow.int16()),
            ("group_index", arrow.int64()),
            ("trajectory_index", arrow.int64()),
            ("group_json", arrow.large_string()),
            ("trajectory_json", arrow.large_string()),
            ("reward", arrow.float64()),
            ("messages", messages),
        ]
    )
    parquet.write_table(arrow.Table.from_pylist([row], schema=schema), path, compression="zstd")
    return path


def art_parquet_v1(folder: Path) -> Path:
    """Version 1: flattened messages alone."""
    path = folder / "trajectories" / "val" / "0002.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    said = {"tool_calls": None, "tool_call_id": None}
    messages = [
        {"role": "user", "content": "q", "trainable": False, **said},
        {"role": "assistant", "content": "a", "trainable": True, **said},
    ]
    parquet.write_table(arrow.Table.from_pylist([{"group_index": 0, "reward": 1.0, "messages": messages}]), path)
    return path


RLLM_EPISODE: dict[str, Any] = {
    "training_step": 5,
    "epoch": 0,
    "episode_id": "task7:1",
    "session_id": None,
    "task": {"question": "q"},
    "task_hash": "deadbeef",
    "is_correct": True,
    "termination_reason": "max_response_length_exceeded",
    "metrics": {},
    "trajectories": [
        {
            "name": "solver",
            "uid": "u",
            "reward": 1.0,
            "num_steps": 2,
            "steps": [
                {
                    "model_response": "a",
                    "chat_completions": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}],
                    "reward": 0.0,
                },
                {"model_response": "b", "chat_completions": [], "reward": 1.0},
            ],
        }
    ],
}


def rllm_trace(trace_id: str, **fields: Any) -> dict[str, Any]:
    """A trace of the gateway."""
    return {
        "trace_id": trace_id,
        "session_id": "s",
        "model": "m",
        "messages": [{"role": "user", "content": "q"}],
        "prompt_token_ids": [1, 2],
        "prompt_delta_token_ids": None,
        "parent_trace_id": None,
        "response_message": {"role": "assistant", "content": "a"},
        "completion_token_ids": [3],
        "logprobs": [-0.5],
        "finish_reason": "stop",
        "weight_version": 7,
        "latency_ms": 500.0,
        "token_counts": {"prompt": 2, "completion": 1},
        "timestamp": 1_800_000_000.0,
        **fields,
    }


RLLM_TRACES = [
    rllm_trace("a"),
    rllm_trace(
        "b",
        prompt_token_ids=[],
        prompt_delta_token_ids=[4],
        parent_trace_id="a",
        completion_token_ids=[5, 6],
        logprobs=[-0.1, -0.2],
        token_counts={},
    ),
]


def rllm_store(folder: Path, traces: Iterable[Mapping[str, Any]] = RLLM_TRACES) -> Path:
    """The gateway's SQLite store."""
    path = folder / "gateway_traces.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "CREATE TABLE traces (trace_id TEXT PRIMARY KEY, data TEXT NOT NULL, created_at REAL NOT NULL)"
        )
        connection.execute(
            "CREATE TABLE trace_sessions (trace_id TEXT NOT NULL, session_id TEXT NOT NULL, run_id TEXT NOT NULL"
            " DEFAULT '', created_at REAL NOT NULL, PRIMARY KEY (trace_id, session_id))"
        )
        for at, trace in enumerate(traces):
            connection.execute("INSERT INTO traces VALUES (?, ?, ?)", (trace["trace_id"], json.dumps(trace), float(at)))
            connection.execute(
                "INSERT INTO trace_sessions VALUES (?, ?, 'run1', ?)", (trace["trace_id"], "s", float(at))
            )
    return path


LIGHTNING_EVENTS: list[dict[str, Any]] = [
    {
        "event_type": "model_request",
        "rollout_id": "r",
        "attempt_id": "a1",
        "timestamp": 1_800_000_000.0,
        "data": {
            "model": "m",
            "model_version": 3,
            "request": CHAT_REQUEST,
            "response": CHAT_RESPONSE,
            "latency_ms": 250.0,
            "http_status": 200,
            "status": "ok",
        },
    },
    {
        "event_type": "model_request",
        "rollout_id": "r",
        "attempt_id": "a1",
        "timestamp": 1_800_000_002.0,
        "data": {
            "prompt_token_ids": [1, 2, 3, 4, 5],
            "response_token_ids": [6],
            "response_log_probs": [-1.0],
            "server": {"model": "m", "version": 4},
        },
    },
    {"event_type": "reward", "rollout_id": "r", "attempt_id": "a1", "timestamp": 1.0, "data": {"value": 0.25}},
    {"event_type": "reward", "rollout_id": "r", "attempt_id": "a1", "timestamp": 2.0, "data": {"value": 0.75}},
]
LIGHTNING_SPANS: list[dict[str, Any]] = [
    {
        "rollout_id": "r",
        "attempt_id": "a",
        "sequence_id": 1,
        "trace_id": "t",
        "span_id": "x",
        "parent_id": None,
        "name": "openai.chat.completion",
        "status": {"status_code": "OK"},
        "start_time": 1_800_000_000.0,
        "end_time": 1_800_000_001.0,
        "attributes": {
            "gen_ai.request.model": "m",
            "gen_ai.request.temperature": 1.0,
            "gen_ai.prompt.0.role": "user",
            "gen_ai.prompt.0.content": "q",
            "gen_ai.completion.0.role": "assistant",
            "gen_ai.completion.0.content": "a",
            "gen_ai.completion.0.finish_reason": "stop",
            "gen_ai.usage.prompt_tokens": 2,
            "gen_ai.usage.completion_tokens": 1,
            "prompt_token_ids": [1, 2],
            "response_token_ids": [3],
            "logprobs.content": '[{"token": "a", "logprob": -0.5}]',
        },
        "events": [],
    },
    {
        "rollout_id": "r",
        "attempt_id": "a",
        "sequence_id": 2,
        "trace_id": "t",
        "span_id": "y",
        "name": "agentlightning.annotation",
        "attributes": {"agentlightning.reward.0.name": "primary", "agentlightning.reward.0.value": 0.5},
    },
]


def lightning_zip(folder: Path) -> Path:
    """Uploaded trajectories of validation."""
    path = folder / "step_4" / "validation_trajectories.jsonl.zip"
    path.parent.mkdir(parents=True, exist_ok=True)
    line = json.dumps({"rollout_id": "r", "reward": 1.0, "prompt": "q", "response": "a"})
    with zipfile.ZipFile(path, "w", compression=zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("validation_trajectories.jsonl", line + "\n")
    return path


def claude_line(kind: str, uuid: str, parent: str | None, content: Any, **fields: Any) -> dict[str, Any]:
    """A line of a Claude Code session; `message` fields go into its message."""
    message = fields.pop("message", {})
    return {
        "type": kind,
        "uuid": uuid,
        "parentUuid": parent,
        "isSidechain": False,
        "sessionId": "S",
        "timestamp": f"2026-08-01T10:00:{len(uuid):02d}Z",
        "message": {"role": kind, "content": content, **message},
        **fields,
    }


CLAUDE_LINES = [
    claude_line("user", "u1", None, "do it"),
    claude_line(
        "assistant",
        "a1",
        "u1",
        [{"type": "text", "text": "I will"}],
        message={"id": "m1", "model": "claude", "stop_reason": None, "usage": {"input_tokens": 3, "output_tokens": 1}},
        requestId="q1",
    ),
    claude_line(
        "assistant",
        "a1b",
        "a1",
        [{"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}],
        message={
            "id": "m1",
            "model": "claude",
            "stop_reason": "tool_use",
            "usage": {
                "input_tokens": 3,
                "cache_creation_input_tokens": 10,
                "cache_read_input_tokens": 100,
                "output_tokens": 20,
            },
        },
        requestId="q1",
    ),
    claude_line("user", "u2", "a1b", [{"type": "tool_result", "tool_use_id": "t1", "content": "files"}]),
    claude_line(
        "assistant",
        "a2",
        "u2",
        [{"type": "text", "text": "done"}],
        message={"id": "m2", "model": "claude", "stop_reason": "end_turn", "usage": {"output_tokens": 2}},
        requestId="q2",
    ),
]

CODEX_LINES: list[dict[str, Any]] = [
    {"timestamp": "2026-08-01T10:00:00Z", "type": "session_meta", "payload": {"id": "C", "cli_version": "1"}},
    {
        "timestamp": "2026-08-01T10:00:01Z",
        "type": "response_item",
        "payload": {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "q"}]},
    },
    {"timestamp": "2026-08-01T10:00:01Z", "type": "turn_context", "payload": {"model": "gpt"}},
    {
        "timestamp": "2026-08-01T10:00:03Z",
        "type": "response_item",
        "payload": {"type": "function_call", "name": "shell", "arguments": "{}", "call_id": "c1"},
    },
    {
        "timestamp": "2026-08-01T10:00:03Z",
        "type": "event_msg",
        "payload": {
            "type": "token_count",
            "info": {
                "total_token_usage": {"total_tokens": 110},
                "last_token_usage": {"input_tokens": 100, "cached_input_tokens": 64, "output_tokens": 10},
            },
        },
    },
    {
        "timestamp": "2026-08-01T10:00:04Z",
        "type": "response_item",
        "payload": {"type": "function_call_output", "call_id": "c1", "output": "ok"},
    },
    {
        "timestamp": "2026-08-01T10:00:06Z",
        "type": "response_item",
        "payload": {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "done"}]},
    },
]


def codex_zst(folder: Path) -> Path:
    """A compressed rollout, in two frames as one that was written on has."""
    path = folder / "rollout-2026-08-01T10-00-00-c.jsonl.zst"
    encoded = [json.dumps(line).encode() + b"\n" for line in CODEX_LINES]
    compress = zstandard.ZstdCompressor().compress
    path.write_bytes(compress(b"".join(encoded[:3])) + compress(b"".join(encoded[3:])))
    return path


SWE_RUN: dict[str, Any] = {
    "environment": "swe_main",
    "trajectory": [
        {
            "action": "ls",
            "observation": "x",
            "response": "I look",
            "thought": "t",
            "state": {},
            "query": [{"role": "user", "content": "fix", "agent": "main", "message_type": "observation"}],
        },
        {
            "action": "submit",
            "observation": "",
            "response": "done",
            "thought": "t",
            "state": {},
            "query": [{"role": "user", "content": "fix"}, {"role": "assistant", "content": "I look"}],
        },
    ],
    "history": [],
    "info": {"exit_status": "submitted", "model_stats": {"tokens_sent": 10, "tokens_received": 5}},
}

OPENCLAW_LINES = [
    {
        "session_id": "s",
        "turn": 1,
        "timestamp": "2026-08-01 10:00:00",
        "messages": [{"role": "user", "content": "q"}],
        "prompt_text": "<q>",
        "response_text": "a",
        "tool_calls": None,
        "next_state": {"role": "user", "content": "thanks"},
    }
]
OPENCLAW_VOTES = [{"session_id": "s", "turn": 1, "score": 1.0, "votes": [1, 1, "fail"]}]

OTLP: dict[str, Any] = {
    "resourceSpans": [
        {
            "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "agent"}}]},
            "scopeSpans": [
                {
                    "spans": [
                        {
                            "traceId": "t1",
                            "spanId": "s1",
                            "name": "chat m",
                            "startTimeUnixNano": "1800000000000000000",
                            "endTimeUnixNano": "1800000001500000000",
                            "status": {},
                            "attributes": [
                                {"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}},
                                {"key": "gen_ai.conversation.id", "value": {"stringValue": "conv"}},
                                {"key": "gen_ai.request.temperature", "value": {"doubleValue": 0.5}},
                                {"key": "gen_ai.usage.input_tokens", "value": {"intValue": "12"}},
                                {"key": "gen_ai.usage.output_tokens", "value": {"intValue": "3"}},
                                {
                                    "key": "gen_ai.response.finish_reasons",
                                    "value": {"arrayValue": {"values": [{"stringValue": "length"}]}},
                                },
                                {
                                    "key": "gen_ai.input.messages",
                                    "value": {
                                        "stringValue": json.dumps(
                                            [{"role": "user", "parts": [{"type": "text", "content": "q"}]}]
                                        )
                                    },
                                },
                                {
                                    "key": "gen_ai.output.messages",
                                    "value": {
                                        "stringValue": json.dumps(
                                            [
                                                {
                                                    "role": "assistant",
                                                    "parts": [
                                                        {"type": "text", "content": "a"},
                                                        {
                                                            "type": "tool_call",
                                                            "id": "c",
                                                            "name": "f",
                                                            "arguments": {"x": 1},
                                                        },
                                                    ],
                                                }
                                            ]
                                        )
                                    },
                                },
                            ],
                            "events": [
                                {
                                    "name": "gen_ai.evaluation.result",
                                    "attributes": [
                                        {"key": "gen_ai.evaluation.score.value", "value": {"doubleValue": 0.75}}
                                    ],
                                }
                            ],
                        },
                        {
                            "traceId": "t1",
                            "spanId": "s2",
                            "name": "execute_tool f",
                            "attributes": [{"key": "gen_ai.operation.name", "value": {"stringValue": "execute_tool"}}],
                        },
                    ]
                }
            ],
        }
    ]
}
OPENINFERENCE_LINES = [
    {
        "name": "ChatCompletion",
        "context": {"trace_id": "t", "span_id": "s"},
        "start_time": "2026-08-01T10:00:00Z",
        "end_time": "2026-08-01T10:00:02Z",
        "status_code": "OK",
        "attributes": {
            "openinference.span.kind": "LLM",
            "llm.model_name": "m",
            "llm.input_messages.0.message.role": "user",
            "llm.input_messages.0.message.content": "q",
            "llm.output_messages.0.message.role": "assistant",
            "llm.output_messages.0.message.content": "a",
            "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "f",
            "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments": "{}",
            "llm.token_count.prompt": 5,
            "llm.token_count.completion": 2,
            "session.id": "sess",
        },
    }
]


def phoenix_parquet(folder: Path) -> Path:
    """A span data frame as Phoenix exports it."""
    path = folder / "spans.parquet"
    row = {
        "name": "ChatCompletion",
        "context.span_id": "s",
        "context.trace_id": "t",
        "start_time": "2026-08-01T10:00:00+00:00",
        "attributes.openinference.span.kind": "LLM",
        "attributes.llm.model_name": "m",
        "attributes.llm.input_messages": [{"message.role": "user", "message.content": "q"}],
        "attributes.llm.output_messages": [{"message.role": "assistant", "message.content": "a"}],
        "attributes.llm.token_count.prompt": 5,
    }
    parquet.write_table(arrow.Table.from_pylist([row]), path)
    return path


SEEDS: dict[str, tuple[Seed, ...]] = {
    **TRAINER_SEEDS,
    "native": (lambda folder: lines(folder / "native.jsonl", NATIVE),),
    "art": (
        art_parquet,
        art_parquet_v1,
        lambda folder: lines(folder / "trajectories" / "train" / "0001.jsonl", [ART_GROUP]),
        lambda folder: lines(folder / "history.jsonl", ART_HISTORY),
    ),
    "rllm": (
        lambda folder: document(folder / "val_step_5_epoch_0" / "episode_hashdeadbeef_idtask7_1.json", RLLM_EPISODE),
    ),
    "rllm-gateway": (rllm_store, lambda folder: lines(folder / "traces.jsonl", RLLM_TRACES)),
    "agent-lightning": (
        lambda folder: lines(folder / "events.jsonl", LIGHTNING_EVENTS),
        lambda folder: lines(folder / "spans.jsonl", LIGHTNING_SPANS),
        lightning_zip,
    ),
    "claude-code": (lambda folder: lines(folder / "S.jsonl", CLAUDE_LINES),),
    "codex": (lambda folder: lines(folder / "rollout-c.jsonl", CODEX_LINES), codex_zst),
    "swe-agent": (lambda folder: document(folder / "task.traj", SWE_RUN),),
    "openclaw-rl": (
        lambda folder: lines(folder / "record.jsonl", OPENCLAW_LINES),
        lambda folder: lines(folder / "record_prm.jsonl", OPENCLAW_VOTES),
    ),
    "otel": (
        lambda folder: document(folder / "otlp.json", OTLP),
        lambda folder: lines(folder / "spans.jsonl", OPENINFERENCE_LINES),
        phoenix_parquet,
    ),
}
"""Format to the seeds of each of its kinds of file; every registered format needs one."""
