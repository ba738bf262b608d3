"""The metric lines of prime-rl: trainer and orchestrator each write some of a step's numbers."""

from collections.abc import Collection, Iterator
from typing import Any

from checks.readers.fields import JsonObject, number, when, whole
from checks.readers.unreadable import UnreadableParts
from checks.rows import StepRow

_FIELDS = {
    "mismatch_kl/mean": "kl_k3",
    "mismatch_kl/all/mean": "kl_k3",
    "entropy/mean": "entropy",
    "entropy/all/mean": "entropy",
    "optim/grad_norm": "grad_norm",
    "optim/lr": "lr",
    "loss/mean": "loss",
    "reward/mean": "reward_mean",
    "reward/all/mean": "reward_mean",
    "off_policy/mean": "staleness_mean",
    "off_policy/max": "staleness_max",
    "is_truncated/mean": "truncated_share",
    "is_truncated/all/mean": "truncated_share",
    "time/wait_for_batch": "wait_s",
    "time/wait_for_policy": "engine_wait_s",
}
_OWN = ("mismatch_kl/", "off_policy/", "time/wait_for_", "dispatcher/", "optim/grad_norm", "perf/mfu")


def is_metrics(keys: Collection[str]) -> bool:
    """Whether the keys of a line are those of prime-rl's file monitor."""
    return "step" in keys and "time" in keys and any(key.startswith(_OWN) for key in keys)


class MetricSteps:
    """One row per step, from all lines that say something of it."""

    def __init__(self) -> None:
        self._steps: dict[int, dict[str, Any]] = {}

    def add(self, line: JsonObject, place: str, unreadable: UnreadableParts) -> None:
        """Takes what a line says of its step."""
        try:
            step = whole(line.get("step"), "step")
            if step is None:
                raise ValueError("no step, expected {step, time, metric: number}")
            self._steps.setdefault(step, {}).update(_known(line))
        except ValueError as error:
            unreadable.add(place, str(error))

    def rows(self) -> Iterator[StepRow]:
        """The steps, in their order."""
        for step, known in sorted(self._steps.items()):
            yield StepRow(step=step, **known)


def _known(line: JsonObject) -> dict[str, Any]:
    known: dict[str, Any] = {ours: number(line[name], name) for name, ours in _FIELDS.items() if name in line}
    if "time/wait_for_batch" in line:
        # Both processes log time/step of their own loop; the trainer's is the one beside its wait.
        known["duration_s"] = number(line.get("time/step"), "time/step")
        known["at"] = when(line.get("time"))
    percent = number(line.get("perf/mfu"), "perf/mfu")
    if percent is not None:
        known["mfu"] = percent / 100
    evals = [name for name in line if name.startswith("eval/") and "/avg@" in name]
    if len(evals) == 1:
        known["reward_eval"] = number(line[evals[0]], evals[0])
    return known
