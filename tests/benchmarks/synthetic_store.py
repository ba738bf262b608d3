"""A store of any size, written as a collector and a trainer write one: sessions, feedback, training steps, versions."""

import random
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from datetime import UTC, datetime, timedelta
from pathlib import Path

from collector.records import Eval, Event, Feedback, Record, Reward, Score, Span, Step, Turn, VersionSpan
from collector.store.registry import Registry
from collector.store.writer import Writer

ADAPTERS = ("refund", "triage")
TENANT = "acme"
TURNS_A_SESSION = 8
COMPLETION_TOKENS = 48
PROMPT_TOKENS = 64
WAITING = 4_000
"""Records that may wait to be durable before the next is made."""


class Waiting:
    """Appends records and waits for the oldest answers when many are open."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._open: deque[Future[object]] = deque()

    def append(self, record: Record) -> None:
        """Queues one."""
        self._open.append(self._writer.append(record))  # pyright: ignore[reportArgumentType]
        while len(self._open) > WAITING:
            self._open.popleft().result(120)

    def done(self) -> None:
        """Waits for all."""
        while self._open:
            self._open.popleft().result(120)


def session(number: int, source: random.Random, at: datetime, *, version: int) -> list[Turn]:
    """One agent run: each prompt goes on from the turn before."""
    adapter = ADAPTERS[number % len(ADAPTERS)]
    prompt = source.choices(range(30_000), k=PROMPT_TOKENS)
    turns: list[Turn] = []
    for turn in range(1, TURNS_A_SESSION + 1):
        completion = source.choices(range(30_000), k=COMPLETION_TOKENS)
        started = at + timedelta(seconds=5 * turn)
        turns.append(
            Turn(
                turn_id=f"turn-{number:08d}-{turn}",
                session_id=f"session-{number:08d}",
                turn=turn,
                parent_turn_id=turns[-1].turn_id if turns else None,
                link="extends" if turns else "root",
                tenant=TENANT,
                adapter=adapter,
                adapter_version=version,
                base_model="base",
                api="chat",
                started_at=started,
                first_token_at=started + timedelta(seconds=1),
                finished_at=started + timedelta(seconds=2),
                prompt_ids=list(prompt),
                completion_ids=completion,
                sampled_logprobs=[-source.expovariate(1.5) for _ in completion],
                logprob_mode="scaled",
                weight_versions=[VersionSpan(version="base", start=0, end=COMPLETION_TOKENS)],
                temperature=1.0,
                finish_reason="stop",
                trainable=True,
            )
        )
        prompt += [*completion, *source.choices(range(30_000), k=PROMPT_TOKENS // 2)]
    return turns


def scores_of(turns: list[Turn], step: int, version: int) -> Iterator[Score]:
    """What the trainer makes of them."""
    for turn in turns:
        logprobs = [logprob + 0.001 for logprob in turn.sampled_logprobs]
        entropies = [0.6] * len(logprobs)
        yield Score(
            turn_id=turn.turn_id,
            adapter=turn.adapter,
            trainer_step=step,
            trainer_version=version,
            trainer_logprobs=logprobs,
            entropies=entropies,
        )


def step_of(adapter: str, step: int, at: datetime, source: random.Random) -> Step:
    """One optimizer step."""
    return Step(
        adapter=adapter,
        step=step,
        at=at,
        duration_s=40.0,
        tokens=8_192,
        model_flops=1e15,
        peak_flops=1e14,
        mfu=source.gauss(0.35, 0.01),
        loss=source.gauss(0.1, 0.01),
        grad_norm=source.gammavariate(20.0, 0.05),
        entropy=source.gauss(0.6, 0.02),
        reward_mean=source.gauss(0.5, 0.05),
        max_w=1 + source.random() / 10,
        min_w=1 - source.random() / 10,
        kl_mu_old=abs(source.gauss(0.0, 1e-4)),
        ess=0.99,
        staleness_mean=1.0,
        lr=1e-5,
    )


def write_store(store: Path, *, turns: int, steps: int, seed: int = 7, end: datetime | None = None) -> None:
    """Writes that many turns and steps (of both adapters together), the newest of them at `end`, which is now."""
    source = random.Random(seed)
    sessions, each = turns // TURNS_A_SESSION, steps // len(ADAPTERS)
    end = end or datetime.now(UTC)
    begin = end - timedelta(days=2)
    gap = (end - begin) / max(1, sessions)
    with Writer(store, "collector") as collector, Writer(store, "trainer") as trainer:
        _register(store)
        collected, trained = Waiting(collector), Waiting(trainer)
        stepped = 0
        for number in range(sessions):
            at = begin + gap * number
            made = session(number, source, at, version=0)
            for turn in made:
                collected.append(turn)
            if number % 3 == 0:
                collected.append(_feedback(number, made[-1], at + timedelta(seconds=60), source))
            trained.append(
                Reward(
                    session_id=made[0].session_id,
                    value=float(number % 3 == 0),
                    parts={"thumb": 1.0},
                    mapping_sha256="0" * 64,
                    closed_at=at + timedelta(seconds=90),
                )
            )
            due = each * (number + 1) // sessions
            for score in scores_of(made, min(due, each - 1), 0):
                trained.append(score)
            while stepped < due:
                stepped += 1
                for adapter in ADAPTERS:
                    ended = at + timedelta(seconds=90)
                    trained.append(step_of(adapter, stepped, ended, source))
                    trained.append(Span(role="trainer", kind="step", from_=ended - timedelta(seconds=40), to=ended))
                    if stepped % 50 == 0:
                        for sample in range(8):
                            trained.append(
                                Eval(
                                    adapter=adapter,
                                    version=0,
                                    suite="held-out",
                                    task_id=f"task-{sample}",
                                    sample=0,
                                    score=source.random(),
                                    passed=source.random() < 0.5,
                                )
                            )
            if number % 10 == 0:
                collected.append(
                    Event(at=at, kind="retry", session_id=made[0].session_id, text="the client asked again")
                )
        collected.done()
        trained.done()
        collector.seal()
        trainer.seal()


def _feedback(number: int, turn: Turn, at: datetime, source: random.Random) -> Feedback:
    return Feedback(
        feedback_id=f"feedback-{number:08d}",
        tenant=TENANT,
        turn_id=turn.turn_id,
        session_id=turn.session_id,
        kind="thumb",
        value=float(source.random() < 0.5),
        at=at,
    )


def _register(store: Path) -> None:
    with Registry(store) as registry:
        for adapter in ADAPTERS:
            if adapter not in {known.adapter for known in registry.snapshot().adapters}:
                registry.register_adapter(adapter, tenant=TENANT, base_model="base", actor="benchmark", reason="made")
