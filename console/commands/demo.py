"""Run engine, collector and a small coding agent on a small model, and show what was captured."""

import argparse
from pathlib import Path

TURNS = 80
MINUTES = 3.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument("--store", type=Path, default=Path("store"), metavar="DIR", help="where to record (./store)")
    parser.add_argument("--turns", type=int, default=TURNS, metavar="N", help="stop after N turns (%(default)s)")
    parser.add_argument(
        "--minutes", type=float, default=MINUTES, metavar="M", help="or after M minutes of work (%(default)s)"
    )
    parser.add_argument("--plain", action="store_true", help="plain lines instead of a live display")
    parser.add_argument("--model", type=Path, metavar="DIR", help="another model than SmolLM2-135M-Instruct")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="which tasks to work on (%(default)s)")


def run(args: argparse.Namespace) -> int:
    """Runs the demo; 0 only if it did what it should."""
    from collector.errors import UserError

    if args.turns < 1:
        raise UserError(f"--turns is {args.turns}, expected 1 or more")
    if not 0 < args.minutes < 10_000:
        raise UserError(f"--minutes is {args.minutes}, expected more than 0")
    if args.model is not None and not (args.model / "tokenizer.json").is_file():
        raise UserError(f"--model {args.model} has no tokenizer.json; give the folder of a Hugging Face model")

    from console.demo.run import Options, run_demo

    return run_demo(Options(args.store, args.turns, args.minutes, args.plain, args.model, args.seed))
