"""Serve a model over the HTTP interface that the collector samples from: here with torch, or with SGLang."""

import argparse
import sys
from pathlib import Path

from console.stop_with_stdin import add_stop_with_stdin, watch_stdin

DTYPES = ("float32", "bfloat16", "float16")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments; what is not given comes from the file, or is the default named here."""
    parser.add_argument("--config", type=Path, metavar="FILE", help="settings (./roundhouse.toml if there)")
    parser.add_argument("--model", help="folder of a model (default: smollm2-135m, fetched once)")
    parser.add_argument("--served-name", metavar="NAME", help="name that clients use (default: the --model text)")
    parser.add_argument("--host", help="address to listen on (default: 127.0.0.1)")
    parser.add_argument("--port", type=int, help="port to listen on, 0 for a free one (default: 30000)")
    parser.add_argument("--adapter", action="append", default=[], metavar="NAME=FOLDER", help="adapter to load; repeat")
    parser.add_argument("--dtype", choices=DTYPES, help="precision (default: float32; the model's own with SGLang)")
    parser.add_argument("--device", help="torch device (default: cpu, or what SGLang finds)")
    parser.add_argument("--threads", type=int, help="torch threads (default: 1)")
    parser.add_argument("--max-context", type=int, metavar="N", help="most tokens of a prompt and its reply together")
    parser.add_argument("--kv-tokens", type=int, metavar="N", help="most tokens that live requests and cache hold")
    parser.add_argument("--max-running", type=int, metavar="N", help="most requests in a step (default: 16)")
    parser.add_argument("--prefill-chunk", type=int, metavar="N", help="most prompt tokens in a step (default: 128)")
    parser.add_argument("--max-adapters", type=int, metavar="N", help="most loaded adapters (default: 16)")
    parser.add_argument("--ready-file", type=Path, metavar="FILE", help='written when ready: {"url": ..., "pid": ...}')
    parser.add_argument("--sglang", action="store_true", help="launch a real SGLang server instead")
    parser.add_argument("--sglang-python", metavar="FILE", help="interpreter that has sglang (default: this one)")
    add_stop_with_stdin(parser)


def run(args: argparse.Namespace) -> int:
    """Serves until interrupted."""
    if args.stop_with_stdin:
        watch_stdin()
    import msgspec

    from collector.errors import UserError
    from console.config import load_config
    from trainer.engine_config import EngineConfig

    values = msgspec.structs.asdict(load_config(args.config, say=_say).engine)
    values |= {name: value for name, value in vars(args).items() if name in values and value is not None}
    values["adapters"] = values["adapters"] | _adapters(args.adapter)
    try:
        settings = msgspec.convert(values, EngineConfig)
    except msgspec.ValidationError as error:
        raise UserError(_refusal(values, args, str(error))) from error
    if args.sglang:
        from trainer.engine.sglang_launch import launch_sglang

        python = args.sglang_python or sys.executable
        return launch_sglang(settings, python=python, ready_file=args.ready_file, say=_say)
    if args.sglang_python:
        raise UserError("--sglang-python is given without --sglang; add --sglang or leave it out")
    from trainer.engine.serve import serve

    return serve(settings, ready_file=args.ready_file, say=_say)


def _refusal(values: dict[str, object], args: argparse.Namespace, error: str) -> str:
    """msgspec's words, with the flag or key that holds the value, and the value."""
    expected, _, place = error.partition(" - at `$.")
    name = place.rstrip("`")
    if name not in values:
        return error
    flag = f"--{name.replace('_', '-')}" if getattr(args, name, None) is not None else f"[engine] {name}"
    return f"{flag} is {values[name]}, {expected[0].lower()}{expected[1:].replace('`int`', 'a whole number')}"


def _adapters(given: list[str]) -> dict[str, str]:
    from collector.errors import UserError

    adapters: dict[str, str] = {}
    for text in given:
        name, _, folder = text.partition("=")
        if not (name and folder) or name in adapters:
            raise UserError(f"--adapter is {text!r}, expected NAME=FOLDER with a name of its own")
        adapters[name] = folder
    return adapters


def _say(line: str) -> None:
    print(line, file=sys.stderr if line.startswith(("loading", "settings")) else sys.stdout, flush=True)
