"""The base model in this process: what a cycle trains, predicts and compares with it. Needs torch."""

from collections.abc import Callable, Mapping
from pathlib import Path

from collector.records import Record, Version
from trainer.batch.work import AdapterWork
from trainer.checkpoint import read_checkpoint
from trainer.config import TrainerConfig
from trainer.cycle.base_policy import load_policy
from trainer.cycle.ports import Contexts, Made
from trainer.exact_kl import context_row, exact_kl
from trainer.gate.report import KlToLive
from trainer.lora import TrainedAdapter
from trainer.publish.policy_probe import make_probe
from trainer.publish.probe import Probe
from trainer.training.adapter_run import Trained
from trainer.training.published_weights import published_adapter
from trainer.training.training import Progress, Training

_SHOWN = ("loss", "grad_norm", "entropy", "reward_mean", "max_w", "ess", "kl_mu_old", "kl_update", "mfu", "lr")


class ModelSide:
    """The frozen base, loaded once."""

    def __init__(self, store: Path, config: TrainerConfig, model: Path) -> None:
        self._store = store
        self._config = config
        self._policy = load_policy(model, config)

    def train(
        self,
        work: Mapping[str, AdapterWork],
        parents: Mapping[str, Version],
        write: Callable[[Record], None],
        check: Callable[[], None],
    ) -> dict[str, Made | str]:
        """One multi-LoRA step after another over the batches of all; `check` is called between batches."""

        def on_progress(_: Progress) -> None:
            check()

        training = Training(self._policy, self._config, self._store, write, progress=on_progress)
        trained = training.train(work, parents)
        return {
            name: _made(trained[name]) if name in trained else training.left_out.get(name, "it made no step")
            for name in work
        }

    def probe(self, version: Version, previous: Version, contexts: Contexts) -> Probe:
        """What to ask an engine that should serve `version`."""
        config = self._config.publish
        return make_probe(
            self._policy,
            contexts,
            self._weights(version),
            self._weights(previous) if previous.version else None,
            tokens=config.probe_tokens,
            passages=config.passages,
            window_tokens=config.window_tokens,
        )

    def kl(self, candidate: Version, live: Version, contexts: Contexts) -> KlToLive | None:
        """KL(candidate, live) at every position of the contexts; None where there is none."""
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

    def _weights(self, version: Version) -> TrainedAdapter:
        """What an engine loads of it."""
        return published_adapter(self._policy.network, self._store, version)


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
