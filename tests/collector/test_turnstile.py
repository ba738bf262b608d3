"""One passes in each round of the event loop, in order, and one that leaves holds nobody up."""

import asyncio

from collector.turnstile import Turnstile


async def rounds(turnstile: Turnstile, people: int) -> list[tuple[int, int]]:
    """Who passed, and in which round of the loop."""
    loop, passed, number = asyncio.get_running_loop(), list[tuple[int, int]](), 0

    def count() -> None:
        nonlocal number
        number += 1
        if len(passed) < people:
            loop.call_soon(count)

    async def one(name: int) -> None:
        await turnstile.enter()
        passed.append((name, number))

    tasks = [asyncio.create_task(one(name)) for name in range(people)]
    loop.call_soon(count)
    await asyncio.gather(*tasks)
    return passed


async def test_in_no_round_pass_two_and_those_who_came_first_go_first() -> None:
    passed = await rounds(Turnstile(), 20)
    assert [name for name, _ in passed] == list(range(20))
    assert len({number for _, number in passed}) == 20


async def test_whoever_comes_alone_does_not_wait() -> None:
    turnstile, waited = Turnstile(), False
    for _ in range(3):
        entering = asyncio.ensure_future(turnstile.enter())
        await asyncio.sleep(0)
        waited = waited or not entering.done()
        await asyncio.sleep(0)
    assert not waited


async def test_one_that_leaves_the_line_holds_nobody_up() -> None:
    turnstile = Turnstile()
    tasks = [asyncio.create_task(turnstile.enter()) for _ in range(6)]
    await asyncio.sleep(0)
    for leaving in (tasks[1], tasks[3]):
        leaving.cancel()
    async with asyncio.timeout(10):
        await asyncio.gather(*tasks, return_exceptions=True)
        await turnstile.enter()
    assert [task.cancelled() for task in tasks] == [False, True, False, True, False, False]


async def test_one_that_comes_in_the_round_of_one_that_waited_waits_too() -> None:
    loop, passed, number, turnstile = asyncio.get_running_loop(), list[int](), 0, Turnstile()

    def count() -> None:
        nonlocal number
        number += 1
        if len(passed) < 3:
            loop.call_soon(count)

    async def comes(times: int) -> None:
        for _ in range(times):
            await turnstile.enter()
            passed.append(number)

    loop.call_soon(count)
    await asyncio.gather(comes(1), comes(2))
    assert len(passed) == len(set(passed)) == 3
