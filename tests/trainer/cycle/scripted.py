"""Parts that do as they are told, with an engine that outlives the process: a file says what it has loaded."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from collector.errors import EngineError, UserError
from collector.records import Eval, Event, Feedback, Record, Version
from collector.store.reader import Reader
from collector.store.registry import Registry
from collector.store.registry_rows import RegistrySnapshot
from collector.store.snapshot import Snapshot
from collector.store.writer import Writer
from trainer.adapter_config import AdapterConfig
from trainer.config import TrainerConfig
from trainer.cycle.cycle import Setting
from trainer.cycle.history import History
from trainer.cycle.ports import Collected, Contexts, Evaluated, Held, Judged, LoadedOn, Made, Proved, UnloadedFrom
from trainer.cycle.schedule_config import ScheduleConfig
from trainer.publish_config import PublishConfig

BASE = "tiny"
SHA256 = "5" * 64


class ScriptedParts:
    """Answers by adapter; what is not told goes well."""

    def __init__(self, store: Path, *, point: Callable[[str], None] = lambda _: None) -> None:
        """`point` is told after each thing that was done."""
        self._store = store
        self._file = store / "engine.json"
        self._point = point
        self.sessions: dict[str, int] = {}
        """Adapter to sessions that are new; 0 where it is not named."""
        self.verdicts: dict[str, str] = {}
        """Adapter to the gate's verdict, or the proof's where it is one of those."""
        self.breaks: dict[tuple[str, str], str] = {}
        """(stage, adapter) to the error it fails with."""
        self.hangs: set[str] = set()
        """Engine names that cannot be unloaded."""
        self.unreachable = False
        self.calls: list[tuple[str, str]] = []
        self.slices: list[tuple[str, int]] = []
        """Which slice of its suites each evaluation was of."""

    @property
    def engine(self) -> dict[str, list[str]]:
        """What it has loaded, and every proof it was asked for."""
        return json.loads(self._file.read_text()) if self._file.exists() else {"loaded": [], "proved": []}

    def base_model(self) -> str:
        self._refuse_unreachable()
        return BASE

    def _refuse_unreachable(self) -> None:
        if self.unreachable:
            raise EngineError("the engine at http://nowhere cannot be reached; is it running?")

    def contexts(self, snapshot: Snapshot, adapter: str) -> Contexts:
        return [[1, 2, 3]]

    def collect(
        self, snapshot: Snapshot, registry: RegistrySnapshot, parents: Mapping[str, Version], now: datetime
    ) -> Mapping[str, Collected]:
        for name in parents:
            if ("collect", name) in self.breaks:
                raise UserError(self.breaks["collect", name])
        self._called("collect", "")
        return {name: self._collected(name, parent.optimizer_step or 0) for name, parent in parents.items()}

    def train(self, work: Mapping[str, Collected], parents: Mapping[str, Version]) -> Mapping[str, Made | str]:
        made: dict[str, Made | str] = {}
        for name, parent in parents.items():
            if ("train", name) in self.breaks:
                made[name] = self.breaks["train", name]
                continue
            step = (parent.optimizer_step or 0) + work[name].batches
            folder = self._store / "adapters" / name / f"{parent.version}-{step}-{len(self.calls)}"
            folder.mkdir(parents=True)
            made[name] = Made(folder, SHA256, step, work[name].batches, [("collector", 1, 2)], {"loss": 0.5})
        self._called("train", ",".join(parents))
        return made

    def held(self) -> Held:
        self._refuse_unreachable()
        held = frozenset(self.engine["loaded"])
        return Held(held | {"somebody-else's"}, held)

    def load(self, name: str, folder: Path, in_use: Collection[str]) -> LoadedOn:
        assert folder.is_dir()
        engine = self.engine
        engine["loaded"] = sorted({*engine["loaded"], name})
        self._change("load", name, engine)
        return LoadedOn("loaded on 1 of 1 workers")

    def prove(self, candidate: Version, previous: Version, contexts: Contexts) -> Proved:
        name = f"{candidate.adapter}@{candidate.version}"
        engine = self.engine
        assert name in engine["loaded"], "what is not loaded cannot be proved"
        verdict = self.verdicts.get(candidate.adapter, "proved")
        verdict = verdict if verdict in ("refuted", "undecided") else "proved"
        engine["proved"].append(name)
        self._change("prove", name, engine)
        event = Event(at=datetime.now(UTC), kind="proof", adapter=candidate.adapter, version=candidate.version)
        return Proved(verdict, f"{name} {verdict}", [event])  # type: ignore[arg-type]

    def evaluate(self, candidate: Version, live: Version, best: Version, cycle: int) -> Evaluated:
        self._called("evaluate", candidate.adapter)
        self.slices.append((candidate.adapter, cycle))
        found = [
            Eval(adapter=candidate.adapter, version=version.version, suite="s", task_id="1", sample=0, score=1.0)
            for version in (candidate, live)
        ]
        return Evaluated(found, "2 samples", None)

    def judge(self, candidate: Version, live: Version, evaluated: Evaluated, contexts: Contexts) -> Judged:
        self._called("judge", candidate.adapter)
        verdict = self.verdicts.get(candidate.adapter, "pass")
        verdict = verdict if verdict in ("refuse", "inconclusive") else "pass"
        report = {"verdict": verdict, "reasons": [f"told to {verdict}"], "numbers": {"held_out_score": 0.5}}
        return Judged(verdict, f"told to {verdict}", report)  # type: ignore[arg-type]

    def unload(self, name: str) -> UnloadedFrom:
        if name in self.hangs:
            self._called("unload", name)
            return UnloadedFrom(False, "it hangs and is left behind")
        engine = self.engine
        engine["loaded"] = [each for each in engine["loaded"] if each != name]
        self._change("unload", name, engine)
        return UnloadedFrom(True, "unloaded")

    def _collected(self, name: str, step: int) -> Collected:
        sessions = self.sessions.get(name, 0)
        why = "" if sessions else "no session is new"
        funnel = {"captured": sessions, "at_step": step}
        return Collected(name, 1 if sessions else 0, sessions, sessions, why, funnel, None)

    def _change(self, what: str, name: str, engine: dict[str, list[str]]) -> None:
        adapter = name.partition("@")[0]
        if (what, adapter) in self.breaks:
            raise EngineError(self.breaks[what, adapter])
        fresh = self._file.with_suffix(".tmp")
        fresh.write_text(json.dumps(engine))
        fresh.replace(self._file)
        self._called(what, name)

    def _called(self, what: str, name: str) -> None:
        if (what, name) in self.breaks:
            raise EngineError(self.breaks[what, name])
        self.calls.append((what, name))
        self._point(what)


class Site:
    """A store with its trainer's journal, its registry and scripted parts, in this process."""

    def __init__(
        self,
        store: Path,
        adapters: Mapping[str, str],
        *,
        point: Callable[[str], None] = lambda _: None,
        registry: Callable[[Path], Registry] = Registry,
    ) -> None:
        """`adapters` is name to tenant."""
        self.store = store
        self._point = point
        self.writer = Writer(store, "trainer")
        self.registry = registry(store)
        self.parts = ScriptedParts(store, point=point)
        config = TrainerConfig(
            adapters={name: AdapterConfig(tenant=tenant) for name, tenant in adapters.items()},
            schedule=ScheduleConfig(poll_s=0.01, retry_s=0.01),
            publish=PublishConfig(acknowledge_limit_s=0.05, settle_s=0.0),
        )
        self.setting = Setting(
            store=store,
            config=config,
            names=tuple(adapters),
            reader=Reader(store),
            registry=self.registry,
            parts=self.parts,
            history=History(adapters.values()),
            write=self.write,
        )

    def write(self, record: Record) -> None:
        """Durable when it returns."""
        self.writer.append(record).result(30)
        self._point(f"write {(record.detail or {}).get('stage')}" if isinstance(record, Event) else "write")

    def __enter__(self) -> "Site":
        return self

    def __exit__(self, *_: object) -> None:
        self.registry.close()
        self.writer.close()

    def states(self, adapter: str) -> list[str]:
        """Of the adapter's versions, from 0."""
        return [each.state for each in self.registry.snapshot().versions if each.adapter == adapter]

    def routed(self, tenant: str) -> list[tuple[str | None, int]]:
        """Where the tenant's sessions go."""
        return [(each.adapter, each.version) for each in self.registry.snapshot().routes if each.tenant == tenant]


def rows(store: Path, table: str) -> list[dict[str, Any]]:
    """A table of the store."""
    with Reader(store).snapshot([table]) as snapshot:
        return snapshot.arrow(table).to_pylist()


def cycle_events(store: Path) -> list[dict[str, Any]]:
    """The events of cycles with their detail read, in the order they were written."""
    found = [row for row in rows(store, "events") if row["kind"] == "cycle"]
    return [row | {"detail": json.loads(row["detail"])} for row in found]


def stages(store: Path, adapter: str) -> list[str]:
    """Stage and state of each event about an adapter."""
    return [
        f"{row['detail']['stage']} {row['detail']['state']}" for row in cycle_events(store) if row["adapter"] == adapter
    ]


def feedback(tenant: str, *names: str) -> Sequence[Feedback]:
    """A thumb up for each name."""
    at = datetime.now(UTC)
    return [
        Feedback(feedback_id=name, tenant=tenant, session_id=f"s-{name}", kind="thumb", value=1.0, at=at)
        for name in names
    ]
