"""The engines that serve a base model, as the trainer asks them: blocking calls, each with a time limit."""

import asyncio
from collections.abc import Collection, Coroutine, Mapping, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from collector.engine.adapter_slots import load_once
from collector.engine.client import EngineClient
from collector.engine.process_identity import process_of
from collector.engine.wire import Delta, GenerateRequest, SamplingParams
from collector.errors import EngineError, EngineUnavailable, UserError
from trainer.publish.judgement import LEAST_TOKENS, Floats, Hypothesis
from trainer.publish.probe import Probe
from trainer.publish.proof import Proof, ProofKind
from trainer.publish.proving import Observed, observe, probe_rid, scores, worker_proof
from trainer.publish.workers import Answer, all_of, ask_all, ask_until
from trainer.publish_config import PublishConfig

T = TypeVar("T")


class PublishError(UserError):
    """Too few workers did what was asked; the message names each with its reason."""


class Loaded(NamedTuple):
    """Where a version is loaded."""

    name: str
    workers: tuple[str, ...]
    already: tuple[str, ...]
    """Those of them that had it from the same folder before."""
    failed: Mapping[str, str]
    """Worker to why it does not have it, or may not."""


class Unloaded(NamedTuple):
    """What became of an unload."""

    name: str
    workers: tuple[str, ...]
    """Those that do not hold it any more."""
    left_behind: Mapping[str, str]
    """Worker to why it may hold it still. Nobody waits for it and nothing is tried again."""


class Controls(NamedTuple):
    """What the workers say under a name known to be served."""

    of: Hypothesis
    answers: Mapping[str, Answer[list[Floats]]]


class Reply(NamedTuple):
    """One sampled reply."""

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    finish: str


class Publisher:
    """Loads, proves and unloads versions on all workers in parallel, and samples from them."""

    def __init__(self, workers: Sequence[str], config: PublishConfig, admin_key: str | None = None) -> None:
        if not workers:
            raise UserError("no worker is given, expected the address of at least one engine")
        if (sampled := config.passages * config.decode_tokens) < LEAST_TOKENS:
            raise UserError(
                f"[trainer.publish] passages × decode_tokens is {sampled}, expected at least {LEAST_TOKENS}: fewer "
                "decide nothing"
            )
        self.workers = tuple(dict.fromkeys(workers))
        self._config = config
        self._admin_key = admin_key
        self._enough = len(self.workers) if config.enough is None else config.enough
        if self._enough > len(self.workers):
            raise UserError(
                f"[trainer.publish] enough is {self._enough}, expected at most the {len(self.workers)} workers given"
            )

    def loaded(self) -> dict[str, dict[str, str]]:
        """Worker to the names it has loaded, with their folders. PublishError when fewer than enough say."""
        answers = self._ask(self._config.load_limit_s, EngineClient.loaded_adapters)
        self._refuse(answers, "listing the loaded adapters", enough=self._enough)
        return {answer.worker: answer.value for answer in answers if answer.value is not None}

    def processes(self, workers: Sequence[str]) -> dict[str, str | None]:
        """Which start of its engine each worker is; None where it does not let that be told, or does not answer."""
        answers = _run(ask_all(workers, self._admin_key, self._config.load_limit_s, process_of))
        return {answer.worker: answer.value for answer in answers}

    def load(self, name: str, folder: Path, *, in_use: Collection[str] = ()) -> Loaded:
        """Loads a version on every worker; PublishError when fewer than enough have it.

        What is loaded from the same folder already counts. `in_use` are the engine names that must stay loaded: the
        refusal of a full worker names the others.
        """
        config = self._config
        answers = _run(
            ask_until(
                self.workers,
                self._admin_key,
                config.load_limit_s,
                lambda client: load_once(client, name, folder, slots=config.slots, in_use=in_use),
                enough=self._enough,
                straggler_s=config.straggler_s,
            )
        )
        self._refuse(answers, f"loading {name}", enough=self._enough)
        return Loaded(
            name,
            tuple(answer.worker for answer in answers if answer.fault is None),
            tuple(answer.worker for answer in answers if answer.value == "already"),
            _faults(answers),
        )

    def control(self, probe: Probe, known: str | None, workers: Sequence[str] | None = None) -> Controls:
        """What the workers say of the probe's passages under a name known to be served, so before the new one comes.

        `known` is the engine name of the previous version, None for the base model. It measures the noise, and leaves
        the prefixes in the cache under the old name: a cache that mixes names then holds the wrong ones.
        """
        if probe.has_previous != (known is not None):
            raise ValueError(f"known is {known!r}, but the probe {'has' if probe.has_previous else 'has no'} previous")
        asked = self.workers if workers is None else tuple(workers)
        limit_s = self._config.prove_limit_s
        answers = _run(ask_all(asked, self._admin_key, limit_s, lambda client: scores(client, probe, known)))
        return Controls("base" if known is None else "previous", {answer.worker: answer for answer in answers})

    def prove(
        self,
        probe: Probe,
        name: str,
        *,
        known: str | None,
        controls: Controls | None = None,
        workers: Sequence[str] | None = None,
        kind: ProofKind = "proof",
    ) -> Proof:
        """Whether each worker serves under `name` what was trained. `controls` may have been made before the load.

        Enough workers as configured must be proved to serve it, and none to serve another.
        """
        config, asked = self._config, self.workers if workers is None else tuple(workers)
        controls = self.control(probe, known, asked) if controls is None else controls
        # A worker that was silent once is not waited for a second time.
        silent = {worker: answer.fault for worker, answer in controls.answers.items() if answer.timed_out}
        able = [worker for worker in asked if worker not in silent]
        answers: list[Answer[Observed]] = _run(
            ask_all(able, self._admin_key, config.prove_limit_s, lambda client: observe(client, probe, name, config))
        )
        of_worker = {answer.worker: answer for answer in answers}
        of_worker |= {worker: Answer(worker, None, fault, timed_out=True) for worker, fault in silent.items()}
        proofs = [
            worker_proof(probe, controls.answers.get(worker), of_worker[worker], config, controls.of)
            for worker in asked
        ]
        return Proof(name, kind, datetime.now(UTC), tuple(proofs), self._enough)

    def unload(self, name: str) -> Unloaded:
        """Unloads a version everywhere it is loaded. It waits for replies under way, up to the limit.

        A worker that was left behind goes on by itself. SGLang loads and unloads nothing else until it is done.
        """

        async def unload(client: EngineClient) -> None:
            try:
                await client.unload_adapter(name)
            except EngineUnavailable:
                raise
            except EngineError:
                if name in await client.loaded_adapters():
                    raise
                return
            # SGLang loads a name again by itself when a late request comes for it.
            if name in await client.loaded_adapters():
                raise EngineError(f"{name} is loaded again after its unload: some request still names it")

        answers = self._ask(self._config.unload_limit_s, unload)
        gone = tuple(answer.worker for answer in answers if answer.fault is None)
        return Unloaded(name, gone, _faults(answers))

    def sample(
        self,
        name: str | None,
        prompts: Sequence[Sequence[int]],
        sampling: SamplingParams,
        *,
        workers: Sequence[str] | None = None,
        at_once: int = 8,
    ) -> list[Reply]:
        """One reply to each prompt, in order; the workers take turns, each with `at_once` at a time."""
        asked = self.workers if workers is None else tuple(workers)

        async def of_worker(client: EngineClient, part: list[list[int]]) -> list[Reply]:
            gate = asyncio.Semaphore(at_once)
            return await all_of(self._reply(client, gate, name, ids, sampling) for ids in part)

        async def all_parts() -> list[Answer[list[Reply]]]:
            parts = [[list(ids) for ids in prompts[index :: len(asked)]] for index in range(len(asked))]
            calls = [
                ask_all(
                    [worker],
                    self._admin_key,
                    self._sample_s(len(part), at_once),
                    lambda c, part=part: of_worker(c, part),
                )
                for worker, part in zip(asked, parts, strict=True)
            ]
            return [answer for answers in await all_of(calls) for answer in answers]

        answers = _run(all_parts())
        self._refuse(answers, f"sampling from {name or 'the base model'}", enough=len(asked))
        replies = [answer.value or [] for answer in answers]
        return [replies[index % len(asked)][index // len(asked)] for index in range(len(prompts))]

    def _sample_s(self, prompts: int, at_once: int) -> float:
        """Each round of replies may take the limit."""
        return self._config.sample_limit_s * max(1, -(-prompts // at_once))

    async def _reply(
        self, client: EngineClient, gate: asyncio.Semaphore, name: str | None, ids: list[int], sampling: SamplingParams
    ) -> Reply:
        request = GenerateRequest(
            input_ids=ids, sampling_params=sampling, rid=probe_rid(), lora_path=name, stream=False
        )
        deltas: list[Delta] = []
        async with gate, asyncio.timeout(self._config.sample_limit_s), aclosing(client.generate(request)) as reply:
            async for delta in reply:
                deltas.append(delta)
        finish = deltas[-1].finish
        assert finish is not None, "the last delta of a whole reply has one"
        if finish.type == "abort":
            raise EngineError(f"the engine ended a reply early: {finish.message or 'no message'}")
        return Reply(
            tuple(token for delta in deltas for token in delta.token_ids),
            tuple(number for delta in deltas for number in delta.logprobs),
            finish.type,
        )

    # Any: a coroutine's own parameters.
    def _ask(self, limit_s: float, call: Any) -> list[Answer[Any]]:
        return _run(ask_all(self.workers, self._admin_key, limit_s, call))

    def _refuse(self, answers: Sequence[Answer[Any]], what: str, *, enough: int) -> None:
        faults = _faults(answers)
        if len(answers) - len(faults) < enough:
            told = "; ".join(f"{worker}: {fault}" for worker, fault in faults.items())
            raise PublishError(
                f"{what}: {len(answers) - len(faults)} of {len(answers)} workers did, expected {enough}: {told}"
            )


def _faults(answers: Sequence[Answer[Any]]) -> dict[str, str]:
    return {answer.worker: answer.fault for answer in answers if answer.fault is not None}


def _run(work: Coroutine[Any, Any, T]) -> T:
    """One event loop for one call: nothing of it is left behind, except what a worker still does by itself."""
    return asyncio.run(work)
