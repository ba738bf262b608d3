"""Keeps the routes at the registry's newest revision, and says so to those who wait for it."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from time import monotonic

from collector.errors import UserError
from collector.routes import RegistryRoutes
from collector.store.registry import READER_STALE_S, Registry

_log = logging.getLogger(__name__)
_LOOK_EVERY_S = 0.1
_RENEW_EVERY_S = READER_STALE_S / 4


@asynccontextmanager
async def watching(
    registry: Registry, routes: RegistryRoutes, reader: str, *, renew_every_s: float = _RENEW_EVERY_S
) -> AsyncGenerator[None]:
    """While open, a change of the registry is acted on within 200 ms and then acknowledged as `reader`, which is said
    again from time to time: a reader that falls silent is taken for dead."""
    await asyncio.to_thread(registry.acknowledge, reader, routes.snapshot.revision)
    routes.current_at = monotonic()
    task = asyncio.create_task(_watch(registry, routes, reader, renew_every_s))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await asyncio.to_thread(registry.leave, reader)


async def _watch(registry: Registry, routes: RegistryRoutes, reader: str, renew_every_s: float) -> None:
    acknowledged, said_at = routes.snapshot.revision, monotonic()
    while True:
        await asyncio.sleep(_LOOK_EVERY_S)
        try:
            if await asyncio.to_thread(registry.revision) != routes.snapshot.revision:
                routes.snapshot = await asyncio.to_thread(registry.snapshot)
            if acknowledged != routes.snapshot.revision or monotonic() - said_at >= renew_every_s:
                await asyncio.to_thread(registry.acknowledge, reader, routes.snapshot.revision)
                acknowledged, said_at = routes.snapshot.revision, monotonic()
        # A watch that ended would leave a retired adapter routed, so nothing ends it: every fault is counted and shown.
        except Exception as error:  # noqa: BLE001
            _failed(routes, error)
        else:
            routes.current_at = monotonic()
            if routes.failure is not None:
                _log.warning("the registry can be read again")
            routes.failure = None


def _failed(routes: RegistryRoutes, error: Exception) -> None:
    routes.failed_total += 1
    ours = not isinstance(error, UserError)
    reason = repr(error) if ours else str(error)
    if reason != routes.failure:
        _log.error("the registry cannot be followed, routes stay as they are: %s", reason, exc_info=ours)
    routes.failure = reason
