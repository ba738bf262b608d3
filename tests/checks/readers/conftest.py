"""A store with every table, written by the real writer, and its exports."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from collector.records import (
    ChatRequest,
    Eval,
    Event,
    Feedback,
    Record,
    Reward,
    Run,
    Score,
    Span,
    Step,
    Turn,
    VersionSpan,
)
from collector.store.export import export_store
from collector.store.registry import Registry
from collector.store.writer import Writer

AT = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
FORMS = ("store", "log", "log.duckdb", "log.jsonl")


class Exported(NamedTuple):
    """A folder with a store and its three exports, and what was written."""

    folder: Path
    turns: list[Turn]
    scores: list[Score]


def turns_of(session: str, count: int) -> list[Turn]:
    """Turns that each extend the one before."""
    made: list[Turn] = []
    prompt = list(range(1_000, 1_030))
    for n in range(count):
        completion = [100 * n + k for k in range(4)]
        made.append(
            Turn(
                turn_id=f"{session}-{n}",
                session_id=session,
                turn=n + 1,
                parent_turn_id=f"{session}-{n - 1}" if n else None,
                link="extends" if n else "root",
                tenant="acme",
                task_id="t-1",
                group_id="g-1",
                adapter="bot",
                adapter_version=1,
                api="chat",
                started_at=AT + timedelta(seconds=n),
                prompt_ids=list(prompt),
                completion_ids=completion,
                sampled_logprobs=[-0.1, float("-inf"), 0.0, -1 / 3],
                logprob_mode="scaled",
                weight_versions=[
                    VersionSpan(version=3, start=0, end=2),
                    VersionSpan(version="step-4", start=2, end=4),
                ],
                temperature=0.7,
                finish_reason="stop",
                loss_mask=[1, 0, 1, 1],
                trainable=True,
                request=ChatRequest(messages=[{"role": "user", "content": f"hé {n}"}], tools=[{"name": "ls"}]),
                response={"role": "assistant", "content": '"quoted" 日本'},
            )
        )
        prompt = [*prompt, *completion, 7, 8]
    return made


def others() -> list[Record]:
    """One record of each table but turns and scores."""
    return [
        Reward(session_id="a", value=1.5, parts={"thumb": 1.5}, mapping_sha256="ab" * 32, closed_at=AT),
        Reward(session_id="b", turn_id="b-0", value=None, parts={}, mapping_sha256="ab" * 32, closed_at=AT),
        Feedback(feedback_id="f", tenant="acme", turn_id="a-0", kind="thumb", value=1.0, at=AT),
        Step(adapter="bot", step=1, at=AT, loss=0.1, grad_norm=float("inf"), tokens=2**53 + 1),
        Span(role="trainer", kind="step", from_=AT, to=AT + timedelta(seconds=1), adapter="bot"),
        Eval(adapter="bot", version=1, suite="held-out", task_id="t", sample=0, score=0.25, passed=True),
        Event(at=AT, kind="compaction", session_id="a", turn=2, detail={"why": ["full", 1.5, None]}),
        Run(at=AT, hardware="2 cores", precision="bf16", logprob_mode="scaled"),
    ]


def score(turn_id: str, step: int) -> Score:
    """A score of four tokens, told apart by its step."""
    logprobs = [-0.25, float("-inf"), -0.5, -step / 64]
    return Score(
        turn_id=turn_id, adapter="bot", trainer_step=step, trainer_logprobs=logprobs, entropies=[0.5, 0.0, 1.0, 2.0]
    )


def fill(store: Path, turns: list[Turn], scores: list[Score]) -> None:
    """Writes the store: a part sealed, a part not, and a registry with a version that says its step."""
    half = len(turns) // 2
    with Writer(store, "collector") as writer:
        for record in turns[:half]:
            writer.append(record)
        writer.seal()
        for record in [*turns[half:], *others()]:
            writer.append(record)
    with Writer(store, "trainer") as writer:
        for record in scores:
            writer.append(record)
    with Registry(store) as registry:
        registry.register_adapter("bot", tenant="acme", base_model="tiny", actor="test", reason="set-up")
        (store / "adapters/bot/1").mkdir(parents=True)
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


@pytest.fixture(scope="session")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """Interleaved sessions; turns scored late, out of order, twice, and never."""
    folder = tmp_path_factory.mktemp("native")
    a, b, c = turns_of("a", 5), turns_of("b", 4), turns_of("c", 3)
    turns = [turn for rank in range(5) for turns in (a, b, c) for turn in turns[rank : rank + 1]]
    scores = [score(turn.turn_id, 5) for turn in reversed(turns) if turn.session_id != "c"]
    scores += [score("a-0", 6), msgspec.structs.replace(score("b-3", 6), adapter="other")]
    fill(folder / "store", turns, scores)
    for form in FORMS[1:]:
        export_store(folder / "store", folder / form, force=False, on_rows=lambda table, rows: None)
    return Exported(folder, turns, scores)
