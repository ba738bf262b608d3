"""One adapter in a cycle: what it continues from, how far it has come, and the checkpoint it ends in."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from transformers import PreTrainedModel

from collector.errors import UserError
from collector.records import Step, Version
from trainer.adapter_config import AdapterConfig
from trainer.adapter_optimizer import AdapterOptimizer
from trainer.checkpoint import Checkpoint, ServedDtype, resume, save_checkpoint
from trainer.lora import TrainedAdapter, new_adapter
from trainer.rows import CapturedTurn, TrainingRow, training_rows
from trainer.training.given_work import Batch, Work
from trainer.training.published_weights import version_checkpoint


class Trained(NamedTuple):
    """What a cycle made of one adapter."""

    adapter: str
    checkpoint: Checkpoint
    steps: int
    """Optimizer steps taken."""
    trained_on: tuple[tuple[str, int, int], ...]
    """(writer, first seq, last seq) of the turns that an update was made with."""
    last: Step
    """The record of the last step."""
    weights: TrainedAdapter
    """As published: read back from the checkpoint, cast as it is served."""
    without_sampling_scores: Mapping[str, int]
    """Why pi_gen is not known, to how many turns."""


class AdapterRun:
    """One adapter's state while it is trained."""

    def __init__(
        self, network: PreTrainedModel, store: Path, work: Work, config: AdapterConfig, parent: Version
    ) -> None:
        """Resumes from the parent's checkpoint; begins a new adapter where the parent is the base model."""
        self.name = work.adapter
        self.work = work
        self.config = config
        self.parent = parent
        self.steps = 0
        self.trained_on: list[tuple[str, int, int]] = []
        self.last: Step | None = None
        self.gone: dict[str, int] = {}
        self._network = network
        self._folder = store / "adapters" / work.adapter
        if parent.adapter != work.adapter:
            raise UserError(
                f"adapter {work.adapter} would continue from a version of {parent.adapter}, expected its own"
            )
        made = new_adapter(
            network, work.adapter, rank=config.rank, alpha=config.alpha, targets=config.targets, seed=config.seed
        )
        self.optimizer = AdapterOptimizer(made, config.optimizer)
        if parent.version:
            resume(version_checkpoint(store, parent), self.optimizer)
        self._parent_step = self.optimizer.step

    @property
    def version(self) -> int | None:
        """What the weights are published as now; None once they have moved."""
        return self.parent.version if self.optimizer.step == self._parent_step else None

    def rows(self, batch: Batch) -> list[TrainingRow]:
        """The batch's rows; whatever would stop a pass that other adapters share is refused here."""
        rows = training_rows(self._own(turn) for turn in batch.turns).rows
        vocabulary = self._network.config.vocab_size
        for row in rows:
            if row.adapter != self.name:
                raise UserError(f"session {row.session_id}: a turn with loss is of {row.adapter}, expected {self.name}")
            if int(row.ids.min()) < 0 or int(row.ids.max()) >= vocabulary:
                raise UserError(
                    f"session {row.session_id}: token ids {row.ids.min()} to {row.ids.max()}, expected 0 to "
                    f"{vocabulary - 1}: was it sampled from another base model?"
                )
            for run in row.runs:
                if run.turn_id not in batch.advantages:
                    raise UserError(f"turn {run.turn_id} has no advantage, expected one for every turn with loss")
                if run.start == 0:
                    raise UserError(f"turn {run.turn_id} was sampled after an empty prompt, expected a token at least")
        return list(rows)

    def took(self, batch: Batch) -> None:
        """An update was made with the batch."""
        self.trained_on += batch.trained_on

    def save(self, *, base_model: str, dtype: ServedDtype) -> Checkpoint:
        """Writes a new checkpoint; nothing is saved of an adapter that did not move."""
        if not self.steps:
            raise UserError(f"adapter {self.name}: no update was made, expected one at least; nothing was saved")
        baseline = self.work.baseline
        return save_checkpoint(self._folder, self.optimizer, base_model=base_model, dtype=dtype, baseline=baseline)

    def _own(self, turn: CapturedTurn) -> CapturedTurn:
        """The bare base model's turns are those of version 0."""
        return turn if turn.adapter is not None else turn._replace(adapter=self.name, adapter_version=0)
