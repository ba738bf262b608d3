"""Run the whole loop on a small model: agents, engine, collector, feedback, cycles, and what came of it.

Agents write files as they are told; a user says of each try whether it was right; from that the trainer makes new
versions, and those that pass the gate are swapped in while everything runs. With --turns no cycle runs: a file-editing
agent with tools is captured, and that is all.
"""

import argparse
from pathlib import Path

MINUTES = 8.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument("--store", type=Path, default=Path("store"), metavar="DIR", help="where to record (./store)")
    parser.add_argument("--turns", type=int, metavar="N", help="stop after N turns, and run no cycle")
    parser.add_argument(
        "--minutes", type=float, default=MINUTES, metavar="M", help="begin nothing after M minutes (%(default)s)"
    )
    parser.add_argument(
        "--sabotage",
        choices=("reward",),
        help="from the second cycle on the user says the opposite of what is true; the gate is to refuse the result",
    )
    parser.add_argument("--plain", action="store_true", help="plain lines instead of a live display")
    parser.add_argument("--model", type=Path, metavar="DIR", help="another model than SmolLM2-135M-Instruct")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="which tasks to work on (%(default)s)")


def run(args: argparse.Namespace) -> int:
    """Runs the demo; 0 only if it did what it should."""
    from collector.errors import UserError

    if args.turns is not None and args.turns < 1:
        raise UserError(f"--turns is {args.turns}, expected 1 or more")
    if args.turns is not None and args.sabotage is not None:
        raise UserError("--turns and --sabotage are both given; with --turns no cycle runs that could be sabotaged")
    if not 0 < args.minutes < 10_000:
        raise UserError(f"--minutes is {args.minutes}, expected more than 0")
    if args.model is not None and not (args.model / "tokenizer.json").is_file():
        raise UserError(f"--model {args.model} has no tokenizer.json; give the folder of a Hugging Face model")

    from console.demo.options import Options
    from console.demo.run import run_demo

    options = Options(args.store, args.turns, args.minutes, args.plain, args.model, args.seed, args.sabotage)
    return run_demo(options)
