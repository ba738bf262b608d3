"""An engine's load as it is recorded: an event of kind `engine` for each worker, at a bounded rate."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from collector.engine.wire import WorkerLoad
from collector.records import Event
from collector.workers.twins import twins
from collector.workers.worker import Worker

ENGINE = "engine"
"""Kind of the events."""

RANK_FIELDS: dict[str, str] = {
    "running": "Requests being sampled.",
    "waiting": "Requests in the queue.",
    "kv_used_tokens": "Tokens that hold a KV slot.",
    "kv_tokens": "KV slots.",
    "kv_usage": "Share of the KV slots in use.",
    "tokens_per_second": "Sampled tokens a second, as the engine last measured it.",
    "cache_hit_rate": "Share of prompt tokens found in the prefix cache, as the engine last measured it.",
    "adapter_slots_used": "Adapters in the batch pool.",
    "adapter_slots_total": "Adapters that fit into the batch pool.",
    "accept_length": "Tokens accepted at each step of speculative decoding.",
    "accept_rate": "Share of drafted tokens that were accepted.",
}
"""What is said of each data-parallel rank, and its meaning."""


def rank_load(load: WorkerLoad) -> dict[str, float | None]:
    """One rank's load under these names; None where the engine does not say."""
    lora, drafting = load.lora, load.speculative
    return {
        "rank": load.dp_rank,
        "running": load.num_running_reqs,
        "waiting": load.num_waiting_reqs,
        "kv_used_tokens": load.num_used_tokens,
        "kv_tokens": load.max_total_num_tokens,
        "kv_usage": load.token_usage,
        "tokens_per_second": load.gen_throughput,
        "cache_hit_rate": load.cache_hit_rate,
        "adapter_slots_used": None if lora is None else lora.slots_used,
        "adapter_slots_total": None if lora is None else lora.slots_total,
        "accept_length": None if drafting is None else drafting.accept_length,
        "accept_rate": None if drafting is None else drafting.accept_rate,
    }


def load_event(worker: Worker, twin: str | None = None) -> Event:
    """What a worker said at its newest look; `ranks` is null when it did not say.

    With `twin`, why it is left alone, it is a second address of another worker: their load is told once.
    """
    fault = worker.fault or twin
    ranks = None if worker.loads is None or twin is not None else [rank_load(load) for load in worker.loads]
    return Event(
        at=datetime.now(UTC),
        kind=ENGINE,
        severity="info" if fault is None else "warn",
        actor="collector",
        text=f"{worker.url}: {fault or 'answers'}",
        detail={
            "worker": worker.url,
            "fault": fault,
            "process": worker.process,
            "turns": worker.running,
            "loaded": sorted(worker.loaded) if worker.looked.is_set() else None,
            "slots": worker.slots,
            "ranks": ranks,
        },
    )


async def record_loads(workers: Sequence[Worker], tell: Callable[[Event], object], *, every_s: float) -> None:
    """Records every worker's load again and again until it is cancelled."""
    while True:
        await asyncio.sleep(every_s)
        left = twins(workers)
        for worker in workers:
            tell(load_event(worker, left.get(worker.url)))
