"""Whether the collector's memory stays flat: many conversations through one collector, its resident memory sampled."""

import asyncio
import itertools
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import psutil

from tests.benchmarks.proxy_load import Connection, ask, connections, http_request
from tests.benchmarks.proxy_reply import SYSTEM, request, text

TOKENS = 16
_TURNS_A_SESSION = 5
_CLIENTS = 16
_SAMPLES = 200
_WARM_UP = 0.4
_TURN_ID = re.compile(rb"x-roundhouse-turn: ([^\r]+)")
SETTINGS = """index_sessions = 200
[collector.store]
prefix_cache_bytes = 2097152
seal_rows = 1000
"""
"""What is kept is bounded; bounds this low are reached early in the run, so that only what has none still grows."""


class Sample(NamedTuple):
    """Resident memory after so many turns."""

    turns: int
    rss_bytes: int


async def grow(url: str, pid: int, model: Path, turns: int) -> dict[str, object]:
    """Runs the turns; the memory at the start, after the warm-up and at the end, and its slope between the two."""
    process, done, samples = psutil.Process(pid), itertools.count(1), list[Sample]()
    step = max(1, turns // _SAMPLES)

    def count() -> None:
        number = next(done)
        if number % step == 0:
            samples.append(Sample(number, process.memory_info().rss))
        if number % (step * 20) == 0:
            print(
                f"proxy: memory, {number} turns, {samples[-1].rss_bytes / 2**20:.0f} MiB", file=sys.stderr, flush=True
            )

    sessions = iter(range(-(-turns // _TURNS_A_SESSION)))
    started, before = time.monotonic(), process.memory_info().rss
    async with connections(url, _CLIENTS) as opened:
        await asyncio.gather(*(_client(url, one, sessions, text(model, TOKENS), count) for one in opened))
    return {**summary(samples, before), "turns_s": round(samples[-1].turns / (time.monotonic() - started))}


async def _client(
    url: str, connection: Connection, sessions: Iterator[int], reply: str, count: Callable[[], None]
) -> None:
    for session in sessions:
        messages = [{"role": "system", "content": SYSTEM}]
        # Half of the clients name their session, the others are known by what they repeat.
        headers = {"x_session_id": f"run-{session}"} if session % 2 else {}
        turn_id = ""
        for number in range(_TURNS_A_SESSION):
            messages.append({"role": "user", "content": f"Step {number} of task {session}: go on."})
            answer = await connection.call(http_request(request(session, TOKENS, messages), **headers))
            answer.check(TOKENS)
            found = _TURN_ID.search(answer.reads[0].data)
            assert found is not None
            turn_id = found.group(1).decode()
            messages.append({"role": "assistant", "content": reply})
            count()
        if session % 4 == 0:
            verdict = {"response_id": turn_id, "kind": "outcome", "value": 1.0, "feedback_id": f"f-{session}"}
            await ask(url, "/v1/feedback", verdict)


def summary(samples: list[Sample], before: int) -> dict[str, object]:
    """First, last and the slope after the warm-up."""
    turns = np.asarray([sample.turns for sample in samples], dtype=float)
    rss = np.asarray([sample.rss_bytes for sample in samples], dtype=float)
    warm = turns >= _WARM_UP * turns[-1]
    slope = float(np.polyfit(turns[warm], rss[warm], 1)[0]) if warm.sum() > 1 else None
    return {
        "turns": int(turns[-1]),
        "tokens_a_turn": TOKENS,
        "rss_mib_before": _mib(before),
        "rss_mib_warm": _mib(rss[warm][0]),
        "rss_mib_last": _mib(rss[-1]),
        "rss_mib_most": _mib(rss.max()),
        "warm_up_turns": int(turns[warm][0]),
        "bytes_a_turn_after_warm_up": None if slope is None else round(slope, 1),
        "growth_after_warm_up": round(float(rss[-1] / rss[warm][0]) - 1, 4),
    }


def _mib(count: float) -> float:
    return round(count / 2**20, 1)
