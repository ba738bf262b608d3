"""Builders of records for the tests of the store, and a small store with every table."""

import random
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pytest

from collector.records import (
    TABLES,
    ChatRequest,
    Eval,
    Event,
    Feedback,
    Record,
    Reward,
    Route,
    Run,
    Score,
    Span,
    Step,
    Turn,
    VersionSpan,
)
from collector.store.registry import Registry
from collector.store.registry_rows import read_audit
from collector.store.writer import Writer

Conversation = Callable[..., list[Turn]]


def build_conversation(session: str, turns: int, *, added: int = 8, sampled: int = 12, seed: int = 0) -> list[Turn]:
    """A session in which each turn extends the one before, in tokens and in messages."""
    random_ids = random.Random(f"{session}{seed}")
    prompt = [random_ids.randrange(150_000) for _ in range(added)]
    messages: list[dict[str, object]] = [{"role": "system", "content": f"You are {session}."}]
    made: list[Turn] = []
    for number in range(1, turns + 1):
        completion = [random_ids.randrange(150_000) for _ in range(sampled)]
        made.append(
            Turn(
                turn_id=f"{session}-{number}",
                session_id=session,
                turn=number,
                parent_turn_id=f"{session}-{number - 1}" if number > 1 else None,
                link="extends" if number > 1 else "root",
                tenant="tenant",
                api="chat",
                started_at=datetime(2026, 11, 29, 12, 0, number % 60, number, tzinfo=UTC),
                prompt_ids=list(prompt),
                completion_ids=completion,
                sampled_logprobs=[-random_ids.random() for _ in completion],
                weight_versions=[VersionSpan(version=3, start=0, end=len(completion))],
                temperature=1,
                request=ChatRequest(messages=list(messages), tools=[{"type": "function", "name": "read", "x": None}]),
                response={"role": "assistant", "content": f"answer {number}"},
            )
        )
        prompt = [*prompt, *completion, *(random_ids.randrange(150_000) for _ in range(added))]
        messages += [
            {"role": "assistant", "content": f"answer {number} of {session}"},
            {"role": "user", "content": f"question {number} of {session}"},
        ]
    return made


@pytest.fixture
def conversation() -> Conversation:
    """Builds a session in which each turn extends the one before."""
    return build_conversation


AT = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


class SmallStore(NamedTuple):
    """A store and what was written to it, by table."""

    path: Path
    records: dict[str, list[Record]]


def turns_of(session_id: str, count: int) -> list[Turn]:
    """Turns that each extend the one before: prompt, completion, two ids of a tool's answer, and so on."""
    turns: list[Turn] = []
    prompt, messages = list(range(1000, 1040)), [{"role": "user", "content": f"hello {session_id}"}]
    for n in range(count):
        completion = [7 * n + k for k in range(5)]
        turns.append(
            Turn(
                turn_id=f"{session_id}-{n}",
                session_id=session_id,
                turn=n + 1,
                parent_turn_id=f"{session_id}-{n - 1}" if n else None,
                link="extends" if n else "root",
                tenant="acme",
                adapter="bot",
                adapter_version=1,
                api="chat",
                started_at=AT + timedelta(seconds=n, microseconds=1),
                finished_at=AT + timedelta(seconds=n + 1),
                prompt_ids=list(prompt),
                completion_ids=completion,
                # float32 holds these exactly, so they come back as the same Python floats.
                sampled_logprobs=[-0.5 - k / 1024 for k in range(5)],
                logprob_mode="scaled",
                weight_versions=[
                    VersionSpan(version=3, start=0, end=2),
                    VersionSpan(version="step-4", start=2, end=5),
                ],
                temperature=0.7,
                logit_bias={"17": -1.5},
                finish_reason="stop",
                loss_mask=[1, 1, 0, 1, 1],
                trainable=True,
                request=ChatRequest(messages=list(messages), tools=[{"name": "ls", "n": 2**60}]),
                response={"role": "assistant", "content": 'a "quote", \x1b[31mred\x1b[0m, 日本'},
            )
        )
        prompt += [*completion, 1, 2]
        messages += [{"role": "assistant", "content": str(n)}, {"role": "tool", "content": {"ok": None}}]
    return turns


def one_of_each() -> list[Record]:
    """A record of every table but turns, some with values that text formats tend to lose."""
    return [
        Score(
            turn_id="a-0",
            adapter="bot",
            trainer_step=9,
            trainer_logprobs=[-0.25, -1.5],
            entropies=[0.5, float("inf")],
            advantages=None,
        ),
        Reward(session_id="a", value=None, parts={"thumb": 0.1}, mapping_sha256="ab" * 32, closed_at=AT),
        Feedback(feedback_id="f1", tenant="acme", turn_id="a-0", kind="thumb", value=0.1, text="fine\n", at=AT),
        Step(adapter="bot", step=1, at=AT, loss=0.1, grad_norm=float("inf"), tokens=2**53 + 1),
        Step(adapter="bot", step=2, at=AT, grad_norm=1e-320),
        Span(role="trainer", kind="step", from_=AT, to=AT + timedelta(seconds=1), adapter="bot"),
        Eval(adapter=None, version=0, suite="held-out", task_id="t", sample=0, score=1 / 3, passed=True),
        Event(at=AT, kind="compaction", session_id="a", turn=2, detail={"why": ["full", 1.5, None]}),
        Run(at=AT, hardware="2 cores", batch={"rows": 4}, versions={"torch": "2.13"}),
    ]


@pytest.fixture
def small_store(built_store: SmallStore, tmp_path: Path) -> SmallStore:
    """Two sessions of turns and a record or two of each other table, half of them sealed, and a registry."""
    shutil.copytree(built_store.path, tmp_path / "store")
    return SmallStore(tmp_path / "store", built_store.records)


@pytest.fixture(scope="session")
def built_store(tmp_path_factory: pytest.TempPathFactory) -> SmallStore:
    """What small_store gives each test a copy of."""
    path = tmp_path_factory.mktemp("built") / "store"
    sealed, hot = [*turns_of("a", 6), *one_of_each()], [*turns_of("b", 3), *one_of_each()]
    with Writer(path, "collector") as writer:
        for record in sealed:
            writer.append(record)
        writer.seal()
        for record in hot:
            writer.append(record)
    with Registry(path) as registry:
        registry.register_adapter("bot", tenant="acme", base_model="tiny", actor="test", reason="set-up")
        folder = path / "adapters/bot/1"
        folder.mkdir(parents=True)
        registry.register_version(
            "bot",
            1,
            parent=0,
            optimizer_step=4,
            folder="adapters/bot/1",
            sha256="cd" * 32,
            trained_on=[("collector", 1, 5)],
            actor="test",
            reason="set-up",
        )
        registry.record_gate("bot", 1, {"verdict": "pass", "lower": -0.01}, actor="test", reason="set-up")
        route = Route(tenant="acme", adapter="bot", version=0, weight=0.75)
        registry.replace_routes("acme", [route], expected_revision=0, actor="test", reason="set-up")
        snapshot = registry.snapshot()
    by_table: dict[str, list[Record]] = {table: [] for table in TABLES}
    for record in [*sealed, *hot]:
        by_table[next(table for table, kind in TABLES.items() if type(record) is kind)].append(record)
    registered: dict[str, list[Record]] = {
        "adapters": list(snapshot.adapters),
        "versions": list(snapshot.versions),
        "routes": list(snapshot.routes),
        "audit": list(read_audit(path)),
    }
    return SmallStore(path, by_table | registered)
