"""Whether every engine worker serves the trainer's base model: adapters of one model mean nothing on another."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from collector.engine.client import EngineClient
from collector.errors import UserError
from collector.served_model import ServedModel


def refuse_other_base(urls: Sequence[str], admin_key: str | None, model: Path, *, time_limit_s: float = 30.0) -> None:
    """UserError names a worker that serves another model; EngineError one that does not answer."""
    asyncio.run(_compared(urls, admin_key, model, time_limit_s))


async def _compared(urls: Sequence[str], admin_key: str | None, model: Path, time_limit_s: float) -> None:
    for url in urls:
        client = EngineClient(url, admin_key=admin_key, idle_timeout_s=time_limit_s)
        try:
            # Asked here once before: a look keeps to itself what goes wrong.
            await client.model_info()
            served = ServedModel(client, model, asker="trainer")
            await served.look()
        finally:
            await client.close()
        if served.difference is not None:
            raise UserError(f"{url}: {served.difference}")
