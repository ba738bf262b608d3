"""The demo's engine and collector: started, talked to, and always stopped."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from openai import APIError, OpenAI

from collector.errors import UserError
from console.demo.children import Child, stop_all
from console.demo.screen import Screen

ENGINE_LIMIT_S = 300.0
"""Longest the engine may take to load the model."""
COLLECTOR_LIMIT_S = 60.0
REQUEST_LIMIT_S = 120.0
"""Longest one reply may take."""


class Access(NamedTuple):
    """Settings of the children, and the key their collector asks for."""

    config: Path
    key: str


class Served(NamedTuple):
    """What runs."""

    engine_url: str
    client: OpenAI
    """A client of the collector."""
    model: str
    """The name it serves the base model under."""


@contextmanager
def serving(model: Path, store: Path, scratch: Path, screen: Screen, *, access: Access | None) -> Generator[Served]:
    """Starts the children, lets the agents work, and stops the children whatever happens.

    Without `access` everything is at its default and no key is needed.
    """
    children: list[Child] = []
    given = {} if access is None else {"config": str(access.config)}
    try:
        screen.say(f"loading {model.name} into the engine")
        engine = Child("engine", ["--model", str(model)], scratch, **given)
        children.append(engine)
        engine_url = engine.wait_until_ready(ENGINE_LIMIT_S)
        screen.say("starting the collector")
        arguments = ["--engine", engine_url, "--model", str(model), "--store", str(store.resolve())]
        collector = Child("collect", arguments, scratch, **given)
        children.append(collector)
        url = collector.wait_until_ready(COLLECTOR_LIMIT_S)
        key = "demo" if access is None else access.key
        client = OpenAI(base_url=f"{url}/v1", api_key=key, timeout=REQUEST_LIMIT_S)
        name = client.models.list().data[0].id
        screen.say(f"agents at work through {url}")
        yield Served(engine_url, client, name)
    except KeyboardInterrupt:
        screen.stopping()
        raise
    except APIError as error:
        dead = [child.ended() for child in children if not child.running]
        raise UserError("; ".join([f"a call through the collector failed: {error}", *dead])) from error
    finally:
        # The collector first: it finishes its records before the engine goes away.
        failed = stop_all(list(reversed(children)))
    if failed:
        raise UserError(f"the {' and the '.join(failed)} did not stop with exit code 0")
