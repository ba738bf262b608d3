"""A native log of any size, written piece by piece as Parquet: sessions of an agent whose prompts grow, with scores."""

import itertools
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

VOCABULARY = 150_000
SYSTEM_TOKENS = 900
TURNS_A_SESSION = 8
SESSIONS_A_STEP = 32
GROUP = 8
NOISE = 0.004
"""Of log pi_old against log mu: ordinary bf16 rounding."""
AT = datetime(2026, 1, 1, tzinfo=UTC)

Array = np.ndarray[Any, np.dtype[Any]]


class Written(NamedTuple):
    """What a log holds."""

    turns: int
    sessions: int
    prompt_tokens: int
    completion_tokens: int

    @property
    def tokens(self) -> int:
        """Prompt and completion."""
        return self.prompt_tokens + self.completion_tokens


class Session(NamedTuple):
    """One agent run: its turns are cuts of `ids`, since each prompt extends the turn before."""

    name: str
    number: int
    ids: Array
    starts: Array
    """Where each completion begins, and its prompt ends."""
    ends: Array


def sessions(rng: np.random.Generator) -> Iterator[Session]:
    """Sessions without end. They have the system prompt in common, not what tools answer and the model says."""
    # As in text, few tokens make up most of it.
    shares = 1 / np.arange(1, VOCABULARY + 1)
    drawn = rng.choice(VOCABULARY, 2**22, p=shares / shares.sum()).astype(np.int32)
    system = drawn[:SYSTEM_TOKENS]
    for number in itertools.count():
        completions = rng.integers(40, 320, TURNS_A_SESSION)
        added = rng.integers(30, 500, TURNS_A_SESSION)
        ends = SYSTEM_TOKENS + np.cumsum(completions + added)
        begin = int(rng.integers(0, len(drawn) - ends[-1]))
        ids = np.concatenate([system, drawn[begin : begin + ends[-1] - SYSTEM_TOKENS]])
        yield Session(f"session-{number:09d}-{rng.integers(2**32):08x}", number, ids, ends - completions, ends)


def write_log(folder: Path, tokens: int, *, seed: int = 7, sessions_at_once: int = 128) -> Written:
    """Writes turns.parquet, scores.parquet and the small tables, until there are that many tokens."""
    rng = np.random.default_rng(seed)
    made = sessions(rng)
    written = Written(0, 0, 0, 0)
    folder.mkdir(parents=True, exist_ok=True)
    files: dict[str, pq.ParquetWriter] = {}
    while written.tokens < tokens:
        piece = list(itertools.islice(made, sessions_at_once))
        for table, rows in (("turns", turns_of(piece, rng)), ("rewards", rewards_of(piece, rng))):
            _write(folder, files, table, rows)
            if table == "turns":
                _write(folder, files, "scores", scores_of(rows, rng))
                prompt = int(sum(session.starts.sum() for session in piece))
                completion = int(sum((session.ends - session.starts).sum() for session in piece))
        written = Written(
            written.turns + TURNS_A_SESSION * len(piece),
            written.sessions + len(piece),
            written.prompt_tokens + prompt,
            written.completion_tokens + completion,
        )
    steps = written.sessions // SESSIONS_A_STEP + 1
    for table, rows in small_tables(steps, rng).items():
        _write(folder, files, table, rows)
    for file in files.values():
        file.close()
    return written


def turns_of(piece: list[Session], rng: np.random.Generator) -> pa.Table:
    """The turns of some sessions, as an export has them."""
    count = len(piece) * TURNS_A_SESSION
    numbers = np.repeat([session.number for session in piece], TURNS_A_SESSION)
    lengths = np.concatenate([session.ends - session.starts for session in piece])
    at = np.concatenate([[0], np.cumsum(lengths)])
    prompts = np.concatenate([session.ids[:start] for session in piece for start in session.starts])
    prompt_at = np.concatenate([[0], np.cumsum(np.concatenate([session.starts for session in piece]))])
    sampled = np.concatenate(
        [session.ids[start:end] for session in piece for start, end in zip(session.starts, session.ends, strict=True)]
    )
    logprobs = np.where(rng.random(len(sampled)) < 0.35, 0.0, -rng.exponential(0.6, len(sampled))).astype(np.float32)
    step = numbers // SESSIONS_A_STEP
    started = [AT + timedelta(seconds=int(number)) for number in np.arange(count) + int(numbers[0]) * TURNS_A_SESSION]
    spans = pa.StructArray.from_arrays(
        [pa.array(["default"] * count), pa.array(np.zeros(count, np.int32)), pa.array(lengths.astype(np.int32))],
        ["version", "start", "end"],
    )
    return pa.table(
        {
            "turn_id": [f"{session.name}-{turn}" for session in piece for turn in range(TURNS_A_SESSION)],
            "session_id": [session.name for session in piece for _ in range(TURNS_A_SESSION)],
            "turn": np.tile(np.arange(1, TURNS_A_SESSION + 1), len(piece)),
            "task_id": [f"task-{number // GROUP % 500}" for number in numbers],
            "group_id": [f"group-{number // GROUP}" for number in numbers],
            "tenant": ["acme"] * count,
            "adapter": ["bot"] * count,
            "adapter_version": np.maximum(step - 1, 0),
            "purpose": ["traffic"] * count,
            "started_at": pa.array(started, pa.timestamp("us", tz="UTC")),
            "prompt_ids": pa.ListArray.from_arrays(prompt_at.astype(np.int32), prompts),
            "completion_ids": pa.ListArray.from_arrays(at.astype(np.int32), sampled),
            "sampled_logprobs": pa.ListArray.from_arrays(at.astype(np.int32), logprobs),
            "logprob_mode": ["scaled"] * count,
            "weight_versions": pa.ListArray.from_arrays(np.arange(count + 1, dtype=np.int32), spans),
            "temperature": np.ones(count),
            "finish_reason": np.where(rng.random(count) < 0.02, "length", "stop").tolist(),
            "cached_tokens": np.concatenate([[SYSTEM_TOKENS, *session.ends[:-1]] for session in piece]),
            "complete": [True] * count,
            "trainable": [True] * count,
        }
    )


def scores_of(turns: pa.Table, rng: np.random.Generator) -> pa.Table:
    """A trainer's scores of the turns, in their order."""
    mu = turns["sampled_logprobs"].combine_chunks()
    values = mu.values.to_numpy()
    scored = np.minimum(values + rng.normal(0, NOISE, len(values)), 0).astype(np.float32)
    entropies = rng.gamma(2.0, 0.3, len(values)).astype(np.float32)
    version = turns["adapter_version"].to_numpy()
    return pa.table(
        {
            "turn_id": turns["turn_id"],
            "adapter": turns["adapter"],
            "trainer_step": version + 2,
            "trainer_version": version + 1,
            "trainer_logprobs": pa.ListArray.from_arrays(mu.offsets, scored),
            "entropies": pa.ListArray.from_arrays(mu.offsets, entropies),
            "advantages": pa.ListArray.from_arrays(mu.offsets, np.ones(len(values), np.float32)),
        }
    )


def rewards_of(piece: list[Session], rng: np.random.Generator) -> pa.Table:
    """One reward a session."""
    names = [session.name for session in piece]
    return pa.table({"session_id": names, "value": rng.integers(0, 2, len(piece)).astype(np.float64)})


def small_tables(steps: int, rng: np.random.Generator) -> dict[str, pa.Table]:
    """Steps, spans, evaluations and versions of the run."""
    number = np.arange(1, steps + 1)
    times = pa.array([AT + timedelta(seconds=60 * int(n)) for n in number], pa.timestamp("us", tz="UTC"))
    ends = pa.array([AT + timedelta(seconds=60 * int(n) + 40) for n in number], pa.timestamp("us", tz="UTC"))
    bot = ["bot"] * steps
    return {
        "steps": pa.table(
            {
                "adapter": bot,
                "step": number,
                "at": ends,
                "duration_s": np.full(steps, 40.0),
                "mfu": rng.normal(0.35, 0.01, steps),
                "grad_norm": rng.gamma(20.0, 0.05, steps),
                "entropy": rng.normal(0.6, 0.02, steps),
                "reward_mean": rng.normal(0.5, 0.05, steps),
            }
        ),
        "spans": pa.table({"role": ["trainer"] * steps, "kind": ["step"] * steps, "from": times, "to": ends}),
        "versions": pa.table({"adapter": bot, "version": number - 1, "optimizer_step": number - 1}),
        "evals": pa.table(
            {
                "adapter": bot,
                "version": number - 1,
                "suite": ["held-out"] * steps,
                "task_id": [f"task-{n % 50}" for n in number],
                "sample": np.zeros(steps, np.int64),
                "score": rng.random(steps),
                "passed": rng.random(steps) < 0.5,
            }
        ),
    }


def _write(folder: Path, files: dict[str, pq.ParquetWriter], table: str, rows: pa.Table) -> None:
    if table not in files:
        files[table] = pq.ParquetWriter(folder / f"{table}.parquet", rows.schema, compression="zstd")
    files[table].write_table(rows)
