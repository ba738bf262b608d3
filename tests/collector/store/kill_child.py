"""Writers to be killed: each order read from standard input forks a process that appends records until it dies.

An order is `round point countdown`: the process kills itself (SIGKILL) when it reaches the named point of the store
for the countdown-th time; `-` never does. Acknowledgements go to a log of their own, outside the store.
"""

import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from collector.config import StoreConfig
from collector.records import ChatRequest, Event, Record, Turn, VersionSpan
from collector.store.writer import Writer

CONFIG = StoreConfig(seal_rows=400, group_commit_rows=8, seal_interval_s=0.03, grace_s=0.05)
WINDOW = 16
MOST_RECORDS = 10_000


def records(round_number: int) -> Iterator[tuple[str, Record]]:
    """The endless records of a round, each with its key: the same ones whenever it is asked."""
    source = random.Random(round_number)
    sessions = {name: ([1, 2, 3], [{"role": "system", "content": name}], 0) for name in "abc"}
    number = 0
    while True:
        number += 1
        key = f"{round_number}/{number}"
        if number % 7 == 0:
            yield key, Event(at=datetime(2026, 1, 1, tzinfo=UTC), kind=key, text="e" * source.randrange(200))
            continue
        name = source.choice("abc")
        prompt, messages, before = sessions[name]
        completion = [source.randrange(150_000) for _ in range(source.randrange(1, 80))]
        session = f"{round_number}{name}"
        yield (
            key,
            Turn(
                turn_id=key,
                session_id=session,
                turn=number,
                parent_turn_id=f"{round_number}/{before}" if before else None,
                tenant="t",
                api="chat",
                started_at=datetime(2026, 1, 1, 0, 0, 0, number, tzinfo=UTC),
                prompt_ids=list(prompt),
                completion_ids=completion,
                sampled_logprobs=[-source.random() for _ in completion],
                weight_versions=[VersionSpan(version="v", start=0, end=len(completion))],
                request=ChatRequest(messages=list(messages)),
            ),
        )
        if len(prompt) > 3000:
            prompt, messages = [1, 2, 3], messages[:1]
        sessions[name] = ([*prompt, *completion, number], [*messages, {"role": "user", "content": key}], number)


def write_until_killed(store: Path, log: Path, round_number: int, point: str, countdown: int) -> None:
    """Appends the round's records and logs what is acknowledged."""
    left = countdown

    def hook(reached: str) -> None:
        nonlocal left
        left -= reached == point
        if left <= 0 and reached == point:
            os.kill(os.getpid(), signal.SIGKILL)

    acknowledged = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    with Writer(store, "collector", CONFIG, hook=hook) as writer:
        waiting = []
        for key, record in islice(records(round_number), MOST_RECORDS):
            future = writer.append(record)
            future.add_done_callback(
                lambda done, key=key: os.write(acknowledged, f"{done.result().seq} {key}\n".encode())
            )
            waiting.append(future)
            if len(waiting) >= WINDOW:
                waiting.pop(0).result()
                time.sleep(0.0005)


def main() -> None:
    """Forks a writer for each order and says its pid, then how it ended."""
    store, log = Path(sys.argv[1]), Path(sys.argv[2])
    for line in sys.stdin:
        round_text, point, countdown = line.split()
        pid = os.fork()
        if pid == 0:
            try:
                write_until_killed(store, log, int(round_text), point, int(countdown))
            finally:
                os._exit(0)
        print(pid, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
