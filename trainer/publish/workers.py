"""The same call to every worker at once, each with a time limit, and none able to hold up the others."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from collector.engine.client import EngineClient
from collector.errors import EngineError, UserError

T = TypeVar("T")
CONNECT_S = 5.0
"""Longest wait for a connection, and for the abort of a request that was given up."""


class Answer(NamedTuple, Generic[T]):
    """What came of a call to one worker."""

    worker: str
    value: T | None
    """None when it failed."""
    fault: str | None
    """Why it failed."""
    timed_out: bool = False
    """Whether it was given up: the worker may still do what it was asked."""


# Any: a coroutine's own parameters.
async def all_of(works: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """All results; the first failure once all have ended, so that none still uses the client."""
    ended = await asyncio.gather(*works, return_exceptions=True)
    results: list[T] = []
    for each in ended:
        if isinstance(each, BaseException):
            raise each
        results.append(each)
    return results


async def ask(
    worker: str, admin_key: str | None, limit_s: float, call: Callable[[EngineClient], Awaitable[T]]
) -> Answer[T]:
    """One worker's answer, within the limit."""
    client = EngineClient(
        worker, admin_key=admin_key, connect_timeout_s=min(CONNECT_S, limit_s), idle_timeout_s=limit_s + 1
    )
    try:
        async with asyncio.timeout(limit_s):
            return Answer(worker, await call(client), None)
    except TimeoutError:
        return Answer(worker, None, f"gave no answer in {limit_s:g} s and was left behind", timed_out=True)
    except (EngineError, UserError) as error:
        return Answer(worker, None, str(error))
    finally:
        await client.close()


async def ask_all(
    workers: Sequence[str], admin_key: str | None, limit_s: float, call: Callable[[EngineClient], Awaitable[T]]
) -> list[Answer[T]]:
    """All answers, in the order of the workers."""
    return list(await asyncio.gather(*(ask(worker, admin_key, limit_s, call) for worker in workers)))


async def ask_until(
    workers: Sequence[str],
    admin_key: str | None,
    limit_s: float,
    call: Callable[[EngineClient], Awaitable[T]],
    *,
    enough: int,
    straggler_s: float,
) -> list[Answer[T]]:
    """As `ask_all`, but once `enough` have succeeded the others get `straggler_s` more and are then left behind."""
    tasks = [asyncio.create_task(ask(worker, admin_key, limit_s, call)) for worker in workers]
    waiting = set(tasks)
    while waiting:
        succeeded = sum(task.done() and task.result().fault is None for task in tasks)
        patience = straggler_s if succeeded >= enough else None
        done, waiting = await asyncio.wait(waiting, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
        if not done:
            break
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    late = f"gave no answer within {straggler_s:g} s of the others and was left behind"
    return [
        Answer(worker, None, late, timed_out=True) if task in waiting else task.result()
        for worker, task in zip(workers, tasks, strict=True)
    ]
