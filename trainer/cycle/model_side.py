"""The base model in this process: what a cycle trains, predicts and compares with it. Needs torch."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from collector.errors import UserError
from collector.records import Record, Version
from trainer.base_model import load_policy
from trainer.batch.work import AdapterWork
from trainer.checkpoint import read_checkpoint
from trainer.config import TrainerConfig
from trainer.cycle.orders import Compare, Load, Orders, Predict, Train
from trainer.cycle.ports import Contexts, Made
from trainer.exact_kl import context_row, exact_kl
from trainer.gate.report import KlToLive
from trainer.lora import TrainedAdapter
from trainer.publish.policy_probe import PolicyPredictor, make_probe
from trainer.publish.probe import Given, Predictions, Probe
from trainer.training.adapter_run import Trained
from trainer.training.published_weights import published_adapter
from trainer.training.training import Progress, Training

_SHOWN = ("loss", "grad_norm", "entropy", "reward_mean", "max_w", "ess", "kl_mu_old", "kl_update", "mfu", "lr")


class ModelSide:
    """The frozen base, loaded once; cut over ranks where there are several, which `follow` what this one does."""

    def __init__(self, store: Path, config: TrainerConfig, model: Path, orders: Orders) -> None:
        orders.give(Load(model))
        self._store = store
        self._config = config
        self._orders = orders
        self._policy, self._ranks = load_policy(model, config)

    def train(
        self,
        work: Mapping[str, AdapterWork],
        parents: Mapping[str, Version],
        engine: Mapping[str, str],
        write: Callable[[Record], None],
        check: Callable[[], None],
    ) -> dict[str, Made | str]:
        """One multi-LoRA step after another over the batches of all; `check` is called between batches.

        `engine` is the name and version of what sampled, for the run record.
        """
        self._orders.give(Train(work, parents))
        journal = _Journal(write)

        def go_on() -> None:
            journal.check()
            check()

        def on_progress(_: Progress) -> None:
            self._orders.agree(go_on)

        training = Training(
            self._policy,
            self._config,
            self._store,
            journal.write,
            ranks=self._ranks,
            engine=engine,
            progress=on_progress,
        )
        trained = training.train(work, parents)
        journal.check()
        return {
            name: _made(trained[name]) if name in trained else training.left_out.get(name, "it made no step")
            for name in work
        }

    def probe(self, version: Version, previous: Version, contexts: Contexts) -> Probe:
        """What to ask an engine that should serve `version`."""
        config = self._config.publish
        return make_probe(
            _LedPredictor(self._orders, self._predictor(version, previous), version, previous),
            contexts,
            tokens=config.probe_tokens,
            passages=config.passages,
            window_tokens=config.window_tokens,
        )

    def kl(self, candidate: Version, live: Version, contexts: Contexts) -> KlToLive | None:
        """KL(candidate, live) at every position of the contexts; None where there is none."""
        self._orders.give(Compare(candidate, live, contexts))
        rows = [context_row(ids) for ids in contexts if len(ids) > 1]
        if not rows:
            return None
        return exact_kl(
            self._policy,
            rows,
            new=self._weights(candidate),
            live=self._weights(live) if live.version else None,
            budget_tokens=self._config.budget_tokens,
        )

    def follow(self, order: Train | Predict | Compare) -> None:
        """On a rank that owns nothing: the same passes as on rank 0."""
        if isinstance(order, Train):
            self.train(order.work, order.parents, {}, _nothing, _nothing)
        elif isinstance(order, Predict):
            self._predictor(order.version, order.previous).predict(order.given)
        else:
            self.kl(order.candidate, order.live, order.contexts)

    def _predictor(self, version: Version, previous: Version) -> PolicyPredictor:
        before = self._weights(previous) if previous.version else None
        return PolicyPredictor(self._policy, self._weights(version), before)

    def _weights(self, version: Version) -> TrainedAdapter:
        """What an engine loads of it."""
        return published_adapter(self._policy.network, self._store, version)


class _LedPredictor:
    """Predicts on rank 0, and has the others make the same passes."""

    def __init__(self, orders: Orders, own: PolicyPredictor, version: Version, previous: Version) -> None:
        self._orders = orders
        self._own = own
        self._of = (version, previous)

    def predict(self, given: Sequence[Given]) -> list[Predictions]:
        """Of each sequence."""
        self._orders.give(Predict(*self._of, tuple(given)))
        return self._own.predict(given)


class _Journal:
    """Writes records. One that fails is raised at the next point at which all ranks can leave off together."""

    def __init__(self, write: Callable[[Record], None]) -> None:
        self._write = write
        self._failed: UserError | OSError | None = None

    def write(self, record: Record) -> None:
        """Nothing more is written after a failure."""
        if self._failed is None:
            try:
                self._write(record)
            except (OSError, UserError) as error:
                self._failed = error

    def check(self) -> None:
        """Raises what failed."""
        if self._failed is not None:
            raise self._failed


def _nothing(*_: object) -> None:
    """What a rank that owns nothing writes and checks."""


def baseline_of(folder: Path) -> float | None:
    """The running reward baseline that a checkpoint was saved with."""
    return read_checkpoint(folder).manifest.baseline


def _made(trained: Trained) -> Made:
    manifest = trained.checkpoint.manifest
    return Made(
        folder=trained.checkpoint.folder,
        sha256=trained.checkpoint.sha256,
        optimizer_step=manifest.optimizer_step,
        steps=trained.steps,
        trained_on=trained.trained_on,
        numbers={name: getattr(trained.last, name) for name in _SHOWN} | {"optimizer_step": manifest.optimizer_step},
    )
