"""Evaluation: sampled under the version's name, judged, recorded; a failure of the engine is none of the task."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from collector.conversation import Reply, TextDelta
from collector.engine.wire import Finish, GenerateRequest
from collector.errors import EngineUnavailable, UserError
from collector.fakes import Pause, Script, ScriptedEngine, deltas
from collector.rendering.renderer import Renderer
from tests.trainer.engine.loopback import serving
from trainer.engine_config import EngineConfig
from trainer.evaluation.engine_sampler import EngineSampler
from trainer.evaluation.evaluate import evaluate
from trainer.evaluation.graders import Graders
from trainer.evaluation.sampler import Missing, Wanted
from trainer.evaluation.slice import Plan, sampling_seed
from trainer.evaluation.suite import Suite, Task, Verifier
from trainer.evaluation_config import EvaluationConfig
from trainer.tiny_model import write_byte_tokenizer, write_tiny_model

CONFIG = EvaluationConfig(samples=2, fix_samples=3, attempts=2)
TASKS = tuple(
    Task(task_id=name, messages=[{"role": "user", "content": name}], verifier=Verifier(exact=name)) for name in "abc"
)
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


class ScriptedSampler:
    """Replies as told, and remembers what it was asked."""

    def __init__(self, *rounds: Any) -> None:
        self.rounds = list(rounds)
        self.asked: list[tuple[list[tuple[str, int]], str | None]] = []
        self.seeds: list[int] = []

    def sample(self, wanted: Sequence[Wanted], model: str | None) -> list[Reply | Missing]:
        self.asked.append(([(each.task.task_id, each.sample) for each in wanted], model))
        self.seeds += [each.seed for each in wanted]
        return [self.rounds[len(self.asked) - 1](each) for each in wanted]


def right(each: Wanted) -> Reply:
    return Reply(content=each.task.task_id)


def graders(tasks: tuple[Task, ...] = TASKS, folder: Path = Path()) -> Graders:
    return Graders(Suite("letters", folder, tasks), CONFIG)


def test_every_reply_is_a_record_and_fixes_get_more_of_them() -> None:
    sampler = ScriptedSampler(lambda each: Reply(content="a"))
    found = evaluate(sampler, graders(), Plan(("b", "a"), ("a", "c")), adapter="bot", version=3, config=CONFIG)
    assert [(each.task_id, each.sample, each.score, each.passed) for each in found] == [
        *(("b", n, 0.0, False) for n in range(2)),
        *(("a", n, 1.0, True) for n in range(3)),
        *(("c", n, 0.0, False) for n in range(3)),
    ]
    assert {(each.adapter, each.version, each.suite) for each in found} == {("bot", 3, "letters")}
    assert sampler.asked == [([(each.task_id, each.sample) for each in found], "bot@3")]
    assert sampler.seeds == [sampling_seed(0, "letters", each.task_id, each.sample) for each in found]


def test_version_0_is_sampled_as_the_base_model_and_recorded_as_the_adapters() -> None:
    sampler = ScriptedSampler(right)
    found = evaluate(sampler, graders(), Plan(("a",), ()), adapter="bot", version=0, config=CONFIG)
    assert sampler.asked[0][1] is None
    assert [(each.adapter, each.version, each.passed) for each in found] == [("bot", 0, True)] * 2


def test_what_the_engine_fails_to_give_is_asked_again_and_then_not_observed() -> None:
    said: list[str] = []

    def failing(each: Wanted) -> Reply | Missing:
        return right(each) if each.task.task_id == "a" else Missing("the engine is gone")

    def failing_less(each: Wanted) -> Reply | Missing:
        return right(each) if each.sample == 0 else Missing("the engine is gone")

    sampler = ScriptedSampler(failing, failing_less)
    plan = Plan(("a", "b"), ())
    found = evaluate(sampler, graders(), plan, adapter="bot", version=1, config=CONFIG, say=said.append)
    assert sampler.asked[1][0] == [("b", 0), ("b", 1)]
    assert [(each.score, each.passed) for each in found] == [(1.0, True)] * 3 + [(None, None)]
    assert said == ["1 of 4 replies of bot@1 are not observed: the engine is gone"]


def test_a_verifier_that_fails_on_a_reply_leaves_it_unobserved(tmp_path: Path) -> None:
    (tmp_path / "judges.py").write_text("def f(task, reply):\n    return [0, 1][len(reply['content'])]\n")
    fragile = Task(task_id="a", prompt_ids=[1], verifier=Verifier(python="judges:f"))
    sampler = ScriptedSampler(lambda each: Reply(content="x" * (1 + each.sample)))
    said: list[str] = []
    plan = Plan(("a",), ())
    found = evaluate(
        sampler, graders((fragile,), tmp_path), plan, adapter="bot", version=1, config=CONFIG, say=said.append
    )
    assert [(each.score, each.passed) for each in found] == [(1.0, True), (None, None)]
    assert said == ["1 of 2 replies of bot@1 are not observed: judges:f: IndexError: list index out of range"]


def test_a_score_passes_from_the_tasks_own_mark_on(tmp_path: Path) -> None:
    (tmp_path / "judges.py").write_text("def f(task, reply):\n    return float(reply['content'] or 0)\n")
    graded = Task(task_id="a", prompt_ids=[1], verifier=Verifier(python="judges:f"), pass_score=0.5)
    sampler = ScriptedSampler(lambda each: Reply(content=["0.5", "0.4"][each.sample]))
    found = evaluate(sampler, graders((graded,), tmp_path), Plan(("a",), ()), adapter="bot", version=1, config=CONFIG)
    assert [(each.score, each.passed) for each in found] == [(0.5, True), (0.4, False)]


def test_a_dead_grader_stops_it_before_anything_is_sampled() -> None:
    sampler = ScriptedSampler(right)
    dead = Task(task_id="a", prompt_ids=[1], verifier=Verifier(regex=""))
    with pytest.raises(UserError, match="suite letters, task 'a': its verifier"):
        evaluate(sampler, graders((dead,)), Plan(("a",), ()), adapter="bot", version=1, config=CONFIG)
    assert sampler.asked == []


@pytest.fixture(scope="module")
def renderer(tmp_path_factory: pytest.TempPathFactory) -> Renderer:
    folder = tmp_path_factory.mktemp("tokenizer")
    write_byte_tokenizer(folder)
    return Renderer.from_folder(folder)


def scripted(renderer: Renderer, *scripts: Script, **settings: Any) -> tuple[EngineSampler, ScriptedEngine]:
    engine = ScriptedEngine(*scripts)

    @asynccontextmanager
    async def connect() -> AsyncGenerator[ScriptedEngine]:
        yield engine

    config = EvaluationConfig(**settings)
    return EngineSampler("http://unused", renderer, config, connect=connect), engine


def says(renderer: Renderer, text: str, finish: Finish | None = None) -> Script:
    return lambda request: deltas(renderer.tokenizer.encode(text), finish=finish, size=3)


def wanted(*tasks: Task) -> list[Wanted]:
    return [Wanted(task, 0, 7) for task in tasks]


def test_the_prompt_is_rendered_and_the_reply_read_as_the_collector_does(renderer: Renderer) -> None:
    calling = Task(
        task_id="t",
        messages=[{"role": "user", "content": "call"}],
        tools=[TOOL],
        verifier=Verifier(exact="x"),
        max_tokens=9,
    )
    text = '<think>\nhm\n</think>\n\nyes <tool_call>\n{"name": "f", "arguments": {"x": 1}}\n</tool_call><|im_end|>'
    sampler, engine = scripted(renderer, says(renderer, text), temperature=0.5)
    (reply,) = sampler.sample(wanted(calling), "bot@2")
    assert isinstance(reply, Reply)
    assert (reply.content, reply.reasoning) == ("yes", "hm")
    assert [(call.name, call.arguments) for call in reply.tool_calls] == [("f", '{"x": 1}')]
    (request,) = engine.requests
    assert request.input_ids == renderer.tokenizer.encode(renderer.text(calling.messages or [], tools=[TOOL]))
    assert request.lora_path == "bot@2"
    sampling = request.sampling_params
    assert (sampling.temperature, sampling.max_new_tokens, sampling.sampling_seed) == (0.5, 9, 7)


def only_text(text: str) -> Reply:
    return Reply(content=text, order=(TextDelta(text),))


def test_without_tools_a_call_is_text_and_ids_go_as_they_are(renderer: Renderer) -> None:
    by_ids = Task(task_id="t", prompt_ids=[5, 6], verifier=Verifier(exact="x"))
    sampler, engine = scripted(renderer, says(renderer, "<tool_call>1</tool_call><|im_end|>"), max_tokens=33)
    (reply,) = sampler.sample(wanted(by_ids), None)
    assert reply == only_text("<tool_call>1</tool_call>")
    assert (engine.requests[0].input_ids, engine.requests[0].lora_path) == ([5, 6], None)
    assert engine.requests[0].sampling_params.max_new_tokens == 33


def test_a_reply_cut_by_its_length_is_a_reply(renderer: Renderer) -> None:
    sampler, _ = scripted(renderer, says(renderer, "half a", Finish(type="length", length=6)))
    assert sampler.sample(wanted(TASKS[0]), None) == [only_text("half a")]


def test_failures_of_the_engine_are_missing_replies_each_in_its_place(renderer: Renderer) -> None:
    def script(request: GenerateRequest) -> Sequence[Any]:
        said = renderer.tokenizer.decode(request.input_ids)
        if "user\na" in said:
            return [EngineUnavailable("the engine is gone")]
        if "user\nb" in said:
            return deltas(renderer.tokenizer.encode("b"), finish=Finish(type="abort", message="told to"))
        return [Pause(100)] if "user\nc" in said else deltas(renderer.tokenizer.encode("d<|im_end|>"))

    four = (*TASKS, Task(task_id="d", messages=[{"role": "user", "content": "d"}], verifier=Verifier(exact="d")))
    sampler, engine = scripted(renderer, script, time_limit_s=0.5)
    found = sampler.sample(wanted(*four), None)
    assert found == [
        Missing("the engine is gone"),
        Missing("the engine aborted the reply: told to"),
        Missing("the engine gave no whole reply in 0.5 s"),
        only_text("d"),
    ]
    assert engine.requests[2].rid in engine.aborted


def test_no_more_than_the_configured_number_is_sampled_at_a_time(renderer: Renderer) -> None:
    running = most = 0

    class Counting(ScriptedEngine):
        async def generate(self, request: GenerateRequest) -> AsyncGenerator[Any, None]:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.01)
            async for delta in super().generate(request):
                yield delta
            running -= 1

    @asynccontextmanager
    async def connect() -> AsyncGenerator[ScriptedEngine]:
        yield Counting(says(renderer, "x<|im_end|>"))

    sampler = EngineSampler("http://unused", renderer, EvaluationConfig(concurrency=3), connect=connect)
    assert sampler.sample(wanted(*TASKS * 4), None) == [only_text("x")] * 12
    assert most == 3


def test_a_prompt_that_the_model_cannot_have_is_the_suites_fault(renderer: Renderer) -> None:
    sampler, _ = scripted(renderer, says(renderer, "x"))
    with pytest.raises(UserError, match="task 't': prompt_ids holds 99999, which the tokenizer does not have"):
        sampler.sample(wanted(Task(task_id="t", prompt_ids=[99999], verifier=Verifier(exact="x"))), None)


def test_on_the_embedded_engine_one_seed_gives_one_reply(tmp_path: Path) -> None:
    folder = write_tiny_model(tmp_path / "model")
    config = EvaluationConfig(max_tokens=12)
    with serving(EngineConfig(model=folder)) as served:
        sampler = EngineSampler(served.url, Renderer.from_folder(folder), config)
        asked = [Wanted(TASKS[0], n, n) for n in range(4)]
        first, again = sampler.sample(asked, None), sampler.sample(asked, None)
        unknown = sampler.sample(asked[:1], "bot@9")
    assert all(isinstance(reply, Reply) for reply in first)
    assert [reply.message() for reply in first if isinstance(reply, Reply)] == [
        reply.message() for reply in again if isinstance(reply, Reply)
    ]
    assert len({reply.content for reply in first if isinstance(reply, Reply)}) > 1
    assert isinstance(unknown[0], Missing)
    assert "bot@9" in unknown[0].text
