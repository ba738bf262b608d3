"""The verifiers of a suite, each tried before it is used: a dead grader is found here, and named by its task."""

from collections.abc import Callable, Sequence

import msgspec

from collector.conversation import Reply, ToolCall
from collector.errors import UserError
from trainer.evaluation.functions import Fault
from trainer.evaluation.sandbox import Sandbox
from trainer.evaluation.suite import Suite, Task, reply_of
from trainer.evaluation.verifiers import Answered, Verdict, Verifiers
from trainer.evaluation_config import EvaluationConfig


class Graders:
    """Judges replies to one suite, with verifiers that have shown that they can tell good from bad."""

    def __init__(self, suite: Suite, config: EvaluationConfig, *, sandbox: Callable[[], Sandbox] | None = None) -> None:
        """UserError where a task runs a command and there is no sandbox."""
        self.suite = suite
        self._verifiers = Verifiers(suite, config, sandbox=sandbox)
        self._checked: set[str] = set()

    def check(self, tasks: Sequence[Task]) -> None:
        """Tries the verifiers of some tasks on replies whose verdict is known; UserError names the first that fails.

        The good must pass, the bad must not, and none may be left without a verdict. Each task is tried once.
        """
        new = [task for task in tasks if task.task_id not in self._checked]
        trials = [(task, good, reply) for task in new for good, reply in _known(task)]
        verdicts = self._verifiers.judge([Answered(task, reply) for task, _, reply in trials])
        for (task, good, reply), verdict in zip(trials, verdicts, strict=True):
            if fault := _fault(task, good, reply, verdict):
                raise UserError(
                    f"suite {self.suite.name}, task {task.task_id!r}: its verifier ({task.verifier.kind}) {fault}; "
                    "correct the verifier or the known reply before anything is judged by it"
                )
        self._checked.update(task.task_id for task in new)

    def judge(self, answered: Sequence[Answered]) -> list[Verdict]:
        """The verdict on each reply, in their order."""
        self.check([each.task for each in {each.task.task_id: each for each in answered}.values()])
        return self._verifiers.judge(answered)


def _known(task: Task) -> list[tuple[bool, Reply]]:
    """What the task gives, and what follows from the verifier itself."""
    good = [reply_of(known) for known in task.known_good]
    bad = [reply_of(known) for known in task.known_bad] or [Reply()]
    verifier = task.verifier
    if verifier.exact is not None:
        good.append(Reply(content=verifier.exact))
    if verifier.tool_call is not None:
        arguments = msgspec.json.encode(verifier.tool_call.arguments or {}).decode()
        good.append(Reply(tool_calls=(ToolCall(id="call_known", name=verifier.tool_call.name, arguments=arguments),)))
    return [*((True, reply) for reply in good), *((False, reply) for reply in bad)]


def _fault(task: Task, good: bool, reply: Reply, verdict: Verdict) -> str | None:
    if isinstance(verdict, Fault):
        return f"gives no verdict on a known reply: {verdict.text}"
    passed = verdict >= task.pass_score
    if passed == good:
        return None
    shown = repr(reply.content or [call.name for call in reply.tool_calls] or "")[:80]
    if not good and not task.known_bad:
        return "passes an empty reply; if that is right, name another one that must not pass in known_bad"
    return f"{'passes' if passed else 'fails'} {shown}, a reply known to be {'good' if good else 'bad'}"
