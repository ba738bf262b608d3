"""The comparison at the end of the demo: version 0 and the last live one on held-out orders that chose neither."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from scipy import stats  # pyright: ignore[reportMissingTypeStubs]

from collector.records import Eval
from collector.rendering.renderer import Renderer
from console.demo.lesson import MAX_TOKENS
from console.demo.settings import ADAPTER, AGENTS, TEMPERATURE
from trainer.evaluation.engine_sampler import EngineSampler
from trainer.evaluation.evaluate import evaluate
from trainer.evaluation.graders import Graders
from trainer.evaluation.slice import Plan
from trainer.evaluation.suite import read_suite
from trainer.evaluation_config import EvaluationConfig

CONFIDENCE = 0.95
"""Of the two-sided interval."""


class Estimate(NamedTuple):
    """A mean over tasks with its interval; the bounds are None where the tasks do not tell."""

    mean: float
    low: float | None
    high: float | None

    def text(self, sign: str = "") -> str:
        """Mean and bounds; with `sign` "+" as a difference."""
        bounds = "no interval" if self.low is None else f"{self.low:{sign}.2f} to {self.high:{sign}.2f}"
        return f"{self.mean:{sign}.2f} ({bounds})"


class Exam(NamedTuple):
    """How two versions did on the same orders."""

    version: int
    """The later one; the other is version 0."""
    before: Estimate
    after: Estimate
    gain: Estimate
    """Paired by task."""
    evals: tuple[Eval, ...]

    @property
    def risen(self) -> bool:
        """Whether the score rose beyond its interval."""
        return self.gain.low is not None and self.gain.low > 0


def examine(engine_url: str, model: Path, suite_file: Path, version: int, *, say: Callable[[str], None]) -> Exam:
    """Samples one reply of each version to each order, with the same seeds, from the engine itself."""
    config = EvaluationConfig(samples=1, temperature=TEMPERATURE, max_tokens=MAX_TOKENS, concurrency=AGENTS)
    suite = read_suite(suite_file)
    graders = Graders(suite, config)
    plan = Plan(tuple(task.task_id for task in suite.tasks), ())
    sampler = EngineSampler(engine_url, Renderer.from_folder(model), config)
    found = [
        evaluate(sampler, graders, plan, adapter=ADAPTER, version=each, config=config, say=say) for each in (0, version)
    ]
    pairs = [
        (before.score, after.score)
        for before, after in zip(*found, strict=True)
        if before.score is not None and after.score is not None
    ]
    return compared(version, pairs, tuple(record for evals in found for record in evals))


def compared(version: int, pairs: Sequence[tuple[float, float]], evals: tuple[Eval, ...]) -> Exam:
    """Of scores before and after, one pair a task."""
    before, after = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    gains = [pair[1] - pair[0] for pair in pairs]
    return Exam(version, estimate(before), estimate(after), estimate(gains), evals)


def estimate(values: Sequence[float]) -> Estimate:
    """Mean and Student's 95 % interval; none where there are fewer than two values or all are the same."""
    count = len(values)
    mean = math.fsum(values) / count if count else math.nan
    variance = math.fsum((value - mean) ** 2 for value in values) / (count - 1) if count > 1 else 0.0
    if variance == 0.0:
        return Estimate(mean, None, None)
    reach = float(stats.t.ppf((1 + CONFIDENCE) / 2, count - 1)) * math.sqrt(variance / count)
    return Estimate(mean, mean - reach, mean + reach)
