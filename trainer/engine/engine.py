"""The engine's one torch thread, and what the server may ask of it."""

import asyncio
import secrets
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar

import torch

from collector.engine.wire import GenerateRequest, PauseMode
from collector.errors import UserError
from trainer.engine.adapters import AdapterBank
from trainer.engine.admission import Limits, check_request
from trainer.engine.causal_model import CausalModel
from trainer.engine.engine_refusal import EngineRefusal
from trainer.engine.kv_buffer import BLOCK_TOKENS, blocks
from trainer.engine.load import Load
from trainer.engine.scheduler import Scheduler
from trainer.engine.sequence import Sequence, Sink
from trainer.engine.stopping import StopRule
from trainer.engine.text import TextCodec
from trainer.engine_config import EngineConfig

T = TypeVar("T")
DEFAULT_KV_BYTES = 1 << 30
"""Memory for keys and values where no number of tokens is set."""


class Job(NamedTuple):
    """Something to do between two steps, once `ready`."""

    act: Callable[[], Any]
    future: "Future[Any]"
    ready: Callable[[], bool]


class Engine:
    """A model with its adapters, computing in a thread of its own; the methods are called from the server's loop."""

    def __init__(self, model: CausalModel, settings: EngineConfig) -> None:
        self.settings = settings
        self.model = model
        self.codec = TextCodec.of(model.folder)
        self.max_context = _max_context(settings, model)
        self.bank = AdapterBank(model.network)
        self.scheduler = Scheduler(model, self.bank, settings, self._kv_tokens())
        self.launch_id = secrets.token_hex(12)
        """Tells this start of an engine from any other."""
        self.load: Load = self.scheduler.load()
        """How busy it was after the latest step."""
        eos = {self.codec.eos_id} if self.codec is not None and self.codec.eos_id is not None else set[int]()
        self._eos_ids = frozenset(token for token in model.eos_ids | eos if token < model.vocab_size)
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._put_off: list[Job] = []
        self._intake = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self.update_lock = asyncio.Lock()
        """Held by the one weight update that is under way."""
        self.ended = asyncio.Event()
        """Set when the thread has ended, for whatever reason."""
        self.broken = False
        """Whether it ended otherwise than by `stop`."""

    @property
    def limits(self) -> Limits:
        """What a request must fit into."""
        return Limits(self.max_context, self.scheduler.kv_tokens, self.model.vocab_size, self.codec is not None)

    @property
    def alive(self) -> bool:
        """Whether the thread still computes."""
        return self._thread.is_alive() and not self._closed

    def start(self) -> None:
        """Starts the thread; progress goes to the running event loop."""
        self._loop = asyncio.get_running_loop()
        self.load = self.scheduler.load()
        self._thread.start()

    async def stop(self) -> None:
        """Ends every request and the thread."""
        self._jobs.put(None)
        await asyncio.to_thread(self._thread.join)

    async def submit(self, request: GenerateRequest, sink: Sink) -> None:
        """Queues a request; `sink` gets its progress in the event loop's thread."""
        check_request(request, self.limits)

        def queue() -> None:
            rule = StopRule(request.sampling_params, self._eos_ids, self.codec.decode if self.codec else None)
            seed = request.sampling_params.sampling_seed
            seed = secrets.randbits(63) if seed is None else seed
            adapter = self.bank.find(request.lora_path) if request.lora_path else None
            self.scheduler.submit(Sequence(request, adapter=adapter, rule=rule, seed=seed, sink=sink))

        await self.between_steps(queue)

    async def abort(self, rid: str, message: str = "Aborted by AbortReq.") -> None:
        """Ends a request with what it has; an unknown name is ignored."""
        scheduler = self.scheduler
        await self.between_steps(
            lambda: scheduler.abort([sequence for sequence in scheduler.live if sequence.rid == rid], message)
        )

    async def abort_all(self, message: str = "Aborted by AbortReq.") -> None:
        """Ends every request with what it has."""
        await self.between_steps(lambda: self.scheduler.abort(self.scheduler.live, message))

    async def pause(self, mode: PauseMode) -> None:
        """Computes nothing more until `resume`; `mode` says what becomes of the requests that are live now."""

        def pause() -> None:
            self.scheduler.paused = mode
            if mode == "abort":
                self.scheduler.abort(self.scheduler.live, "Aborted by a pause of generation.")
            elif mode == "retract":
                self.scheduler.retract_all()

        await self.between_steps(pause)

    async def resume(self) -> None:
        """Ends a pause."""

        def resume() -> None:
            self.scheduler.paused = None

        await self.between_steps(resume)

    async def between_steps(self, act: Callable[[], T], ready: Callable[[], bool] = lambda: True) -> T:
        """Does something in the engine's thread between two steps, as soon as `ready` says so."""
        future: Future[T] = Future()
        with self._intake:
            if self._closed:
                raise EngineRefusal("the engine is not running", status=503)
            self._jobs.put(Job(act, future, ready))
        return await asyncio.wrap_future(future)

    def _kv_tokens(self) -> int:
        per_token = self.model.layout.bytes_per_token
        tokens = self.settings.kv_tokens or max(blocks(self.max_context), DEFAULT_KV_BYTES // per_token)
        return max(BLOCK_TOKENS, tokens // BLOCK_TOKENS * BLOCK_TOKENS)

    def _run(self) -> None:
        torch.set_num_threads(self.settings.threads)
        self.broken = True
        try:
            with torch.inference_mode():
                while self._take_jobs():
                    if self.scheduler.has_work:
                        self.scheduler.step()
                    self._settle()
            self.broken = False
        finally:
            self._fail_jobs()
            try:
                self.scheduler.abort(self.scheduler.live, "The engine stopped.", status=503)
                self._settle()
            finally:
                assert self._loop is not None
                self._loop.call_soon_threadsafe(self.ended.set)

    def _take_jobs(self) -> bool:
        """Takes in what was asked; waits for it when there is nothing to compute. False ends the thread."""
        while not self._jobs.empty() or not self.scheduler.has_work:
            job = self._jobs.get()
            if job is None:
                return False
            self._put_off.append(job)
            self._settle()
        return True

    def _settle(self) -> None:
        """Does the jobs that are ready, publishes the load and hands the progress on."""
        waiting, self._put_off = self._put_off, []
        answers: list[Callable[[], None]] = []
        for job in waiting:
            if job.ready():
                answers.append(_do(job))
            else:
                self._put_off.append(job)
        self.load = self.scheduler.load()
        for answer in answers:
            answer()
        deliveries, self.scheduler.deliveries = self.scheduler.deliveries, []
        if deliveries:
            assert self._loop is not None
            self._loop.call_soon_threadsafe(_deliver, deliveries)

    def _fail_jobs(self) -> None:
        """Takes no more jobs, and answers those that were taken."""
        with self._intake:
            self._closed = True
        while not self._jobs.empty():
            job = self._jobs.get()
            if job is not None:
                self._put_off.append(job)
        jobs, self._put_off = self._put_off, []
        for job in jobs:
            if job.future.set_running_or_notify_cancel():
                job.future.set_exception(EngineRefusal("the engine stopped", status=503))


def _max_context(settings: EngineConfig, model: CausalModel) -> int:
    if settings.max_context is not None and settings.max_context > model.max_context:
        raise UserError(
            f"max_context is {settings.max_context}, expected at most the {model.max_context} positions that "
            f"{model.folder} was made for"
        )
    return settings.max_context or model.max_context


def _do(job: Job) -> Callable[[], None]:
    """Does a job; what comes back answers it, once the load shows its effect."""
    if not job.future.set_running_or_notify_cancel():
        return lambda: None
    try:
        outcome = job.act()
    except EngineRefusal as refusal:
        return partial(job.future.set_exception, refusal)
    return partial(job.future.set_result, outcome)


def _deliver(deliveries: list[Callable[[], None]]) -> None:
    for tell in deliveries:
        tell()
