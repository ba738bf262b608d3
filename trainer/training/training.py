"""A cycle's training: batches of several adapters, one multi-LoRA step after another, to a checkpoint of each.

Nothing of a cycle counts before its checkpoint is registered: what a killed one had done is done again from the parent
version, to the same numbers, and records that the store holds already are not written a second time.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, NamedTuple

from collector.errors import UserError
from collector.records import Event, Record, Severity, Step, Version
from collector.store.registry_rows import read_registry
from trainer.checkpoint import Checkpoint, skipped_folders
from trainer.config import TrainerConfig
from trainer.peft_folder import read_peft
from trainer.policy import Policy
from trainer.ranks import Ranks
from trainer.training.adapter_run import AdapterRun, Trained
from trainer.training.batch_steps import BatchFlops, BatchSteps, Made, Taken
from trainer.training.given_work import Batch, Work
from trainer.training.peak_rate import peak_rate
from trainer.training.published_weights import PublishedWeights
from trainer.training.run_record import run_record
from trainer.training.score_records import WrittenBefore
from trainer.training.spans import Spans

ACTOR = "trainer"


class Progress(NamedTuple):
    """Where a cycle's training stands."""

    stage: Literal["resuming", "training", "stepped", "saving"]
    batch: int
    """1-based."""
    batches: int
    adapters: tuple[str, ...]
    steps: tuple[Step, ...] = ()
    """Of the batch that was just trained on."""
    flops: BatchFlops | None = None
    """What it took."""


def _nothing(_: object) -> None:
    """Where nobody wants to know."""


class Training:
    """Trains adapters on a policy, cycle after cycle."""

    def __init__(
        self,
        policy: Policy,
        config: TrainerConfig,
        store: Path,
        write: Callable[[Record], None],
        *,
        ranks: Ranks = Ranks(),  # noqa: B008  a tuple
        engine: Mapping[str, str] | None = None,
        progress: Callable[[Progress], None] = _nothing,
    ) -> None:
        """`engine` is the name and version of what samples, for the `run` record."""
        self._policy = policy
        self._config = config
        self._store = store
        self._write = write if ranks.is_writer else _nothing
        self._ranks = ranks
        self._engine = engine or {}
        self._progress = progress
        self._peak = config.training.peak_flops
        self.left_out: dict[str, str] = {}
        """Adapter to why the last cycle made no checkpoint of it."""

    def train(self, work: Mapping[str, Work], parents: Mapping[str, Version]) -> dict[str, Trained]:
        """Trains every adapter that has batches, from its parent version on.

        An adapter that fails is named in `left_out` and in an event, and the others go on without it.
        """
        self.left_out = {}
        spans = Spans(self._write, _now())
        busy = {name: each for name, each in work.items() if each.batches}
        self._progress(Progress("resuming", 0, _most(busy), tuple(busy)))
        versions = read_registry(self._store).versions
        self._note_skipped(busy, versions)
        runs = self._started(busy, parents)
        try:
            return self._trained(runs, versions, spans)
        finally:
            spans.end(_now())

    def _trained(self, runs: dict[str, AdapterRun], versions: Sequence[Version], spans: Spans) -> dict[str, Trained]:
        work = [run.work for run in runs.values()]
        self._write(self._run(work))
        turns = {turn.turn_id for each in work for batch in each.batches for turn in batch.turns}
        steps = BatchSteps(
            self._policy,
            self._config,
            PublishedWeights(self._policy.network, self._store, versions),
            self._written_before(turns),
            self._write,
            self._peak_flops(),
            self._ranks,
        )
        batches = _most({run.name: run.work for run in runs.values()})
        found: dict[str, Trained] = {}
        for index in range(batches):
            given = {name: run.work.batches[index] for name, run in runs.items() if index < len(run.work.batches)}
            self._progress(Progress("training", index + 1, batches, tuple(given)))
            taken = self._take(steps, runs, given, spans)
            self._progress(Progress("stepped", index + 1, batches, tuple(given), taken.steps, taken.flops))
            for name in [name for name, run in runs.items() if index + 1 == len(run.work.batches)]:
                self._progress(Progress("saving", index + 1, batches, (name,)))
                self._finish(runs.pop(name), found)
        return found

    def _written_before(self, turns: set[str]) -> WrittenBefore | None:
        """What the writer finds in the store; where it cannot be read, no rank goes on."""
        found, refusal = None, None
        if self._ranks.is_writer and turns:
            try:
                found = WrittenBefore(self._store, turns)
            except UserError as error:
                refusal = str(error)
        [refusal] = self._ranks.collect([refusal] if self._ranks.is_writer else [])
        if refusal is not None:
            raise UserError(refusal)
        return found

    def _take(self, steps: BatchSteps, runs: dict[str, AdapterRun], given: Mapping[str, Batch], spans: Spans) -> Made:
        """One batch of each adapter; one whose batch is unfit leaves."""
        fit: dict[str, Taken] = {}
        for name, batch in given.items():
            try:
                fit[name] = Taken(runs[name], batch, runs[name].rows(batch))
            except (UserError, ValueError) as error:
                del runs[name]
                self._leave_out(name, str(error))
        fit = {name: each for name, each in fit.items() if each.rows}
        return steps.take(fit, spans) if fit else Made((), BatchFlops(None, None, None))

    def _started(self, work: Mapping[str, Work], parents: Mapping[str, Version]) -> dict[str, AdapterRun]:
        runs: dict[str, AdapterRun] = {}
        for name, each in work.items():
            try:
                if name not in parents or name not in self._config.adapters:
                    missing = "version to continue from" if name not in parents else f"[trainer.adapters.{name}]"
                    raise UserError(f"adapter {name} has work and no {missing}, expected one")
                network, config = self._policy.network, self._config.adapters[name]
                runs[name] = AdapterRun(network, self._store, each, config, parents[name])
            except UserError as error:
                self._leave_out(name, str(error))
        return runs

    def _finish(self, run: AdapterRun, found: dict[str, Trained]) -> None:
        """Saves an adapter that has taken its last batch; one process writes, all learn what came of it."""
        outcomes = self._ranks.collect([self._saved(run)] if self._ranks.is_writer else [])
        if isinstance(outcomes[0], str):
            self._leave_out(run.name, outcomes[0])
            return
        assert run.last is not None
        found[run.name] = Trained(
            adapter=run.name,
            checkpoint=outcomes[0],
            steps=run.steps,
            trained_on=tuple(run.trained_on),
            last=run.last,
            weights=read_peft(self._policy.network, outcomes[0].folder, run.name),
            without_sampling_scores=dict(run.gone),
        )
        if run.gone:
            text = f"no pi_gen for {sum(run.gone.values())} turns: {next(iter(run.gone))}"
            self._event("sampling_version_gone", "warn", run.name, text, {"turns": dict(run.gone)})

    def _saved(self, run: AdapterRun) -> Checkpoint | str:
        try:
            name = str(self._policy.network.config.name_or_path)
            return run.save(base_model=name, dtype=self._published_dtype())
        except UserError as error:
            return str(error)

    def _run(self, work: Sequence[Work]) -> Record:
        return run_record(
            self._policy,
            work,
            at=_now(),
            published_dtype=self._published_dtype(),
            budget_tokens=self._config.budget_tokens,
            updates_per_batch=self._config.training.updates_per_batch,
            ranks=self._ranks,
            engine=self._engine,
        )

    def _published_dtype(self) -> Literal["float32", "bfloat16", "float16"]:
        return self._config.training.published_dtype or self._config.dtype

    def _peak_flops(self) -> float | None:
        """Of all devices: as given, else the best rate that was ever measured here."""
        settings = self._config.training
        if settings.peak_flops is None and settings.measure_peak:
            network = self._policy.network
            self._peak = max(self._peak or 0.0, peak_rate(network.device, network.dtype))
        return None if self._peak is None else self._peak * self._ranks.size

    def _note_skipped(self, names: Iterable[str], versions: Sequence[Version]) -> None:
        """Says what interrupted cycles left behind; only registered versions are continued from."""
        folders = [self._store / version.folder for version in versions if version.folder is not None]
        for name in names:
            for skipped in skipped_folders(self._store / "adapters" / name, folders):
                folder = str(skipped.folder.relative_to(self._store))
                detail: dict[str, object] = {"folder": folder, "reason": skipped.reason}
                self._event("checkpoint_skipped", "info", name, f"{folder}: {skipped.reason}", detail)

    def _leave_out(self, name: str, reason: str) -> None:
        self.left_out[name] = reason
        self._event("adapter_left_out", "fail", name, reason, None)

    def _event(self, kind: str, severity: Severity, adapter: str, text: str, detail: dict[str, object] | None) -> None:
        self._write(
            Event(at=_now(), kind=kind, severity=severity, adapter=adapter, actor=ACTOR, text=text, detail=detail)
        )


def _most(work: Mapping[str, Work]) -> int:
    return max((len(each.batches) for each in work.values()), default=0)


def _now() -> datetime:
    return datetime.now(UTC)
