"""One whole reply of an engine, for tests."""

import asyncio
import contextlib
import uuid
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

from collector.engine.client import EngineClient
from collector.engine.wire import Delta, Finish, GenerateRequest, SamplingParams, Span


class Sampled(NamedTuple):
    """All deltas of a reply put together."""

    ids: list[int]
    logprobs: list[float]
    finish: Finish
    spans: list[Span]
    prompt_tokens: int | None
    cached_tokens: int | None
    deltas: int


def request(
    prompt: Sequence[int],
    sampling: SamplingParams,
    *,
    adapter: str | None = None,
    stream: bool = True,
    rid: str | None = None,
) -> GenerateRequest:
    """A request under a fresh rid."""
    return GenerateRequest(
        input_ids=list(prompt),
        sampling_params=sampling,
        rid=rid or uuid.uuid4().hex,
        lora_path=adapter,
        stream=stream,
    )


async def sample(client: EngineClient, wanted: GenerateRequest) -> Sampled:
    """Reads a reply to its end."""
    return whole([delta async for delta in client.generate(wanted)])


def whole(deltas: list[Delta]) -> Sampled:
    """Puts deltas together."""
    last = deltas[-1]
    assert last.finish is not None
    assert all(delta.finish is None for delta in deltas[:-1])
    return Sampled(
        ids=[token for delta in deltas for token in delta.token_ids],
        logprobs=[logprob for delta in deltas for logprob in delta.logprobs],
        finish=last.finish,
        spans=last.spans,
        prompt_tokens=last.prompt_tokens,
        cached_tokens=last.cached_tokens,
        deltas=len(deltas),
    )


class Running(NamedTuple):
    """A reply that another task reads while the test does something to the engine."""

    deltas: list[Delta]
    came: asyncio.Event
    reading: asyncio.Task[None]

    async def tokens(self, at_least: int) -> int:
        """Waits until that many tokens have come, and says how many there are."""
        async with asyncio.timeout(30):
            while (count := sum(len(delta.token_ids) for delta in self.deltas)) < at_least:
                self.came.clear()
                await self.came.wait()
        return count

    async def settled(self, quiet_s: float = 0.7) -> int:
        """Waits until nothing has come for a while, and says how many tokens there are."""
        with contextlib.suppress(TimeoutError):
            for _ in range(5000):
                self.came.clear()
                await asyncio.wait_for(self.came.wait(), quiet_s)
        return await self.tokens(0)

    async def end(self) -> Sampled:
        """Waits for the end of the reply."""
        async with asyncio.timeout(60):
            await self.reading
        return whole(self.deltas)


@asynccontextmanager
async def running(client: EngineClient, wanted: GenerateRequest) -> AsyncGenerator[Running, None]:
    """Starts reading a reply; closes it at the end if it still runs."""
    deltas: list[Delta] = []
    came = asyncio.Event()

    async def read() -> None:
        async with contextlib.aclosing(client.generate(wanted)) as reply:
            async for delta in reply:
                deltas.append(delta)
                came.set()

    reading = asyncio.create_task(read())
    try:
        yield Running(deltas, came, reading)
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


async def until_idle(client: EngineClient) -> None:
    """Waits until the engine neither runs nor queues anything."""
    for _ in range(400):
        loads = await client.loads()
        if not any(load.num_running_reqs or load.num_waiting_reqs for load in loads):
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"the engine did not become idle in 20 s: {loads}")
