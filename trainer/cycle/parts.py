"""The real parts of a cycle: batches from the store, a model that trains, engines that serve, suites and the gate.

Torch is loaded with the model, when it is needed first: a trainer that waits for feedback holds neither.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from checks.config import ChecksConfig
from collector.errors import EngineError
from collector.records import Event, Record, Version
from collector.rendering.renderer import Renderer
from collector.store.adapter_names import engine_name
from collector.store.reader import Reader
from collector.store.registry_rows import RegistrySnapshot, read_registry
from collector.store.snapshot import Snapshot
from collector.workers.proofs import Proofs
from trainer.batch.collect import collect_work
from trainer.batch.funnel_text import funnel_lines
from trainer.batch.work import AdapterWork, work_report
from trainer.config import TrainerConfig
from trainer.cycle.contexts import recent_contexts
from trainer.cycle.engine_facts import EngineFacts, ask_engines
from trainer.cycle.gate_findings import gate_findings
from trainer.cycle.ports import Collected, Contexts, Evaluated, Held, Judged, LoadedOn, Made, Proved, UnloadedFrom
from trainer.cycle.served_base import refuse_other_base
from trainer.engine_config import Dtype
from trainer.evaluation.engine_sampler import EngineSampler
from trainer.gate.decide import decide
from trainer.gate.report import Trial
from trainer.gate.text import report_lines
from trainer.gate.trials import Exam, Trials
from trainer.precision import coarsest, precision_warning
from trainer.publish.judgement import Verdict
from trainer.publish.publisher import Publisher, PublishError

if TYPE_CHECKING:
    from trainer.cycle.model_side import ModelSide
    from trainer.cycle.orders import Orders


class Engines(NamedTuple):
    """The workers that versions are published to."""

    urls: tuple[str, ...]
    admin_key: str | None = None


class RealParts:
    """Loads the base model when it is needed first, and keeps it."""

    def __init__(
        self,
        store: Path,
        config: TrainerConfig,
        *,
        model: Path,
        base_model: str,
        engines: Engines,
        write: Callable[[Record], None],
        checks: ChecksConfig = ChecksConfig(),  # noqa: B008  frozen
        check: Callable[[], None] = lambda: None,
        tell: Callable[[Sequence[str]], None] = lambda _: None,
        say: Callable[[str], None] = lambda _: None,
        orders: "Orders | None" = None,
    ) -> None:
        """`base_model` is the name that the collector records; `check` raises where the process was told to stop, and
        `tell` is given what an adapter can be trained on, line by line, and `say` what was not observed. `orders` go
        to the other processes where the model is cut over several."""
        self._store = store
        self._config = config
        self._model = model
        self._base_model = base_model
        self._engines = engines
        self._write = write
        self._check = check
        self._tell = tell
        self._say = say
        self._orders = orders
        self._checks = checks
        self._publisher = Publisher(engines.urls, config.publish, engines.admin_key)
        self._proofs: dict[str, Verdict] = {}
        self._proofs_told = Proofs()
        self._model_loaded: ModelSide | None = None
        self._facts: tuple[EngineFacts, ...] = ()
        self._warned: str | None = None

    def base_model(self) -> str:
        """The name, once every worker is seen to serve the same model."""
        urls, admin_key = tuple(self._loaded()), self._engines.admin_key
        refuse_other_base(urls, admin_key, self._model)
        self._facts = ask_engines(urls, admin_key, self._model)
        self._expect_noise()
        self._warn_of_precision()
        return self._base_model

    def collect(
        self, snapshot: Snapshot, registry: RegistrySnapshot, parents: Mapping[str, Version], now: datetime
    ) -> Mapping[str, Collected]:
        """Batches of what is new, and the account of the rest."""
        steps = {name: parent.optimizer_step or 0 for name, parent in parents.items()}
        baselines = {name: self._baseline(parent) for name, parent in parents.items()}
        work = collect_work(
            snapshot, registry, self._config, now=now, steps=steps, parents=parents, baselines=baselines
        )
        for name in parents:
            self._tell(funnel_lines(work[name]))
        return {name: _collected(work[name]) for name in parents}

    def contexts(self, snapshot: Snapshot, adapter: str) -> Contexts:
        """Of the newest sessions."""
        return recent_contexts(snapshot, self._config.adapters[adapter].tenant, adapter)

    def train(self, work: Mapping[str, Collected], parents: Mapping[str, Version]) -> Mapping[str, Made | str]:
        """One multi-LoRA step after another over the batches of all."""
        engines = {"engine": "; ".join(dict.fromkeys(each.text for each in self._facts))}
        return self._model_side.train(
            {name: _work(each) for name, each in work.items()}, parents, engines, self._write, self._check
        )

    def held(self) -> Held:
        """What the workers say they have loaded, and what the store's proofs say of it."""
        of_worker = {worker: frozenset(names) for worker, names in self._loaded().items()}
        loaded = list(of_worker.values())
        processes = self._publisher.processes(tuple(of_worker))
        self._proofs_told.read(self._store)
        everywhere = [
            name
            for name in loaded[0].intersection(*loaded[1:])
            if all(self._proofs_told.why_not(worker, processes[worker], name) is None for worker in of_worker)
        ]
        return Held(frozenset[str]().union(*loaded), frozenset(everywhere))

    def load(self, name: str, folder: Path, in_use: Collection[str]) -> LoadedOn:
        """On as many workers as are enough."""
        loaded = self._publisher.load(name, folder.resolve(), in_use=in_use)
        late = "".join(f"; {worker}: {why}" for worker, why in loaded.failed.items())
        numbers = {"workers": list(loaded.workers), "already": list(loaded.already), "failed": dict(loaded.failed)}
        return LoadedOn(f"on {len(loaded.workers)} of {len(self._publisher.workers)} workers{late}", numbers)

    def prove(self, candidate: Version, previous: Version, contexts: Contexts) -> Proved:
        """By the log-probabilities of the tokens on which candidate, previous and base differ most."""
        probe = self._model_side.probe(candidate, previous, contexts)
        name = engine_name(candidate.adapter, candidate.version)
        known = engine_name(previous.adapter, previous.version) if previous.version else None
        holding = [worker for worker, names in self._loaded().items() if name in names]
        proof = self._publisher.prove(probe, name, known=known, workers=holding)
        self._proofs[name] = proof.verdict
        return Proved(proof.verdict, proof.text, proof.events())

    def evaluate(self, candidate: Version, live: Version, best: Version, cycle: int) -> Evaluated:
        """On the suites of its adapter; the first worker that has all of them loaded samples."""
        adapter, config = candidate.adapter, self._config.evaluation
        exam = Exam(adapter, config)
        with Reader(self._store).snapshot(["evals"]) as snapshot:
            plans = exam.plans(snapshot.frame("evals"), once_live=self._once_live(adapter), cycle=cycle)
        sampler = EngineSampler(
            self._holding(candidate, live, best),
            Renderer.from_folder(self._model),
            config,
            admin_key=self._engines.admin_key,
        )
        trials = exam.run(
            sampler, plans, candidate=candidate.version, live=live.version, best=best.version, say=self._say
        )
        return Evaluated(trials.evals, _held_out_text(trials), trials)

    def judge(self, candidate: Version, live: Version, evaluated: Evaluated, contexts: Contexts) -> Judged:
        """By everything that the gate asks for."""
        trials = evaluated.result
        assert isinstance(trials, Trials)
        adapter, config = candidate.adapter, self._config.gate
        report = decide(
            adapter=adapter,
            candidate=trials.candidate,
            live=trials.live,
            best=trials.best,
            plans=trials.plans,
            config=config,
            deterministic=trials.deterministic,
            findings=gate_findings(
                self._store,
                config.required_checks,
                self._checks,
                tenant=self._config.adapters[adapter].tenant,
                adapter=adapter,
                now=datetime.now(UTC),
                since=self._config.batch.since,
            ),
            kl=self._model_side.kl(candidate, live, contexts),
            proof=self._proofs.get(engine_name(adapter, candidate.version)),
        )
        self._tell(report_lines(report))
        return Judged(report.verdict, "; ".join(report.reasons), report.builtins())

    def unload(self, name: str) -> UnloadedFrom:
        """From every worker; one that hangs is left behind."""
        unloaded = self._publisher.unload(name)
        left = "".join(f"; left behind on {worker}: {why}" for worker, why in unloaded.left_behind.items())
        return UnloadedFrom(not unloaded.left_behind, f"from {len(unloaded.workers)} workers{left}")

    def _loaded(self) -> dict[str, dict[str, str]]:
        """Worker to what it has loaded, of those that answer."""
        try:
            return self._publisher.loaded()
        except PublishError as error:
            raise EngineError(str(error)) from error

    def _holding(self, *versions: Version) -> str:
        names = {engine_name(each.adapter, each.version) for each in versions if each.version}
        loaded = self._loaded()
        for worker, has in loaded.items():
            if names <= has.keys():
                return worker
        raise EngineError(f"no engine worker has all of {', '.join(sorted(names))} loaded: was one started anew?")

    def _expect_noise(self) -> None:
        """Sets the noise that a proof allows by the coarsest precision in play, where the settings leave it open."""
        publish = self._config.publish
        if publish.engine_dtype is None:
            of_engines: list[Dtype | None] = [each.dtype for each in self._facts]
            publish = msgspec.structs.replace(publish, engine_dtype=coarsest([self._config.dtype, *of_engines]))
        self._publisher = Publisher(self._engines.urls, publish, self._engines.admin_key)

    def _warn_of_precision(self) -> None:
        """Says where pi_old and mu cannot agree; once, and again where an engine was started with another precision."""
        trainer = self._config.dtype
        served = self._config.training.published_dtype or trainer
        warnings = [precision_warning(trainer, each.dtype, served) for each in self._facts]
        warning = next((each for each in warnings if each is not None), None)
        if warning is not None and warning != self._warned:
            self._say(warning)
            self._write(Event(at=datetime.now(UTC), kind="precision", severity="warn", actor="trainer", text=warning))
        self._warned = warning

    def _once_live(self, adapter: str) -> set[int]:
        """Versions that users saw."""
        versions = read_registry(self._store).versions
        return {each.version for each in versions if each.adapter == adapter and each.state in ("live", "retired")}

    @property
    def _model_side(self) -> "ModelSide":
        if self._model_loaded is None:
            from trainer.cycle.model_side import ModelSide
            from trainer.cycle.orders import Orders
            from trainer.ranks import Ranks

            orders = self._orders or Orders(Ranks())
            self._model_loaded = ModelSide(self._store, self._config, self._model, orders)
        return self._model_loaded

    def _baseline(self, parent: Version) -> float | None:
        if parent.folder is None:
            return None
        from trainer.cycle.model_side import baseline_of

        return baseline_of(self._store / parent.folder)


def _collected(work: AdapterWork) -> Collected:
    report = work_report(work)
    captured = work.funnel.captured.turns
    why = "no turn has been captured yet" if not captured else _why_nothing(work)
    return Collected(
        adapter=work.adapter,
        batches=len(work.batches),
        sessions=sum(batch.sessions for batch in work.batches),
        turns=sum(batch.turns for batch in report.batches),
        reason="" if work.batches else why,
        funnel=msgspec.to_builtins(report),
        work=work,
    )


def _why_nothing(work: AdapterWork) -> str:
    """The largest reasons for which turns were left out."""
    left_out = {reason: count.turns for stage in work.funnel.stages for reason, count in stage.left_out.items()}
    largest = sorted(left_out.items(), key=lambda each: -each[1])[:3]
    said = ", ".join(f"{turns} {reason.replace('_', ' ')}" for reason, turns in largest)
    return f"nothing to train on: of {work.funnel.captured.turns} captured turns {said}"


def _work(collected: Collected) -> AdapterWork:
    assert isinstance(collected.work, AdapterWork)
    return collected.work


def _held_out_text(trials: Trials) -> str:
    """One line for a person."""
    if not trials.plans:
        return "no held-out suite is named for this adapter in [trainer.evaluation.suites]"
    tasks = sum(len(plan.tasks) for plan in trials.plans.values())
    tried = {trial.version: trial for trial in (trials.candidate, trials.live, trials.best)}
    means = ", ".join(f"version {version} {_mean(trial)}" for version, trial in tried.items())
    return f"mean held-out score over {tasks} tasks: {means}"


def _mean(trial: Trial) -> str:
    scores = [record.score for record in trial.evals if record.score is not None]
    return f"{sum(scores) / len(scores):.3f}" if scores else "not observed"
