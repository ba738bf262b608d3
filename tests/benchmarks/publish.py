"""From an adapter on disk to its first token served, proved, with 16 streams running. One JSON line.

Target: below 2 s at rank 16, no request failed. The clock starts when the adapter's folder is on disk and what needs no
engine to hold it has been done (`probe_s`: the probe made from the weights; `control_s`: the version before asked about
it), and stops when a request for the new version has given its first token: load, proof, and that token. Engine and
trainer share the machine's cores, one thread each; `engine_cpu_s` is what the engine computed meanwhile, streams and
all, and about what it would have taken on an idle machine.
"""

import argparse
import asyncio
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec
import numpy as np
import psutil
import torch
from transformers import AutoModelForCausalLM

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from collector.engine.client import EngineClient
from collector.engine.wire import GenerateRequest, SamplingParams
from collector.errors import EngineError
from tests.engines.engine_process import engine_process, free_port
from tests.engines.sglang_env import environment_folder, find_environment, server_command, server_environment
from trainer.lora import TrainedAdapter, new_adapter
from trainer.peft_folder import write_peft
from trainer.policy import Policy
from trainer.publish.policy_probe import PolicyPredictor, make_probe, read_published
from trainer.publish.proving import probe_rid
from trainer.publish.publisher import Publisher
from trainer.publish_config import PublishConfig
from trainer.tiny_model import write_tiny_model

STREAMS = 16
TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def main() -> None:
    """Prints the line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, action="append", help="model folder (may repeat); default: a tiny one")
    parser.add_argument("--engine", choices=("embedded", "sglang"), action="append", help="default: both")
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--versions", type=int, default=4, help="published one after another; the first is warm-up")
    args = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="roundhouse-publish-") as name:
        root = Path(name)
        models: list[Path] = args.model or [write_tiny_model(root / "tiny")]
        line: dict[str, object] = {"benchmark": "publish", "streams": STREAMS, "rank": args.rank}
        for model in models:
            for engine in args.engine or ["embedded", "sglang"]:
                line[f"{engine}, {model.name}"] = measure(engine, model, root / f"{engine}-{model.name}", args)
    line |= {"load_average": os.getloadavg()[0], "cores": os.cpu_count(), "machine": platform.machine()}
    print(json.dumps(line))


def measure(engine: str, model: Path, folder: Path, args: argparse.Namespace) -> object:
    """Publishes versions one after another under load."""
    folder.mkdir()
    policy = Policy(AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32))
    started = start(engine, model, folder, args.rank)
    if started is None:
        return "no environment here"
    with started as url:
        return asyncio.run(publish_all(url, policy, folder, args))


def start(engine: str, model: Path, folder: Path, rank: int) -> AbstractContextManager[str] | None:
    """An engine as a process of its own; None where it is not installed."""
    if engine == "sglang":
        python = find_environment(environment_folder())
        if python is None:
            return None
        command = server_command(python, model, free_port(), "--incremental-streaming-output")
        command[command.index("--max-lora-rank") + 1] = str(rank)
        url = f"http://127.0.0.1:{command[command.index('--port') + 1]}"
        return engine_process(
            command, environment=server_environment(), log=folder / "log", url=url, start_timeout_s=240
        )
    ready, config = folder / "ready", folder / "roundhouse.toml"
    # A probe queues behind a full batch, so there is room for one beside the streams.
    config.write_text(f"[engine]\nmax_running = {STREAMS + 8}\n")
    command = [sys.executable, "-m", "console", "engine", "--model", str(model), "--port", "0", "--config", str(config)]
    where: Callable[[], str | None] = lambda: json.loads(ready.read_text())["url"] if ready.exists() else None  # noqa: E731
    return engine_process(
        [*command, "--ready-file", str(ready)],
        environment={"OMP_NUM_THREADS": "1"},
        log=folder / "log",
        url=where,
        start_timeout_s=120,
    )


async def publish_all(url: str, policy: Policy, folder: Path, args: argparse.Namespace) -> dict[str, object]:
    """The streams run on the version before, or on the base model; each published version takes their place."""
    publisher = Publisher([url], PublishConfig())
    client = EngineClient(url)
    vocabulary = policy.network.config.vocab_size
    failed: list[str] = []
    runs: list[dict[str, object]] = []
    before: tuple[str, TrainedAdapter] | None = None
    for version in range(1, args.versions + 1):
        name, path = f"bench@{version}", folder / f"bench-{version}"
        path.mkdir()
        write_peft(path, random_adapter(policy, args.rank, version), base_model="bench", dtype=torch.float32)
        adapter = read_published(policy, path, "bench")
        served = None if before is None else before[0]
        stop = asyncio.Event()
        tokens = [0]
        streams = [
            asyncio.create_task(stream(client, vocabulary, served, stop, tokens, failed, 100 * version + index))
            for index in range(STREAMS)
        ]
        while tokens[0] < 4 * STREAMS:  # noqa: ASYNC110 - all of them are under way
            await asyncio.sleep(0.02)
        runs.append(await publish_one(publisher, client, policy, name, path, adapter, before))
        stop.set()
        await asyncio.gather(*streams)
        if before is not None:
            await asyncio.to_thread(publisher.unload, before[0])
        before = (name, adapter)
    await client.close()
    warm = [float(str(run["publish_s"])) for run in runs[1:]] or [float(str(runs[0]["publish_s"]))]
    return {"publish_s": sorted(warm)[len(warm) // 2], "worst_s": max(warm), "failed": len(failed), "runs": runs}


async def publish_one(
    publisher: Publisher,
    client: EngineClient,
    policy: Policy,
    name: str,
    path: Path,
    adapter: TrainedAdapter,
    before: tuple[str, TrainedAdapter] | None,
) -> dict[str, object]:
    """One version, from disk to a token."""
    rng = np.random.default_rng(len(name) + int(name.rpartition("@")[2]))
    contexts = rng.integers(0, policy.network.config.vocab_size, (4, 64)).tolist()
    previous = None if before is None else before[1]
    config = PublishConfig()
    begun = time.monotonic()
    probe = await asyncio.to_thread(
        lambda: make_probe(
            PolicyPredictor(policy, adapter, previous),
            contexts,
            tokens=config.probe_tokens,
            passages=config.passages,
        )
    )
    made = time.monotonic()
    known = None if before is None else before[0]
    controls = await asyncio.to_thread(publisher.control, probe, known)
    controlled, idle = time.monotonic(), cpu_seconds()
    await asyncio.to_thread(publisher.load, name, path)
    loaded = time.monotonic()
    proof = await asyncio.to_thread(lambda: publisher.prove(probe, name, known=known, controls=controls))
    proved = time.monotonic()
    one = SamplingParams(max_new_tokens=1)
    request = GenerateRequest(input_ids=contexts[0][:16], sampling_params=one, rid=probe_rid(), lora_path=name)
    _ = [delta async for delta in client.generate(request)]
    served, used = time.monotonic(), cpu_seconds()
    worker = proof.workers[0]
    return {
        "verdict": proof.verdict,
        "reason": worker.reason,
        "probe_s": made - begun,
        "control_s": controlled - made,
        "load_s": loaded - controlled,
        "prove_s": proved - loaded,
        "first_token_s": served - proved,
        "publish_s": served - controlled,
        "engine_cpu_s": used[1] - idle[1],
        "trainer_cpu_s": used[0] - idle[0],
        "control_nats": worker.control_nats,
        "residual_nats": [each.residuals["new"] for each in worker.judgements],
        "ratios": [msgspec.to_builtins(dict(each.ratios)) for each in worker.judgements],
    }


def cpu_seconds() -> tuple[float, float]:
    """Of this process and of the engine, with all their threads."""
    me = psutil.Process()
    times = [me.cpu_times(), *(child.cpu_times() for child in me.children(recursive=True))]
    seconds = [each.user + each.system for each in times]
    return seconds[0], sum(seconds[1:])


async def stream(
    client: EngineClient,
    vocabulary: int,
    name: str | None,
    stop: asyncio.Event,
    tokens: list[int],
    failed: list[str],
    seed: int,
) -> None:
    """Replies of 64 tokens one after another until it is told to stop."""
    rng = np.random.default_rng(seed)
    sampling = SamplingParams(max_new_tokens=64, ignore_eos=True)
    while not stop.is_set():
        request = GenerateRequest(
            input_ids=rng.integers(0, vocabulary, 24).tolist(),
            sampling_params=sampling,
            rid=probe_rid(),
            lora_path=name,
        )
        try:
            async for delta in client.generate(request):
                tokens[0] += len(delta.token_ids)
                if delta.finish is not None and delta.finish.type != "length":
                    failed.append(delta.finish.message or delta.finish.type)
        except EngineError as error:
            failed.append(str(error))


def random_adapter(policy: Policy, rank: int, seed: int) -> TrainedAdapter:
    """A trained-looking adapter: both halves random, small enough that a version is near the one before."""
    adapter = new_adapter(policy.network, "bench", rank=rank, alpha=2 * rank, targets=TARGETS, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for pair in adapter.pairs.values():
            pair.up_O_R.normal_(0.0, 0.01, generator=generator)
    return adapter


if __name__ == "__main__":
    main()
