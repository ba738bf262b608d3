"""Tries one version on the tasks of a plan: every reply sampled, judged, and turned into a record."""

from collections import Counter
from collections.abc import Callable, Sequence

from collector.conversation import Reply
from collector.records import Eval
from collector.store.adapter_names import engine_name
from trainer.evaluation.functions import Fault
from trainer.evaluation.graders import Graders
from trainer.evaluation.sampler import Missing, Sampler, Wanted
from trainer.evaluation.slice import Plan, sampling_seed
from trainer.evaluation.verifiers import Answered
from trainer.evaluation_config import EvaluationConfig

_REASONS = 5


def evaluate(
    sampler: Sampler,
    graders: Graders,
    plan: Plan,
    *,
    adapter: str,
    version: int,
    config: EvaluationConfig,
    say: Callable[[str], None] = lambda _: None,
) -> list[Eval]:
    """A record of every reply, in the plan's order. Version 0 of an adapter is the base model.

    What the engine fails to give, or a verifier to judge, is not observed: its score and passed are None, never a
    failure of the task. `say` is told why, a line for each reason. UserError where a verifier is dead.
    """
    wanted = _wanted(graders, plan, config)
    graders.check(graders.suite.named(plan.tasks))
    replies = _sampled(sampler, wanted, engine_name(adapter, version) if version else None, config.attempts)
    given = [index for index, reply in enumerate(replies) if isinstance(reply, Reply)]
    answered = [Answered(wanted[index].task, reply) for index in given if isinstance(reply := replies[index], Reply)]
    verdicts = dict(zip(given, graders.judge(answered), strict=True))
    found = [verdicts.get(index, reply) for index, reply in enumerate(replies)]
    missing = Counter(each.text for each in found if isinstance(each, Missing | Fault))
    for text, count in missing.most_common(_REASONS):
        say(f"{count} of {len(wanted)} replies of {engine_name(adapter, version)} are not observed: {text}")
    return [
        Eval(
            adapter=adapter,
            version=version,
            suite=graders.suite.name,
            task_id=each.task.task_id,
            sample=each.sample,
            score=verdict if isinstance(verdict, float) else None,
            passed=verdict >= each.task.pass_score if isinstance(verdict, float) else None,
        )
        for each, verdict in zip(wanted, found, strict=True)
    ]


def _wanted(graders: Graders, plan: Plan, config: EvaluationConfig) -> list[Wanted]:
    suite, fixes = graders.suite, set(plan.fixes)
    fresh = set(plan.fresh)
    return [
        Wanted(task, sample, sampling_seed(config.seed, suite.name, task.task_id, sample))
        for task in suite.named(plan.tasks)
        for sample in range(
            max(
                config.samples if task.task_id in fresh else 0,
                config.fix_samples if task.task_id in fixes else 0,
            )
        )
    ]


def _sampled(sampler: Sampler, wanted: Sequence[Wanted], model: str | None, attempts: int) -> list[Reply | Missing]:
    """The replies; what the engine fails to give is asked for again."""
    replies = sampler.sample(wanted, model)
    for _ in range(attempts - 1):
        again = [index for index, reply in enumerate(replies) if isinstance(reply, Missing)]
        if not again:
            break
        for index, reply in zip(again, sampler.sample([wanted[index] for index in again], model), strict=True):
            replies[index] = reply
    return replies
