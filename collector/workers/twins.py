"""Addresses that lead to one engine process: the one listed first stands for it, and the others are left alone."""

from collections.abc import Sequence

from collector.workers.worker import Worker


def twins(workers: Sequence[Worker]) -> dict[str, str]:
    """Address of each worker that is the process of one listed before it, to why it is left alone.

    An engine that does not let its process be told is not found out.
    """
    first: dict[str, str] = {}
    found: dict[str, str] = {}
    for worker in workers:
        if worker.process is None:
            continue
        other = first.setdefault(worker.process, worker.url)
        if other != worker.url:
            found[worker.url] = (
                f"{worker.url} is the same engine process as {other}: turns go to {other} only; remove {worker.url} "
                "from [collector] engines or --engine, or start a second engine there"
            )
    return found
