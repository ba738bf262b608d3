"""Keeps the routes at the registry's newest revision, and says so to those who wait for it."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

from collector.errors import StoreError
from collector.routes import RegistryRoutes
from collector.store.registry import Registry

_log = logging.getLogger(__name__)
_LOOK_EVERY_S = 0.1


@asynccontextmanager
async def watching(registry: Registry, routes: RegistryRoutes, reader: str) -> AsyncGenerator[None]:
    """While open, a change of the registry is acted on within 200 ms and then acknowledged as `reader`."""
    await asyncio.to_thread(registry.acknowledge, reader, routes.snapshot.revision)
    task = asyncio.create_task(_watch(registry, routes, reader))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await asyncio.to_thread(registry.leave, reader)


async def _watch(registry: Registry, routes: RegistryRoutes, reader: str) -> None:
    while True:
        await asyncio.sleep(_LOOK_EVERY_S)
        try:
            if await asyncio.to_thread(registry.revision) == routes.snapshot.revision:
                continue
            routes.snapshot = await asyncio.to_thread(registry.snapshot)
            await asyncio.to_thread(registry.acknowledge, reader, routes.snapshot.revision)
        except StoreError as error:
            _log.error("the registry cannot be read, routes stay as they are: %s", error)
