"""A whole loop on one machine: engine, collector, store, `roundhouse train`, and users who like ASCII."""

import asyncio
import io
import json
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import numpy as np
from starlette.applications import Starlette

from collector.app import build_app
from collector.collector import Collector
from collector.config import CollectorConfig
from collector.engine.client import EngineClient
from collector.past import StoredPast
from collector.registry_watch import watching
from collector.rendering.renderer import Renderer
from collector.routes import RegistryRoutes
from collector.served_model import ServedModel
from collector.server import user_key
from collector.store.reader import Reader
from collector.store.registry import Registry
from collector.store.registry_rows import read_registry
from collector.store.writer import Writer
from collector.workers.fleet import Fleet
from collector.workers.reconcile import Reconciler
from collector.workers.worker import Worker
from console.cli import main
from tests.drill.faulty_engine import listening

TENANT = "dev"
"""Of a collector without keys."""
WINDOW_S = 4.0
"""Feedback window of a session: a session is trained on once it is over."""
TEMPERATURE = 0.7
"""Of the traffic; other than 1, so that an engine that does not divide by it is noticed."""
TOKENS = 4
"""Sampled in each turn."""

SYSTEM = tuple(b"You speak plain ASCII")
"""What every prompt begins with."""

Judge = Callable[[Sequence[int]], float | None]
"""What a user says of a reply."""


def ascii_share(ids: Sequence[int]) -> float:
    """What is liked: replies of which many bytes are below 128."""
    return sum(token < 128 for token in ids) / len(ids)


def disliked(ids: Sequence[int]) -> float:
    """The same users, with the sign of what they say turned round."""
    return 1 - ascii_share(ids)


class Cycle(NamedTuple):
    """What `roundhouse train --once --json` said."""

    code: int
    said: dict[str, Any]

    @property
    def ended(self) -> dict[str, Any]:
        """How it ended for the one adapter."""
        [outcome] = self.said["adapters"]
        return outcome

    @property
    def not_passed(self) -> dict[str, str]:
        """Criterion of the gate to its status, of those that did not pass."""
        criteria = self.ended["numbers"]["gate"]["criteria"]
        return {each["name"]: each["status"] for each in criteria if each["status"] != "pass"}


def train(store: Path, *, model: Path, settings: Path, engine: str) -> Cycle:
    """One cycle, as a person or cron would start it."""
    with io.TextIOWrapper(io.BytesIO(), "utf-8") as out, redirect_stdout(out):
        code = main(train_words(store, model=model, settings=settings, engine=engine))
        out.flush()
        out.seek(0)
        said = out.read()
    return Cycle(code, json.loads(said) if said else {})


def train_words(store: Path, *, model: Path, settings: Path, engine: str) -> list[str]:
    """What is typed after `roundhouse`."""
    given = {"--store": store, "--model": model, "--config": settings, "--engine": engine}
    return ["train", "--once", "--json", *(str(word) for pair in given.items() for word in pair)]


@contextmanager
def collecting(store: Path, *, model: Path, engine: str) -> Iterator[str]:
    """The address of a collector before an engine, as `roundhouse collect` would run it."""
    config = CollectorConfig()
    with Writer(store, config.writer) as writer, Registry(store) as registry:
        routes = RegistryRoutes([model.name], registry.snapshot())
        # Engine, collector and users share this process: on a slow machine each waits long for its turn.
        client = EngineClient(engine, connect_timeout_s=60.0)
        worker = Worker(engine, client, ServedModel(client, model))
        reconciler = Reconciler((worker,), store=store, registry=lambda: routes.snapshot, tell=writer.append)
        collector = Collector(
            config=config,
            renderer=Renderer.from_folder(model),
            context_tokens=2048,
            base_model=model.name,
            fleet=Fleet([worker], reconciler),
            journal=writer,
            past=StoredPast(store),
            routes=routes,
            user_key=user_key(store),
        )
        app = build_app(collector)
        app.router.lifespan_context = _watched(app.router.lifespan_context, registry, routes, client, reconciler)
        with listening(app) as url:
            yield url


# Any: Starlette's own type of a lifespan.
def _watched(
    inner: Any, registry: Registry, routes: RegistryRoutes, client: EngineClient, reconciler: Reconciler
) -> Any:
    """The application's own life, in which the registry is watched."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncGenerator[None]:
        following = asyncio.create_task(reconciler.run())
        async with watching(registry, routes, CollectorConfig().writer), inner(app):
            yield
        following.cancel()
        await client.close()

    return lifespan


def prompts_of(seed: int, count: int) -> list[list[int]]:
    """Prompts that begin alike."""
    random = np.random.default_rng(seed)
    return [[*SYSTEM, *random.integers(1, 250, 6).tolist()] for _ in range(count)]


class Spoken(NamedTuple):
    """One reply through the collector."""

    session: str
    ids: list[int]


def speak(url: str, sessions: int, *, seed: int, judge: Judge | None, group: str | None = None) -> list[Spoken]:
    """Sessions of one turn each, all at a time, and what their users say."""
    return asyncio.run(_speak(url, sessions, seed, judge, group))


async def _speak(url: str, sessions: int, seed: int, judge: Judge | None, group: str | None) -> list[Spoken]:
    prompts = prompts_of(seed, sessions)
    async with aiohttp.ClientSession(raise_for_status=True) as client:

        async def one(number: int, prompt: list[int]) -> Spoken:
            session = f"s-{seed}-{number}"
            headers = {"x-session-id": session} | ({"x-roundhouse-group": group} if group else {})
            sampling = {
                "temperature": TEMPERATURE,
                "max_new_tokens": TOKENS,
                "ignore_eos": True,
                "sampling_seed": 1000 * seed + number,
            }
            body = {"input_ids": prompt, "sampling_params": sampling, "return_logprob": True}
            async with client.post(f"{url}/generate", json=body, headers=headers) as answer:
                ids = (await answer.json())["output_ids"]
            value = None if judge is None else judge(ids)
            if value is not None:
                said = {"kind": "outcome", "value": value, "session_id": session}
                async with client.post(f"{url}/v1/feedback", json=said) as answer:
                    await answer.read()
            return Spoken(session, ids)

        return await asyncio.gather(*(one(number, prompt) for number, prompt in enumerate(prompts)))


def wait_for_windows(store: Path) -> None:
    """Until every session in the store may be trained on."""
    ended = [row["finished_at"] for row in rows(store, "turns")]
    left = WINDOW_S + 0.1 - (time.time() - max(ended).timestamp())
    if left > 0:
        time.sleep(left)


# Any: the columns of a table.
def rows(store: Path, table: str) -> list[dict[str, Any]]:
    """A table of the store; details of events are read."""
    with Reader(store).snapshot([table]) as snapshot:
        found = snapshot.arrow(table).to_pylist()
    return [row | {"detail": json.loads(row["detail"] or "{}")} if table == "events" else row for row in found]


def stages(store: Path) -> list[str]:
    """What the cycles did, in order: stage and how it stood."""
    found = [row["detail"] for row in rows(store, "events") if row["kind"] == "cycle"]
    return [f"{each['stage']} {each['state']}" for each in found]


def routed(store: Path) -> list[tuple[str | None, int]]:
    """Where new sessions go; nothing is the base model."""
    return [(each.adapter, each.version) for each in read_registry(store).routes]


def states(store: Path) -> list[str]:
    """Of the adapter's versions, from 0 on."""
    return [each.state for each in read_registry(store).versions]


def proofs(store: Path) -> list[tuple[int, str, str]]:
    """Version, verdict and what is served, of each proof."""
    found = [row for row in rows(store, "events") if row["kind"] == "proof"]
    return [(row["version"], row["detail"]["verdict"], row["detail"]["served"]) for row in found]
