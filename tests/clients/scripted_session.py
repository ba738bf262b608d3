"""A collector and one real client in a network namespace of their own: `python -m tests.clients.scripted_session PLAN`.

PLAN is a JSON file: `store`, `replies` (what the engine samples, in order), `commands`, `env`, `folder`, `timeout_s`,
`context_tokens`.
`{url}` in a command and the environment becomes the collector's address. What the client printed and how it ended is
written beside the plan. The namespace has loopback and nothing else.
"""

import asyncio
import fcntl
import json
import logging
import socket
import struct
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

from collector.config import CollectorConfig
from collector.engine.wire import Delta, Finish, GenerateRequest
from collector.errors import EngineError
from collector.fakes import Pause, Script, ScriptedEngine, Step, deltas
from collector.past import StoredPast
from collector.rendering.renderer import Renderer
from collector.store.writer import Writer
from tests.collector.loopback import serve
from tests.collector.published import small_renderer

_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 1


class PacedEngine(ScriptedEngine):
    """A scripted engine that gives way between deltas, so that replies really stream."""

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[Delta, None]:
        """Plays the next script."""
        async for delta in super().generate(request):
            yield delta
            await asyncio.sleep(0)


def loopback_up() -> None:
    """Brings the namespace's loopback device up."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as device:
        asked = struct.pack("16sh14x", b"lo", 0)
        (flags,) = struct.unpack("16xh14x", fcntl.ioctl(device, _GET_FLAGS, asked))
        fcntl.ioctl(device, _SET_FLAGS, struct.pack("16sh14x", b"lo", flags | _UP))


def script(renderer: Renderer, reply: dict[str, Any]) -> Script:
    """One reply: its `text`, after `pause_s` of silence, ended by `length`, or failing after `fail_after` deltas."""
    ids = renderer.tokenizer.encode(reply["text"])
    finish = Finish(type="length") if reply.get("length") else Finish(type="stop", matched=ids[-1])

    def steps(request: GenerateRequest) -> Sequence[Step]:
        whole: list[Step] = [*deltas(ids, finish=finish, size=3, prompt_tokens=len(request.input_ids))]
        if "fail_after" in reply:
            whole = [*whole[: reply["fail_after"]], EngineError("the scripted engine fails")]
        return [Pause(reply.get("pause_s", 0)), *whole]

    return steps


async def run(plan: dict[str, Any]) -> dict[str, Any]:
    """Serves, and runs each command to its end."""
    renderer = small_renderer()
    store = Path(plan["store"])
    engine = PacedEngine(*(script(renderer, reply) for reply in plan["replies"]))
    config = CollectorConfig(default_max_tokens=100_000, ping_interval_s=1)
    ran: list[tuple[int | None, str, str]] = []
    with Writer(store, "collector") as writer:
        past = StoredPast(store)
        async with serve(
            renderer,
            engine,
            journal=writer,
            past=past,
            config=config,
            context_tokens=plan["context_tokens"],
        ) as served:
            commands, env = json.loads(json.dumps([plan["commands"], plan["env"]]).replace("{url}", served.url))
            for command in commands:
                ran.append(await run_client(command, env, plan["folder"], plan["timeout_s"]))
    statuses, outs, errs = zip(*ran, strict=True)
    return {"statuses": statuses, "outs": outs, "errs": errs, "requests": len(engine.requests)}


async def run_client(
    command: list[str], env: dict[str, str], folder: str, timeout_s: float
) -> tuple[int | None, str, str]:
    """Exit status and output of one run; it is ended when it takes too long."""
    process = await asyncio.create_subprocess_exec(
        *command, cwd=folder, env=env, stdin=asyncio.subprocess.DEVNULL, stdout=PIPE, stderr=PIPE
    )
    try:
        async with asyncio.timeout(timeout_s):
            out, err = await process.communicate()
    except TimeoutError:
        process.kill()
        out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    loopback_up()
    path = Path(sys.argv[1])
    result = asyncio.run(run(json.loads(path.read_text())))
    path.with_suffix(".result.json").write_text(json.dumps(result))
