"""Captured turns, judgements and stores for the tests of trainer.batch."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from collector.records import Adapter, Event, Feedback, Record, Turn, Version, VersionSpan
from collector.store.reader import Reader
from collector.store.registry_rows import RegistrySnapshot
from collector.store.writer import Writer
from trainer.adapter_config import AdapterConfig
from trainer.batch.batch_config import BatchConfig
from trainer.batch.collect import TABLES, collect_work
from trainer.batch.work import AdapterWork
from trainer.config import TrainerConfig

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
LATER = NOON + timedelta(days=2)
"""When every window of a test has closed."""


def turn(
    session: str,
    number: int = 1,
    *,
    prompt: list[int] | None = None,
    completion: list[int] | None = None,
    at_s: float = 0.0,
    **changes: Any,
) -> Turn:
    """A trainable turn of the adapter's version 1, which takes a second; its id is `session/number`."""
    sampled = [number, 7] if completion is None else completion
    fields: dict[str, Any] = {
        "turn_id": f"{session}/{number}",
        "tenant": "acme",
        "finished_at": NOON + timedelta(seconds=at_s + 1),
        "adapter": "a",
        "adapter_version": 1,
        "temperature": 1.0,
        "logprob_mode": "scaled",
        "finish_reason": "stop",
        "trainable": True,
        "weight_versions": [VersionSpan(version=0, start=0, end=len(sampled))] if sampled else [],
    }
    return Turn(
        session_id=session,
        turn=number,
        api="chat",
        started_at=NOON + timedelta(seconds=at_s),
        prompt_ids=[1, 2] if prompt is None else prompt,
        completion_ids=sampled,
        sampled_logprobs=[-0.25 * (place + 1) for place in range(len(sampled))],
        **(fields | changes),
    )


def judged(target: str, value: float | None, *, tenant: str = "acme", **changes: Any) -> Feedback:
    """A thumb for a session, or for a turn where the target is `session/number`."""
    session, _, number = target.partition("/")
    fields: dict[str, Any] = {"feedback_id": f"{tenant}-{target}", "kind": "thumb", "at": NOON + timedelta(seconds=9)}
    turn_id = target if number else None
    return Feedback(tenant=tenant, session_id=session, turn_id=turn_id, value=value, **(fields | changes))


def event(kind: str, session: str, number: int | None = None) -> Event:
    """Something declared of a session or of a turn of it."""
    return Event(at=NOON, kind=kind, session_id=session, turn=number, actor="acme")


def version(number: int, *, parent: int | None = None, step: int | None = 0, **changes: Any) -> Version:
    """A live version of adapter `a`."""
    fields: dict[str, Any] = {"adapter": "a", "state": "live"} | changes
    return Version(version=number, parent=parent, optimizer_step=step, created_at=NOON, changed_at=NOON, **fields)


V0, V1 = version(0), version(1, parent=0, step=10)


def registry(*versions: Version, tenant: str = "acme", base_model: str = "base") -> RegistrySnapshot:
    """A registry of these versions, 0 and 1 of adapter `a` unless others are given."""
    known = versions or (V0, V1)
    names = sorted({each.adapter for each in known})
    adapters = tuple(Adapter(adapter=name, tenant=tenant, base_model=base_model, created_at=NOON) for name in names)
    return RegistrySnapshot(1, adapters, known, (), {})


def config(*adapters: str, tenant: str = "acme", **batch: Any) -> TrainerConfig:
    """Settings for one tenant's adapters, `a` unless others are named; steps of a single session are allowed."""
    named = {name: AdapterConfig(tenant=tenant) for name in adapters or ("a",)}
    return TrainerConfig(adapters=named, batch=BatchConfig(**({"min_sessions": 1, "max_user_share": 1.0} | batch)))


def stored(folder: Path, *records: Record, writer: str = "collector") -> Path:
    """A store with these records in one writer's journal."""
    with Writer(folder, writer) as journal:
        for future in [journal.append(record) for record in records]:
            future.result(timeout=30)
    return folder


def collected(
    store: Path,
    settings: TrainerConfig | None = None,
    *,
    known: RegistrySnapshot | None = None,
    now: datetime = LATER,
    steps: Mapping[str, int] | None = None,
    **more: Any,
) -> dict[str, AdapterWork]:
    """The work in a store; the weights stand where version 1 was saved unless told otherwise."""
    with Reader(store).snapshot(TABLES) as snapshot:
        return collect_work(
            snapshot,
            known or registry(),
            settings or config(),
            now=now,
            steps={"a": 10} if steps is None else steps,
            **more,
        )


def left_out(work: AdapterWork) -> dict[str, int]:
    """Reason to the number of turns that were left out for it, of every stage."""
    return {reason: count.turns for stage in work.funnel.stages for reason, count in stage.left_out.items()}


def trained(work: AdapterWork) -> dict[str, float]:
    """Turn id of every turn with loss to its advantage."""
    return {name: value for batch in work.batches for name, value in batch.advantages.items()}


def passed(work: AdapterWork) -> list[int]:
    """Turns captured and past each stage."""
    return [work.funnel.captured.turns, *(stage.passed.turns for stage in work.funnel.stages)]


def pair(*names: str, **changes: Any) -> Iterable[Record]:
    """One-turn sessions, judged 1 and 0 in turn, oldest first."""
    for place, name in enumerate(names):
        yield turn(name, at_s=place, **changes)
        yield judged(name, float(place % 2 == 0))
