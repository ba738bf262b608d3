"""Turns sampled from a running engine as a collector would have recorded them, with feedback by what they hold."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from collector.records import Feedback, Record, Turn, VersionSpan
from collector.store.writer import Writer
from tests.trainer.engine.loopback import Served, ids_and_logprobs

TENANT = "acme"


def capture(
    store: Path,
    served: Served,
    *,
    base_model: str,
    sessions: int,
    seed: int,
    adapter: str | None = None,
    version: int = 0,
) -> list[Turn]:
    """Sessions of one turn each; an answer with more odd tokens than even ones is liked."""
    turns = asyncio.run(_sampled(served, base_model, sessions, seed, adapter, version))
    records: list[Record] = [*turns, *(_judged(turn) for turn in turns)]
    with Writer(store, "collector") as writer:
        for record in records:
            writer.append(record).result(30)
    return turns


async def _sampled(
    served: Served, base_model: str, sessions: int, seed: int, adapter: str | None, version: int
) -> list[Turn]:
    random = np.random.default_rng(seed)
    ended = datetime.now(UTC) - timedelta(hours=2)
    name = f"{adapter}@{version}" if adapter is not None and version else None
    turns: list[Turn] = []
    for number in range(sessions):
        prompt: list[int] = random.integers(1, 250, 24).tolist()
        body = {"lora_path": name} if name else None
        answer = await served.generate(prompt, body=body, temperature=1.0, max_new_tokens=12, ignore_eos=True)
        ids, logprobs = ids_and_logprobs(answer)
        turns.append(
            Turn(
                turn_id=f"t-{seed}-{number}",
                session_id=f"s-{seed}-{number}",
                turn=1,
                tenant=TENANT,
                base_model=base_model,
                adapter=adapter,
                adapter_version=None if adapter is None else version,
                api="generate",
                started_at=ended,
                first_token_at=ended,
                finished_at=ended,
                prompt_ids=prompt,
                completion_ids=ids,
                sampled_logprobs=logprobs,
                logprob_mode="scaled",
                weight_versions=[VersionSpan(version="default", start=0, end=len(ids))],
                temperature=1.0,
                top_p=1.0,
                top_k=-1,
                min_p=0.0,
                max_tokens=12,
                finish_reason="length",
                trainable=True,
            )
        )
    return turns


def _judged(turn: Turn) -> Feedback:
    liked = sum(token % 2 for token in turn.completion_ids) * 2 > len(turn.completion_ids)
    assert turn.finished_at is not None
    return Feedback(
        feedback_id=f"f-{turn.turn_id}",
        tenant=TENANT,
        session_id=turn.session_id,
        kind="thumb",
        value=1.0 if liked else 0.0,
        at=turn.finished_at + timedelta(minutes=1),
    )


def suite(path: Path, tasks: int) -> Path:
    """Held-out prompts that any visible reply solves."""
    random = np.random.default_rng(99)
    lines = [
        f'{{"task_id": "task-{number}", "prompt_ids": {random.integers(1, 250, 8).tolist()}, '
        '"verifier": {"regex": "[^ ]"}, "max_tokens": 6}'
        for number in range(tasks)
    ]
    path.write_text("\n".join(lines))
    return path


def settings(path: Path, *, suite: Path, engine: str, adapters: Sequence[str] = ("bot",)) -> Path:
    """A roundhouse.toml for quick cycles."""
    tables = "\n".join(
        f'[trainer.adapters.{name}]\ntenant = "{TENANT}"\nrank = 4\noptimizer = {{ lr = 0.001 }}' for name in adapters
    )
    suites = ", ".join(f'{name} = ["{suite}"]' for name in adapters)
    path.write_text(
        f"""
[collector]
engines = ["{engine}"]
[trainer.batch]
batch_sessions = 8
[trainer.evaluation]
suites = {{ {suites} }}
tasks = 12
samples = 1
temperature = 0.0
[trainer.gate]
margin = 0.4
pass_k = 1
[trainer.schedule]
poll_s = 0.1
[trainer.publish]
settle_s = 0.0
{tables}
"""
    )
    return path
