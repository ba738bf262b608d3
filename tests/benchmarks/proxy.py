"""What the collector costs beside a direct connection, a bare pass-through and LiteLLM, all before one stub engine.

    python tests/benchmarks/proxy.py [--quick] [--only PART ...] [--rounds N] [--turns N] [--install-litellm]

Prints one JSON line. The collector is the real one, with a real store on disk and the model folder's tokenizer; each
reply is durable before it ends. All others move the chunks of a chat completion; the collector gets the same tokens,
one a chunk, from `/generate` with ids and log-probabilities, and makes chat chunks of them. Rounds take turns
(direct, pass-through, collector, and again), so that all meet the machine in the same state; medians are reported.
`added` is the collector's percentile less that of the direct connection in the same round. Targets: `added` p50 at
most 1 ms and p99 at most 10 ms at 32 paced streams; 70 % of the pass-through's streams a second, and 20 times
LiteLLM's; memory flat over 100,000 turns.
"""

import argparse
import asyncio
import itertools
import json
import os
import platform
import signal
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.benchmarks import proxy_litellm, proxy_memory
from tests.benchmarks.proxy_load import Latencies, burst, http_request, paced
from tests.benchmarks.proxy_reply import MODEL, reply, request
from tests.engines.engine_process import engine_process, free_port

CONCURRENCIES = (1, 32)
STREAMS = 32
INTERVAL_S = 0.01
PARTS = ("burst", "paced", "litellm", "memory")
HERE = Path(__file__).parent


class Sizes(NamedTuple):
    """How much is measured."""

    tokens: int
    rounds: int
    burst_s: float
    turns: int


FULL = Sizes(tokens=200, rounds=5, burst_s=4.0, turns=4_000)
QUICK = Sizes(tokens=50, rounds=2, burst_s=0.5, turns=200)


class System(NamedTuple):
    """One of those compared."""

    url: str
    pid: int | None
    """Its process, for the time it takes of the processor; None for the direct connection."""


def say(line: str) -> None:
    """Progress."""
    print(f"proxy: {line}", file=sys.stderr, flush=True)


class Children:
    """Starts the processes of one run, and ends them with it."""

    def __init__(self, stack: ExitStack, model: Path, folder: Path) -> None:
        self._stack = stack
        self._model = model
        self._folder = folder
        port = free_port()
        stub = [sys.executable, str(HERE / "proxy_stub.py"), "--model", str(model), "--port", str(port)]
        self.engine = self._start(stub, port, "stub")

    def pass_through(self) -> System:
        """The bare proxy."""
        port = free_port()
        command = [sys.executable, str(HERE / "proxy_pass_through.py"), "--engine", self.engine, "--port", str(port)]
        return self._system(command, port, "pass_through")

    def collector(self, name: str, settings: str = "") -> System:
        """Ours, with a store of its own."""
        port = free_port()
        config = self._folder / f"{name}.toml"
        config.write_text(f'[collector]\nmodel_aliases = ["{MODEL}"]\n{settings}')
        command = [sys.executable, "-m", "console", "collect", "--engine", self.engine, "--model", str(self._model)]
        command += ["--store", str(self._folder / name), "--port", str(port), "--config", str(config)]
        return self._system(command, port, name)

    def litellm(self, litellm: Path) -> System:
        """LiteLLM."""
        port = free_port()
        command = proxy_litellm.command(litellm, self.engine, port, self._folder)
        return self._system(command, port, "litellm", "/health/readiness", proxy_litellm.ENVIRONMENT)

    def _system(
        self, command: list[str], port: int, name: str, ready: str = "/ready", environment: dict[str, str] | None = None
    ) -> System:
        url = self._start(command, port, name, ready, environment)
        return System(url, _listener(port))

    def _start(
        self, command: list[str], port: int, name: str, ready: str = "/ready", more: dict[str, str] | None = None
    ) -> str:
        say(f"starting {name}")
        log, root = self._folder / f"{name}.log", str(HERE.parents[1])
        return self._stack.enter_context(
            engine_process(
                command,
                environment={"PYTHONPATH": root, **(more or {})},
                log=log,
                url=f"http://127.0.0.1:{port}",
                start_timeout_s=300,
                ready_path=ready,
            )
        )


def _listener(port: int) -> int:
    for child in psutil.Process().children(recursive=True):
        if any(one.laddr.port == port for one in child.net_connections(kind="tcp") if one.status == "LISTEN"):
            return child.pid
    raise RuntimeError(f"no child listens on {port}")


def main() -> int:
    """Measures and prints."""
    args = arguments()
    sizes = QUICK if args.quick else FULL
    given = {name: getattr(args, name) for name in ("tokens", "rounds", "burst_s", "turns")}
    sizes = sizes._replace(**{name: value for name, value in given.items() if value is not None})
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    line: dict[str, object] = {"benchmark": "proxy", "quick": args.quick, "model": args.model.name}
    line |= {"cores": os.cpu_count(), "python": platform.python_version(), "machine": platform.machine()}
    line |= {"load_before": round(os.getloadavg()[0], 2), "tokens_a_stream": sizes.tokens, "rounds": sizes.rounds}
    with tempfile.TemporaryDirectory(prefix="roundhouse-proxy-", dir=args.folder) as name, ExitStack() as stack:
        children = Children(stack, args.model, Path(name))
        line |= asyncio.run(measure(children, args, sizes))
    print(json.dumps(line))
    return 0


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a short run, for the harness itself")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="measure only these parts")
    parser.add_argument(
        "--model", type=Path, help="folder with a tokenizer and chat template (default: the cached one)"
    )
    parser.add_argument("--rounds", type=int, help="times each system is measured")
    parser.add_argument("--tokens", type=int, help="tokens, and chunks, of a stream")
    parser.add_argument("--burst-s", type=float, help="length of a burst round")
    parser.add_argument("--turns", type=int, help="turns of the memory part (100,000 for the target)")
    parser.add_argument("--install-litellm", action="store_true", help=f"install LiteLLM {proxy_litellm.VERSION} first")
    parser.add_argument("--folder", type=Path, help="where to write (default: a temporary folder)")
    args = parser.parse_args()
    if args.model is None:
        found = sorted((Path.home() / ".cache" / "roundhouse").glob("smollm2*/tokenizer.json"))
        if not found:
            parser.error("no model in ~/.cache/roundhouse: `roundhouse demo` fetches one; or give --model DIR")
        args.model = found[0].parent
    args.model = args.model.resolve()
    return args


async def measure(children: Children, args: argparse.Namespace, sizes: Sizes) -> dict[str, object]:
    """The parts asked for."""
    line: dict[str, object] = {}
    seeds = itertools.count(1)
    if {"burst", "paced", "litellm"} & set(args.only):
        systems = {
            "direct": System(children.engine, None),
            "pass_through": children.pass_through(),
            "collector": children.collector("collector"),
        }
        for system in systems.values():
            await burst(system.url, fresh(seeds, sizes), concurrency=4, seconds=0.5, tokens=sizes.tokens)
        bursts: dict[str, Any] = {}
        if "burst" in args.only or "litellm" in args.only:
            line["burst"] = bursts = await burst_rounds(systems, seeds, sizes)
        if "paced" in args.only:
            line["paced"] = await paced_rounds(children.engine, systems, seeds, sizes, args.model)
        if "litellm" in args.only:
            line["litellm"] = await litellm_part(children, args, seeds, sizes, bursts)
    if "memory" in args.only:
        system = children.collector("memory", proxy_memory.SETTINGS)
        assert system.pid is not None
        line["memory"] = await proxy_memory.grow(system.url, system.pid, args.model, sizes.turns)
    return line


def fresh(seeds: Iterator[int], sizes: Sizes) -> Callable[[], bytes]:
    """Requests that are all different."""
    return lambda: http_request(request(next(seeds), sizes.tokens))


class Burst(NamedTuple):
    """One round."""

    streams_s: float
    cpu_ms: float | None
    """Of the proxy's process, for each stream."""


async def one_burst(
    system: System, seeds: Iterator[int], sizes: Sizes, *, concurrency: int, seconds: float | None = None
) -> Burst:
    """Streams as fast as they go."""
    process = None if system.pid is None else psutil.Process(system.pid)
    before, first = _cpu_s(process), next(seeds)
    rate = await burst(
        system.url,
        fresh(seeds, sizes),
        concurrency=concurrency,
        seconds=sizes.burst_s if seconds is None else seconds,
        tokens=sizes.tokens,
    )
    count = next(seeds) - first - 1
    return Burst(rate, None if process is None else 1e3 * (_cpu_s(process) - before) / count)


def _cpu_s(process: psutil.Process | None) -> float:
    if process is None:
        return 0.0
    times = process.cpu_times()
    return times.user + times.system


async def burst_rounds(systems: dict[str, System], seeds: Iterator[int], sizes: Sizes) -> dict[str, Any]:
    """Each system in turn, at each concurrency."""
    line: dict[str, Any] = {}
    for concurrency in CONCURRENCIES:
        rounds: dict[str, list[Burst]] = {name: [] for name in systems}
        for number in range(sizes.rounds):
            for name, system in systems.items():
                rounds[name].append(await one_burst(system, seeds, sizes, concurrency=concurrency))
            rates = ", ".join(f"{name} {runs[-1].streams_s:.0f}" for name, runs in rounds.items())
            say(f"burst at {concurrency}, round {number + 1}: streams/s {rates}")
        ratios = [
            ours.streams_s / theirs.streams_s
            for ours, theirs in zip(rounds["collector"], rounds["pass_through"], strict=True)
        ]
        line[f"c{concurrency}"] = {
            **{name: _burst_line(runs) for name, runs in rounds.items()},
            "of_pass_through": round(statistics.median(ratios), 3),
            "of_pass_through_range": [round(min(ratios), 3), round(max(ratios), 3)],
        }
    return line


def _burst_line(runs: list[Burst]) -> dict[str, Any]:
    cpu = [run.cpu_ms for run in runs if run.cpu_ms is not None]
    line: dict[str, Any] = {"streams_s": round(statistics.median(run.streams_s for run in runs), 2)}
    return line | ({"cpu_ms_a_stream": round(statistics.median(cpu), 3)} if cpu else {})


async def one_paced(
    engine: str, system: System, seeds: Iterator[int], sizes: Sizes, model: Path
) -> dict[str, dict[str, float]]:
    """32 streams at a steady pace."""
    requests = {seed: http_request(request(seed, sizes.tokens)) for seed in itertools.islice(seeds, STREAMS)}
    pieces = [piece.text for piece in reply(model, sizes.tokens)]
    found = await paced(system.url, engine, requests, interval_s=INTERVAL_S, pieces=pieces)
    return {name: _percentiles_ms(getattr(found, name)) for name in Latencies._fields}


def _percentiles_ms(seconds: np.ndarray) -> dict[str, float]:
    p50, p99 = np.percentile(seconds, [50, 99]) * 1e3
    return {"p50_ms": float(p50), "p99_ms": float(p99)}


async def paced_rounds(
    engine: str, systems: dict[str, System], seeds: Iterator[int], sizes: Sizes, model: Path
) -> dict[str, Any]:
    """Each system in turn."""
    rounds: dict[str, list[dict[str, dict[str, float]]]] = {name: [] for name in systems}
    for number in range(sizes.rounds):
        for name, system in systems.items():
            rounds[name].append(await one_paced(engine, system, seeds, sizes, model))
        words = ", ".join(
            f"{name} {runs[-1]['chunk']['p50_ms']:.2f}/{runs[-1]['chunk']['p99_ms']:.2f}"
            for name, runs in rounds.items()
        )
        say(f"paced, round {number + 1}: ms p50/p99 {words}")
    line: dict[str, Any] = {"streams": STREAMS, "interval_ms": INTERVAL_S * 1e3}
    for name, runs in rounds.items():
        line[name] = {kind: _medians(runs, kind) for kind in Latencies._fields}
    for name in ("pass_through", "collector"):
        pairs = list(zip(rounds[name], rounds["direct"], strict=True))
        line[f"added_by_{name}"] = {
            key: round(statistics.median(one["chunk"][key] - other["chunk"][key] for one, other in pairs), 3)
            for key in ("p50_ms", "p99_ms")
        }
    return line


def _medians(runs: list[dict[str, dict[str, float]]], kind: str) -> dict[str, float]:
    return {key: round(statistics.median(run[kind][key] for run in runs), 3) for key in ("p50_ms", "p99_ms")}


async def litellm_part(
    children: Children, args: argparse.Namespace, seeds: Iterator[int], sizes: Sizes, bursts: dict[str, Any]
) -> dict[str, Any]:
    """LiteLLM's rates, and how many times ours they are contained in; skipped where it is not installed."""
    if args.install_litellm and proxy_litellm.find() is None:
        say(f"installing LiteLLM {proxy_litellm.VERSION}")
        proxy_litellm.install()
    command = proxy_litellm.find()
    if command is None:
        return {"skipped": f"LiteLLM {proxy_litellm.VERSION} is not installed; --install-litellm installs it"}
    system = children.litellm(command)
    line: dict[str, Any] = {"version": proxy_litellm.VERSION}
    await burst(system.url, fresh(seeds, sizes), concurrency=2, seconds=0.0, tokens=sizes.tokens)
    for concurrency in CONCURRENCIES:
        runs = [await one_burst(system, seeds, sizes, concurrency=concurrency) for _ in range(min(2, sizes.rounds))]
        rate = statistics.median(run.streams_s for run in runs)
        say(f"litellm at {concurrency}: streams/s {rate:.2f}")
        ours = bursts[f"c{concurrency}"]["collector"]["streams_s"]
        line[f"c{concurrency}"] = {**_burst_line(runs), "collector_is_times": round(ours / rate, 1)}
    if "paced" in args.only:
        one = await one_paced(children.engine, system, seeds, sizes, args.model)
        line["paced"] = {kind: {key: round(value, 3) for key, value in found.items()} for kind, found in one.items()}
    return line


if __name__ == "__main__":
    sys.exit(main())
