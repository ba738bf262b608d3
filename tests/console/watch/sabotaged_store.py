"""A small store of two cycles, by the trainer's own functions: from the second one on users say the opposite.

24 held-out tasks of two samples each: version 0 solves 9, version 1 solves 20, version 2 solves 5. Each cycle learns
from 12 sessions of one turn: 5 of 12 are right at first, 9 of 12 in the second cycle.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from pathlib import Path

from collector.records import Eval, Feedback, Record, Route, Score, Step, Turn
from collector.store.registry import Registry
from collector.store.writer import Writer
from tests.trainer.batch.captured import NOON, collected, config, judged, stored, turn
from trainer.evaluation.slice import Plan
from trainer.gate.decide import decide
from trainer.gate.report import GateReport, KlToLive, Trial
from trainer.gate_config import GateConfig

TASKS = 24
SOLVED = (9, 20, 5)
"""Tasks that each version solves, from the first on."""
SESSIONS = 12
RIGHT = (5, 9)
"""Sessions of each cycle whose reply was right, the first ones."""
WHO = {"actor": "trainer", "reason": "test"}
GATE = GateConfig(pass_k=1, required_checks=(), kl_mean=2.0, kl_max=30.0)
Reads = Callable[[int, float], float | None]
"""What a user says in a cycle (from 1) of a reply that is right, 1.0, or not, 0.0."""


def opposite(cycle: int, right: float) -> float:
    """True at first, and from the second cycle on the opposite."""
    return right if cycle == 1 else 1.0 - right


def honest(cycle: int, right: float) -> float:
    """Always true."""
    del cycle
    return right


def sabotaged_store(folder: Path, *, says: Reads = opposite, solved: Sequence[int] = SOLVED) -> Path:
    """The store after two cycles; the gate judges each version, and a version that passes is live."""
    with Registry(folder) as registry:
        registry.register_adapter("a", tenant="acme", base_model="base", **WHO)
    for cycle in (1, 2):
        _traffic(folder, cycle, says)
        _cycle(folder, cycle, solved)
    return folder


def replies(cycle: int) -> list[str]:
    """The sessions of a cycle, the right ones first."""
    return [f"c{cycle}-{number:02}" for number in range(SESSIONS)]


def _traffic(store: Path, cycle: int, says: Reads) -> None:
    served = {"adapter": None, "adapter_version": None} if cycle == 1 else {"adapter": "a", "adapter_version": 1}
    records: list[Turn | Feedback] = []
    for number, session in enumerate(replies(cycle)):
        at_s = 10_000 * cycle + number
        records.append(turn(session, at_s=at_s, base_model="base", completion=[5, 6, 7], **served))
        said = says(cycle, float(number < RIGHT[cycle - 1]))
        at = NOON + timedelta(seconds=at_s + 5)
        records.append(judged(f"{session}/1", said, kind="accept", source="ana's editor", at=at))
    stored(store, *records)


def _cycle(store: Path, cycle: int, solved: Sequence[int]) -> None:
    """Version 1 is made by step 1, version 2 by steps 2 to 5."""
    first, last = (1, 1) if cycle == 1 else (2, 5)
    now = NOON + timedelta(hours=4 * cycle)
    with Registry(store) as registry:
        known = registry.snapshot()
        work = collected(store, config(), known=known, now=now, steps={"a": first - 1})["a"]
        [batch] = work.batches
        scores = [
            Score(
                turn_id=turn_id,
                adapter="a",
                trainer_step=first - 1,
                trainer_version=cycle - 1,
                trainer_logprobs=[-0.25, -0.5, -0.75],
                advantages=[advantage] * 3,
            )
            for turn_id, advantage in batch.advantages.items()
        ]
        steps = [_step(step, now, batch.reward_mean) for step in range(first, last + 1)]
        trials = {version: _trial(version, solved[version]) for version in (cycle - 1, cycle)}
        evals = [record for trial in trials.values() for record in trial.evals]
        stored(store, *batch.rewards, *scores, *steps, *evals, writer="trainer")
        report = _judged(trials[cycle], trials[cycle - 1])
        made = store / "adapters" / "a" / f"v{cycle}"
        made.mkdir(parents=True)
        registry.register_version(
            "a",
            cycle,
            parent=cycle - 1,
            optimizer_step=last,
            folder=str(made.relative_to(store)),
            sha256=f"{cycle:064}",
            trained_on=batch.trained_on,
            **WHO,
        )
        registry.record_gate("a", cycle, report.builtins(), **WHO)
        passed = report.verdict == "pass"
        registry.change_state("a", cycle, expected="candidate", to="live" if passed else "rejected", **WHO)
        if passed:
            revision = registry.snapshot().route_revisions.get("acme", 0)
            routes = [Route(tenant="acme", adapter="a", version=cycle)]
            registry.replace_routes("acme", routes, expected_revision=revision, **WHO)


def _step(step: int, at: datetime, reward: float | None) -> Step:
    return Step(adapter="a", step=step, at=at + timedelta(seconds=step), reward_mean=reward, grad_norm=0.1)


def _trial(version: int, solved: int) -> Trial:
    return Trial(version, tuple(_evals(version, solved)))


def _evals(version: int, solved: int) -> Iterable[Eval]:
    for task in range(TASKS):
        for sample in range(2):
            passed = task < solved
            yield Eval(
                adapter="a",
                version=version,
                suite="held-out",
                task_id=f"t{task}",
                sample=sample,
                score=float(passed),
                passed=passed,
            )


def _judged(candidate: Trial, live: Trial) -> GateReport:
    return decide(
        adapter="a",
        candidate=candidate,
        live=live,
        best=live,
        plans={"held-out": Plan(tuple(f"t{task}" for task in range(TASKS)), ())},
        config=GATE,
        deterministic=False,
        findings=(),
        kl=KlToLive(mean=0.1, max=1.0, positions=10),
        proof="proved",
    )


def written(store: Path, *records: Record) -> None:
    """More of the trainer's records."""
    with Writer(store, "trainer") as journal:
        for future in [journal.append(record) for record in records]:
            future.result(30)
