"""One cycle's evaluation of a candidate: the suites read, the plan made, three versions tried on the same tasks."""

from collections.abc import Callable, Collection
from pathlib import Path
from typing import NamedTuple

import polars as pl

from collector.errors import UserError
from collector.records import Eval
from trainer.evaluation.evaluate import evaluate
from trainer.evaluation.graders import Graders
from trainer.evaluation.sampler import Sampler
from trainer.evaluation.slice import Plan, plan
from trainer.evaluation.suite import Suite, read_suite
from trainer.evaluation_config import EvaluationConfig
from trainer.gate.fixes import earlier_fixes
from trainer.gate.report import Trial


class Trials(NamedTuple):
    """What `decide` is given of the evaluation."""

    candidate: Trial
    live: Trial
    best: Trial
    plans: dict[str, Plan]
    """Suite to what of it was tried."""
    deterministic: bool
    """Whether replies were sampled at temperature 0."""

    @property
    def evals(self) -> tuple[Eval, ...]:
        """The records to be stored, of each version once."""
        return tuple(
            record
            for trial in {trial.version: trial for trial in (self.candidate, self.live, self.best)}.values()
            for record in trial.evals
        )


class Exam:
    """The suites of one adapter, ready to try its versions: their verifiers live, and a sandbox is there if needed."""

    def __init__(self, adapter: str, config: EvaluationConfig) -> None:
        """UserError where a suite cannot be read, or needs a sandbox that is not there."""
        self._adapter = adapter
        self._config = config
        self._graders = {
            suite.name: Graders(suite, config) for suite in _suites(adapter, config.suites.get(adapter, ()))
        }

    def plans(self, past: pl.DataFrame, *, once_live: Collection[int], cycle: int) -> dict[str, Plan]:
        """The tasks of a cycle. `past` is the table of evals; `once_live` are the versions that are or were live."""
        config = self._config
        return {
            name: plan(
                [task.task_id for task in graders.suite.tasks],
                earlier_fixes(past, adapter=self._adapter, suite=name, once_live=once_live),
                tasks=config.tasks,
                most_fixes=config.most_fixes,
                cycle=cycle,
                seed=config.seed,
            )
            for name, graders in self._graders.items()
        }

    def run(
        self,
        sampler: Sampler,
        plans: dict[str, Plan],
        *,
        candidate: int,
        live: int,
        best: int,
        say: Callable[[str], None] = lambda _: None,
    ) -> Trials:
        """Tries each version once on the planned tasks. UserError where a verifier is dead."""
        trials = {
            version: self._trial(sampler, plans, version, say) for version in dict.fromkeys((candidate, live, best))
        }
        return Trials(trials[candidate], trials[live], trials[best], plans, self._config.temperature == 0)

    def _trial(self, sampler: Sampler, plans: dict[str, Plan], version: int, say: Callable[[str], None]) -> Trial:
        records: list[Eval] = []
        for name, graders in self._graders.items():
            records += evaluate(
                sampler,
                graders,
                plans[name],
                adapter=self._adapter,
                version=version,
                config=self._config,
                say=say,
            )
        return Trial(version, tuple(records))


def _suites(adapter: str, paths: Collection[str]) -> list[Suite]:
    suites: dict[str, Suite] = {}
    for path in paths:
        suite = read_suite(Path(path))
        if suite.name in suites:
            raise UserError(
                f"{adapter} has two suites named {suite.name}, the second is {path}; rename one: records and earlier "
                "fixes are known by that name"
            )
        suites[suite.name] = suite
    return list(suites.values())
