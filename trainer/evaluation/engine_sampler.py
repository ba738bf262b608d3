"""Samples held-out tasks from an engine worker, as the collector would have: nothing of it becomes traffic."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from typing import Protocol

from uuid_utils import uuid7

from collector.conversation import Reply
from collector.engine.client import EngineClient
from collector.engine.wire import Delta, GenerateRequest, SamplingParams
from collector.errors import EngineError, UserError
from collector.parsing.detokenizer import Detokenizer
from collector.parsing.reply import MARKERS, ReplyParser
from collector.rendering.prompt import Prompt, build_prompt
from collector.rendering.renderer import Renderer
from collector.rendering.template import RenderError
from trainer.evaluation.sampler import Missing, Wanted
from trainer.evaluation.suite import Task
from trainer.evaluation_config import EvaluationConfig


class Generating(Protocol):
    """The part of an engine client that sampling needs."""

    def generate(self, request: GenerateRequest) -> AsyncGenerator[Delta, None]:
        """What the engine samples."""
        ...


class EngineSampler:
    """Samples from one worker directly, under the name of a version. Call it from no event loop."""

    def __init__(
        self,
        url: str,
        renderer: Renderer,
        config: EvaluationConfig,
        *,
        admin_key: str | None = None,
        connect: Callable[[], AbstractAsyncContextManager[Generating]] | None = None,
    ) -> None:
        """`connect` opens the engine anew for each call; the worker at `url` by default."""
        self._renderer = renderer
        self._config = config
        self._connect = connect or (lambda: _client(url, admin_key, config.time_limit_s))
        self._tokenizer = renderer.tokenizer
        structure = {index for index, token in self._tokenizer.added.items() if token.content in MARKERS}
        self._hidden_ids = (self._tokenizer.special_ids | self._tokenizer.stop_ids) - structure

    def sample(self, wanted: Sequence[Wanted], model: str | None) -> list[Reply | Missing]:
        """A reply for each, in their order, some at a time."""
        prompts = {each.task.task_id: self._prompt(each.task) for each in wanted}
        return asyncio.run(self._sample(wanted, model, prompts))

    async def _sample(
        self, wanted: Sequence[Wanted], model: str | None, prompts: dict[str, Prompt]
    ) -> list[Reply | Missing]:
        places = asyncio.Semaphore(self._config.concurrency)

        async def one(engine: Generating, each: Wanted) -> Reply | Missing:
            async with places:
                return await self._reply(engine, each, model, prompts[each.task.task_id])

        async with self._connect() as engine:
            return await asyncio.gather(*(one(engine, each) for each in wanted))

    async def _reply(self, engine: Generating, each: Wanted, model: str | None, prompt: Prompt) -> Reply | Missing:
        request = GenerateRequest(
            input_ids=prompt.ids,
            rid=str(uuid7()),
            lora_path=model,
            sampling_params=SamplingParams(
                max_new_tokens=each.task.max_tokens or self._config.max_tokens,
                temperature=self._config.temperature,
                sampling_seed=each.seed,
            ),
        )
        ids: list[int] = []
        finish = None
        try:
            async with asyncio.timeout(self._config.time_limit_s), aclosing(engine.generate(request)) as deltas:
                async for delta in deltas:
                    ids += delta.token_ids
                    finish = delta.finish
        except EngineError as error:
            return Missing(str(error))
        except TimeoutError:
            return Missing(f"the engine gave no whole reply in {self._config.time_limit_s:g} s")
        if finish is None or finish.type == "abort":
            return Missing(f"the engine aborted the reply: {finish.message if finish else 'no finish reason'}")
        return self._read(ids, each.task, prompt, request.rid)

    def _prompt(self, task: Task) -> Prompt:
        chat = task.chat()
        if chat is None:
            ids = task.prompt_ids or []
            unknown = next((index for index in ids if self._tokenizer.backend.id_to_token(index) is None), None)
            if unknown is not None:
                raise UserError(f"task {task.task_id!r}: prompt_ids holds {unknown}, which the tokenizer does not have")
            return Prompt(list(ids), thinking_open=False)
        try:
            return build_prompt(self._renderer, chat, ancestor=None, ancestor_ids=(), history_reasoning="keep")
        except RenderError as error:
            raise UserError(f"task {task.task_id!r}: the chat template refused the messages: {error}") from error

    def _read(self, ids: list[int], task: Task, prompt: Prompt, seed: str) -> Reply:
        detokenizer = Detokenizer(self._tokenizer, hidden_ids=self._hidden_ids)
        parser = ReplyParser(seed=seed, thinking_open=prompt.thinking_open, parse_tools=bool(task.tools))
        parser.add(detokenizer.add(ids) + detokenizer.finish())
        parser.finish()
        return parser.reply()


@asynccontextmanager
async def _client(url: str, admin_key: str | None, time_limit_s: float) -> AsyncGenerator[EngineClient]:
    client = EngineClient(url, admin_key=admin_key, idle_timeout_s=time_limit_s)
    try:
        yield client
    finally:
        await client.close()
