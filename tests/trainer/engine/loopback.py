"""An engine on loopback with a client for it, and the plain forward pass that engines are compared with."""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import torch
import uvicorn
from transformers import AutoModelForCausalLM

from trainer.engine.engine import Engine
from trainer.engine.running import load_engine
from trainer.engine.server import build_app
from trainer.engine_config import EngineConfig

torch.set_num_threads(1)


class Served:
    """An engine on loopback, in a thread of its own, with a client for it."""

    def __init__(self, url: str, engine: Engine) -> None:
        self.url = url
        self.engine = engine

    async def post(self, path: str, body: Any = None) -> tuple[int, Any]:
        """Status and decoded body."""
        async with aiohttp.ClientSession() as client, client.post(self.url + path, json=body) as answer:
            raw = await answer.read()
            return answer.status, msgspec.json.decode(raw) if raw.startswith(b"{") else raw.decode()

    async def get(self, path: str) -> tuple[int, Any]:
        """Status and decoded body."""
        async with aiohttp.ClientSession() as client, client.get(self.url + path) as answer:
            raw = await answer.read()
            return answer.status, msgspec.json.decode(raw) if raw.startswith(b"{") else raw.decode()

    async def generate(self, ids: list[int], *, body: dict[str, Any] | None = None, **sampling: Any) -> dict[str, Any]:
        """One whole reply."""
        full = {"input_ids": ids, "sampling_params": sampling, "return_logprob": True, **(body or {})}
        status, answer = await self.post("/generate", full)
        assert status == 200, answer
        return answer

    async def stream(
        self, ids: list[int], *, body: dict[str, Any] | None = None, **sampling: Any
    ) -> AsyncIterator[dict[str, Any]]:
        """The events of a streamed reply; the closing [DONE] is checked and left out."""
        full = {"input_ids": ids, "sampling_params": sampling, "return_logprob": True, "stream": True, **(body or {})}
        async with aiohttp.ClientSession() as client, client.post(self.url + "/generate", json=full) as answer:
            assert answer.status == 200, await answer.text()
            done = False
            async for line in answer.content:
                if line.startswith(b"data: "):
                    assert not done
                    done = line == b"data: [DONE]\n"
                    if not done:
                        yield msgspec.json.decode(line[6:])
            assert done


async def poll(holds: Callable[[], bool]) -> None:
    """Waits, 10 s at most, until something holds."""
    for _ in range(2000):
        if holds():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("waited 10 s in vain")


async def wait_until(served: Served, **expected: int | bool) -> None:
    """Waits until the engine's load has these values."""
    await poll(lambda: all(getattr(served.engine.load, name) == value for name, value in expected.items()))


async def under_way(engine: Served, ids: list[int], **sampling: Any) -> "asyncio.Task[dict[str, Any]]":
    """A request of which at least ten tokens are sampled, but by far not all."""
    before = engine.engine.load.generated_tokens_total
    asking = asyncio.create_task(engine.generate(ids, **sampling))
    await poll(lambda: engine.engine.load.generated_tokens_total >= before + 10)
    return asking


@contextmanager
def serving(settings: EngineConfig, *, port: int = 0) -> Iterator[Served]:
    """Serves an engine until the block ends; on a free port unless one is given."""
    engine = load_engine(settings, settings.model)
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    server = uvicorn.Server(uvicorn.Config(build_app(engine), log_level="warning", timeout_graceful_shutdown=2))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])))
    thread.start()
    try:
        listening = threading.Event()
        while not server.started and thread.is_alive():
            listening.wait(0.01)
        yield Served(f"http://127.0.0.1:{listener.getsockname()[1]}", engine)
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


def plain_logits(folder: Path, ids: list[int], adapter: Path | None = None) -> torch.Tensor:
    """Logits at every position by transformers, or by peft where an adapter is given: what engines must reproduce."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    if adapter is not None:
        from peft import PeftModel

        model = PeftModel.from_pretrained(model, adapter)
    with torch.no_grad():
        return model(torch.tensor([ids]), use_cache=False).logits[0]


def plain_logprobs(
    folder: Path, prompt: list[int], completion: list[int], *, temperature: float = 1.0, adapter: Path | None = None
) -> list[float]:
    """log_softmax(logits / T) of each completion token, in one forward pass over prompt and completion."""
    logits = plain_logits(folder, prompt + completion, adapter)
    scaled = (logits[len(prompt) - 1 : -1] / temperature).log_softmax(-1)
    return scaled.gather(1, torch.tensor(completion)[:, None])[:, 0].tolist()


def ids_and_logprobs(answer: dict[str, Any]) -> tuple[list[int], list[float]]:
    """What was sampled, with its log-probabilities; the two lists name the same tokens."""
    triples = answer["meta_info"]["output_token_logprobs"]
    assert [triple[1] for triple in triples] == answer["output_ids"]
    assert answer["meta_info"]["output_token_logprobs_length"] == len(triples)
    return answer["output_ids"], [triple[0] for triple in triples]
