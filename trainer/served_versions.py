"""Whether every engine worker serves a version and that was proved: what a route to it needs. Imports no torch."""

import asyncio
from collections.abc import Collection, Mapping, Sequence

import msgspec
import polars as pl

from collector.engine.client import EngineClient
from collector.engine.process_identity import process_of
from collector.records import Version
from collector.workers.proofs import Proofs
from trainer.adapter_rules import Refused
from trainer.adapter_standing import shown


class _Proof(msgspec.Struct, frozen=True):
    verdict: str | None = None
    worker: str | None = None


def loaded_on(workers: Sequence[str], admin_key: str | None, timeout_s: float) -> dict[str, frozenset[str]]:
    """The adapters that each worker, by its URL, has loaded now."""
    return asyncio.run(_loaded_on(workers, admin_key, timeout_s))


async def _loaded_on(workers: Sequence[str], admin_key: str | None, timeout_s: float) -> dict[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    for url in workers:
        client = EngineClient(url, admin_key=admin_key, connect_timeout_s=timeout_s, idle_timeout_s=timeout_s)
        try:
            found[url] = frozenset(await client.loaded_adapters())
        finally:
            await client.close()
    return found


def processes_on(workers: Sequence[str], admin_key: str | None, timeout_s: float) -> dict[str, str | None]:
    """Which start of its engine each worker is; None where that cannot be told."""
    return asyncio.run(_processes_on(workers, admin_key, timeout_s))


async def _processes_on(workers: Sequence[str], admin_key: str | None, timeout_s: float) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for url in workers:
        client = EngineClient(url, admin_key=admin_key, connect_timeout_s=timeout_s, idle_timeout_s=timeout_s)
        try:
            found[url] = await process_of(client)
        finally:
            await client.close()
    return found


def refuse_started_anew(version: Version, proofs: Proofs, processes: Mapping[str, str | None]) -> None:
    """Refuses a version whose proof on a worker is of another process than runs there now, or of another worker."""
    name = shown(version)
    for worker, process in processes.items():
        if (why := proofs.why_not(worker, process, name)) is not None:
            raise Refused(f"{name} on {worker}: {why}")


def refuse_unloaded(version: Version, loaded: Mapping[str, Collection[str]]) -> None:
    """Refuses a version that a worker has not loaded; `loaded` is worker to the names it has."""
    name = shown(version)
    if not loaded:
        raise Refused(
            f"nobody knows whether {name} is loaded; give --engine URL, once for each engine worker, "
            "or --config FILE with [collector] engines"
        )
    missing = [worker for worker, names in loaded.items() if name not in names]
    if missing:
        raise Refused(
            f"{name} is not loaded by {', '.join(missing)}, expected on every worker; only version 0, the base model, "
            "need not be"
        )


def refuse_unproved(version: Version, events: pl.DataFrame) -> None:
    """Refuses a version whose newest proofs do not all say that it is what is served under its name.

    `events` are the store's (at, kind, adapter, version, detail).
    """
    name = shown(version)
    mine = (pl.col("kind").is_in(["proof", "probe"])) & (pl.col("adapter") == version.adapter)
    told = events.filter(mine & (pl.col("version") == version.version)).sort("at", maintain_order=True)
    newest: dict[tuple[str, str | None], str | None] = {}
    for kind, detail in told.select("kind", "detail").iter_rows():
        proof = msgspec.json.decode(detail or "{}", type=_Proof)
        newest[kind, proof.worker] = proof.verdict
    if not any(kind == "proof" for kind, _ in newest):
        raise Refused(f"it was never proved that {name} is what is served under its name")
    for (kind, worker), verdict in newest.items():
        if verdict != "proved":
            where = f" on {worker}" if worker else ""
            raise Refused(f"the last {kind} of {name}{where} says {verdict}; it is not routed to")
