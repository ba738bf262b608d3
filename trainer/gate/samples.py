"""The samples of a trial by task, and what of the plan was not observed."""

from collections.abc import Mapping, Sequence

from collector.records import Eval
from trainer.evaluation.slice import Plan
from trainer.gate.report import Trial

Plans = Mapping[str, Plan]
"""Suite to what of it was to be tried."""


def task_name(suite: str, task_id: str) -> str:
    """A task among those of all suites."""
    return f"{suite}/{task_id}"


def fresh_tasks(plans: Plans) -> list[str]:
    """The tasks of all slices."""
    return [task_name(suite, task_id) for suite, plan in plans.items() for task_id in plan.fresh]


def fix_tasks(plans: Plans) -> list[str]:
    """The earlier fixes of all suites."""
    return [task_name(suite, task_id) for suite, plan in plans.items() for task_id in plan.fixes]


def by_task(trial: Trial, tasks: Sequence[str]) -> dict[str, list[Eval]]:
    """The samples of each of the tasks that were observed."""
    found: dict[str, list[Eval]] = {task: [] for task in tasks}
    for record in trial.evals:
        samples = found.get(task_name(record.suite, record.task_id))
        if samples is not None and record.score is not None and record.passed is not None:
            samples.append(record)
    return {task: samples for task, samples in found.items() if samples}


def scores(trial: Trial, tasks: Sequence[str]) -> dict[str, list[float]]:
    """The scores of each task."""
    return {task: [s.score for s in of if s.score is not None] for task, of in by_task(trial, tasks).items()}


def passes(trial: Trial, tasks: Sequence[str]) -> dict[str, list[bool]]:
    """Whether each sample of each task passed."""
    return {task: [s.passed for s in of if s.passed is not None] for task, of in by_task(trial, tasks).items()}


def unobserved(trial: Trial, plans: Plans) -> int:
    """Tasks of the plan of which a sample, or every sample, is missing."""
    planned = {task_name(suite, task_id) for suite, plan in plans.items() for task_id in plan.tasks}
    tried: dict[str, bool] = {}
    for record in trial.evals:
        task = task_name(record.suite, record.task_id)
        whole = record.score is not None and record.passed is not None
        tried[task] = tried.get(task, True) and whole
    return sum(not tried.get(task, False) for task in planned)
