"""One batch of each adapter: scored once, updated on as often as configured, and every number of it recorded."""

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from torch import Tensor

from collector.records import Event, Record, Step
from trainer.config import TrainerConfig
from trainer.lora import TrainedAdapter
from trainer.policy import Policy
from trainer.ranks import Ranks
from trainer.rows import SampledRun, TrainingRow
from trainer.training.adapter_run import AdapterRun
from trainer.training.batch_update import AdapterStep, BatchUpdate, logprobs_now, take_update
from trainer.training.given_work import Batch
from trainer.training.published_weights import PublishedWeights
from trainer.training.sampling_scores import SamplingScores, score_sampling_versions
from trainer.training.score_records import ScoredTurn, WrittenBefore, score_record
from trainer.training.scored_batch import ScoredBatch, score_batch
from trainer.training.spans import Spans
from trainer.training.step_record import BatchSetting, StepSetting, step_record


class Taken(NamedTuple):
    """One adapter's batch."""

    run: AdapterRun
    batch: Batch
    rows: Sequence[TrainingRow]


class BatchFlops(NamedTuple):
    """Where a batch's arithmetic went; None for a model that cannot be counted."""

    model: float | None
    """Forward and backward of all updates: what MFU counts."""
    scoring: float | None
    """Passes without gradients: pi_old, the base, pi_gen, and pi after the last update."""
    recomputation: float | None
    """What the backward passes computed again."""


class Made(NamedTuple):
    """What became of a batch."""

    steps: tuple[Step, ...]
    flops: BatchFlops


class _Update(NamedTuple):
    """An update that was made, and when."""

    done: BatchUpdate
    steps: Mapping[str, int]
    """Adapter to the number of the step."""
    at: datetime
    duration_s: float


class BatchSteps:
    """Takes batch after batch in one cycle."""

    def __init__(
        self,
        policy: Policy,
        config: TrainerConfig,
        published: PublishedWeights,
        before: WrittenBefore | None,
        write: Callable[[Record], None],
        peak_flops: float | None,
        ranks: Ranks,
    ) -> None:
        self._policy = policy
        self._config = config
        self._published = published
        self._before = before
        self._write = write
        self._peak_flops = peak_flops
        self._ranks = ranks

    def take(self, taken: Mapping[str, Taken], spans: Spans) -> Made:
        """Trains every adapter on its batch; an adapter whose update is not finite is left as it was."""
        begun = time.perf_counter()
        rows = [row for each in taken.values() for row in each.rows]
        adapters = {name: each.run.optimizer.adapter for name, each in taken.items()}
        batch = self._score(taken, rows, adapters)
        sampling = self._score_sampling(rows, adapters, batch)
        self._record_scores(taken, batch, sampling)
        updates: list[_Update] = []
        for _ in range(self._config.training.updates_per_batch):
            updates.append(self._update(taken, batch, begun))
            begun = time.perf_counter()
        last, scoring = None, batch.old_flops + batch.base_flops + sampling.flops
        if self._config.training.measure_update:
            last = logprobs_now(self._policy, adapters, batch, ranks=self._ranks)
            scoring += batch.old_flops
            more = time.perf_counter() - begun
            updates[-1] = updates[-1]._replace(at=_now(), duration_s=updates[-1].duration_s + more)
        for each in updates:
            spans.step(list(taken), each.at)
        return Made(self._record_steps(taken, batch, updates, last), _flops(updates, scoring))

    def _score(
        self, taken: Mapping[str, Taken], rows: Sequence[TrainingRow], adapters: Mapping[str, TrainedAdapter]
    ) -> ScoredBatch:
        advantages = {run.turn_id: each.batch.advantages[run.turn_id] for each in taken.values() for run in _runs(each)}
        return score_batch(
            self._policy,
            adapters,
            rows,
            advantages,
            {name: each.run.config.objective for name, each in taken.items()},
            budget_tokens=self._config.budget_tokens,
            ranks=self._ranks,
            measure_base=self._config.training.measure_base,
        )

    def _score_sampling(
        self, rows: Sequence[TrainingRow], adapters: Mapping[str, TrainedAdapter], batch: ScoredBatch
    ) -> SamplingScores:
        if not self._config.training.measure_sampling_version:
            return SamplingScores({}, {}, 0.0)
        return score_sampling_versions(
            self._policy,
            adapters,
            rows,
            batch,
            self._published,
            budget_tokens=self._config.budget_tokens,
            ranks=self._ranks,
        )

    def _record_scores(self, taken: Mapping[str, Taken], batch: ScoredBatch, sampling: SamplingScores) -> None:
        for name, each in taken.items():
            for reason, turns in sampling.gone.get(name, {}).items():
                each.run.gone[reason] = each.run.gone.get(reason, 0) + turns
            if self._before is None:
                continue
            for reward in self._before.new_rewards(each.batch.rewards):
                self._write(reward)
            for run in _runs(each):
                turn = self._scored_turn(run, each.batch.advantages[run.turn_id], batch, sampling)
                record = score_record(
                    turn, adapter=name, trainer_step=each.run.optimizer.step, trainer_version=each.run.version
                )
                if self._before.is_new(record):
                    self._write(record)

    def _scored_turn(
        self, run: SampledRun, advantage: float, batch: ScoredBatch, sampling: SamplingScores
    ) -> ScoredTurn:
        base = batch.base.get(run.turn_id)
        reference = None if base is None else base.logprobs_N
        sampled = sampling.logprobs.get(run.turn_id)
        if reference is None and run.adapter_version == 0:
            reference = sampled
        return ScoredTurn(run.turn_id, batch.old[run.turn_id], sampled, reference, advantage)

    def _update(self, taken: Mapping[str, Taken], batch: ScoredBatch, begun: float) -> _Update:
        numbers = {name: each.run.optimizer.step + 1 for name, each in taken.items()}
        done = take_update(
            self._policy,
            {name: each.run.optimizer for name, each in taken.items()},
            batch,
            {name: each.run.config.objective for name, each in taken.items()},
            ranks=self._ranks,
            checkpointing=self._config.checkpointing,
            mode=self._config.backward_mode,
        )
        for name, step in done.adapters.items():
            if step.update.applied:
                taken[name].run.steps += 1
            else:
                self._write(_not_applied(name, numbers[name], step))
        return _Update(done, numbers, _now(), time.perf_counter() - begun)

    def _record_steps(
        self,
        taken: Mapping[str, Taken],
        batch: ScoredBatch,
        updates: Sequence[_Update],
        last: Mapping[str, Tensor] | None,
    ) -> tuple[Step, ...]:
        """An update's kl_update is of the weights that the next one began with, or of a pass after the last."""
        made: list[Step] = []
        for index, each in enumerate(updates):
            setting = StepSetting(each.at, each.duration_s, each.done.model_flops, self._peak_flops)
            for name, step in each.done.adapters.items():
                after = None if last is None else last[name]
                if index + 1 < len(updates):
                    after = updates[index + 1].done.adapters[name].numbers.logprobs_N
                number = each.steps[name]
                of_batch = BatchSetting(
                    batch.counts[name], taken[name].batch.reward_mean, self._staleness(taken[name], number - 1)
                )
                record = step_record(name, number, step, setting, of_batch, logprobs_after_N=after)
                self._write(record)
                taken[name].run.last = record
                made.append(record)
        for name, each in taken.items():
            if any(update.done.adapters[name].update.applied for update in updates):
                each.run.took(each.batch)
        return tuple(made)

    def _staleness(self, taken: Taken, stands_at: int) -> float:
        """Mean over the trained tokens, of the step that the weights stood at; never clipped."""
        total = tokens = 0
        for run in _runs(taken):
            sampled_at = self._published.optimizer_step(taken.run.name, run.adapter_version)
            stale = taken.batch.staleness[run.turn_id] if sampled_at is None else stands_at - sampled_at
            total += stale * (run.end - run.start)
            tokens += run.end - run.start
        return total / tokens


def _flops(updates: Sequence[_Update], scoring: float) -> BatchFlops:
    done = [each.done for each in updates]
    model, again = [each.model_flops for each in done], [each.recomputation_flops for each in done]
    if None in model:
        return BatchFlops(None, None, None)
    return BatchFlops(sum(filter(None, model)), scoring, sum(filter(None, again)))


def _runs(taken: Taken) -> list[SampledRun]:
    return [run for row in taken.rows for run in row.runs]


def _not_applied(name: str, number: int, step: AdapterStep) -> Event:
    text = f"step {number} of {name} was not made: its gradient norm is {step.update.grad_norm}"
    return Event(
        at=_now(), kind="update_not_applied", severity="fail", adapter=name, actor="trainer", text=text, detail=None
    )


def _now() -> datetime:
    return datetime.now(UTC)
