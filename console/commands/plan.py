"""Says what a loop will need and where it will wait, from a model's config.json and a workload."""

import argparse
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from collector.errors import UserError

if TYPE_CHECKING:
    from trainer.plan.sheet import PlanInput
    from trainer.plan.workload import Compaction, Workload

LENGTH_FLAGS = {
    "prompt_tokens": "prompt",
    "turns": "turns",
    "action_tokens": "action",
    "observation_tokens": "observation",
    "length_spread": "length_spread",
}
"""Flags that say what a rollout looks like, and the argument of the assumed workload each one sets."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument("--model", type=Path, required=True, metavar="PATH", help="config.json, or the folder with one")
    parser.add_argument(
        "--device", default="h100", help="accelerator by name (default h100); an unknown name lists them"
    )
    parser.add_argument("--devices", type=int, default=8, metavar="N", help="how many of them (default 8)")
    parser.add_argument("--json", action="store_true", help="print the sheet as one JSON object")
    parser.add_argument("--seed", type=int, default=0, help="for drawn lengths and simulated lags (default 0)")
    _add_workload(parser.add_argument_group("workload of one optimizer step"))
    _add_training(parser.add_argument_group("training and publishing"))
    _add_efficiency(parser.add_argument_group("engine and efficiency"))


def run(args: argparse.Namespace) -> int:
    """Prints the sheet."""
    import msgspec

    from console.plan_text import render_sheet
    from trainer.plan.compose import make_sheet

    try:
        sheet = make_sheet(_plan_input(args))
    except ValueError as error:
        raise UserError(str(error)) from error
    if args.json:
        print(json.dumps(msgspec.to_builtins(sheet), allow_nan=False))
    else:
        print(render_sheet(sheet, width=max(60, min(120, shutil.get_terminal_size().columns))))
    return 0


def _add_workload(group: argparse._ArgumentGroup) -> None:  # pyright: ignore[reportPrivateUsage]
    group.add_argument("--tasks", type=int, default=8, metavar="N", help="tasks (default 8)")
    group.add_argument("--group-size", type=int, default=8, metavar="N", help="rollouts of each task (default 8)")
    group.add_argument(
        "--store", type=Path, metavar="DIR", help="take lengths, waits and sharing from a captured store"
    )
    group.add_argument("--prompt-tokens", type=int, metavar="N", help="task prompt (default 2000)")
    group.add_argument("--turns", type=int, metavar="N", help="calls a rollout makes (default 4)")
    group.add_argument("--action-tokens", type=int, metavar="N", help="sampled in each call (default 200)")
    group.add_argument("--observation-tokens", type=int, metavar="N", help="returned after each call (default 1500)")
    group.add_argument(
        "--length-spread",
        type=float,
        metavar="X",
        help="standard deviation of action lengths over their mean (default 0.5)",
    )
    group.add_argument("--compact-every", type=int, metavar="N", help="replace history by a summary every N calls")
    group.add_argument("--summary-tokens", type=int, metavar="N", help="length of that summary (default 300)")
    group.add_argument(
        "--tool-s", type=float, metavar="S", help="wait between calls (default 2, or the store's median)"
    )
    group.add_argument("--max-tokens", type=int, default=32_768, metavar="N", help="longest context (default 32768)")


def _add_training(group: argparse._ArgumentGroup) -> None:  # pyright: ignore[reportPrivateUsage]
    how = group.add_mutually_exclusive_group()
    how.add_argument("--lora-rank", type=int, default=32, metavar="R", help="rank of the trained adapter (default 32)")
    how.add_argument("--full", action="store_true", help="train every parameter instead of an adapter")
    group.add_argument("--microbatch-tokens", type=int, default=40_000, metavar="N", help="budget (default 40000)")
    group.add_argument("--pipeline-stages", type=int, default=1, metavar="N", help="stages of the trainer (default 1)")
    group.add_argument("--learning-rate", type=float, default=3e-6, metavar="X", help="size of a step (default 3e-6)")
    group.add_argument("--changed-share", type=float, default=0.01, metavar="X", help="of bf16 weights (default 0.01)")
    group.add_argument("--link-gb-s", type=float, default=12.5, metavar="X", help="to each engine (default 12.5)")


def _add_efficiency(group: argparse._ArgumentGroup) -> None:  # pyright: ignore[reportPrivateUsage]
    group.add_argument("--draft-tokens", type=int, metavar="N", help="speculative drafts a pass; needs --acceptance")
    group.add_argument("--acceptance", type=float, metavar="X", help="probability that a draft is kept")
    group.add_argument("--mfu", type=float, default=0.4, metavar="X", help="of peak arithmetic (default 0.4)")
    group.add_argument(
        "--bandwidth-share", type=float, default=0.6, metavar="X", help="of peak bandwidth (default 0.6)"
    )
    group.add_argument("--memory-share", type=float, default=0.9, metavar="X", help="of memory, usable (default 0.9)")


def _plan_input(args: argparse.Namespace) -> "PlanInput":
    from trainer.plan.devices import DEVICES
    from trainer.plan.model_shape import read_model_shape
    from trainer.plan.rollout_time import Drafting, Efficiency
    from trainer.plan.sheet import PlanInput
    from trainer.plan.update_time import Training

    if args.device not in DEVICES:
        raise UserError(f"--device is {args.device!r}, expected one of {', '.join(DEVICES)}")
    if (args.draft_tokens is None) != (args.acceptance is None):
        raise UserError("--draft-tokens and --acceptance go together: give both, or neither for ordinary decoding")
    compaction = _compaction(args)
    path = args.model.resolve()
    return PlanInput(
        model=path.name if path.is_dir() else path.parent.name,
        shape=read_model_shape(args.model),
        device=DEVICES[args.device],
        devices=args.devices,
        workload=_workload(args, compaction),
        appended=_workload(args, None) if compaction else None,
        training=Training(
            lora_rank=None if args.full else args.lora_rank,
            microbatch_tokens=args.microbatch_tokens,
            pipeline_stages=args.pipeline_stages,
        ),
        efficiency=Efficiency(mfu=args.mfu, bandwidth_share=args.bandwidth_share, memory_share=args.memory_share),
        drafting=Drafting() if args.draft_tokens is None else Drafting(args.draft_tokens, args.acceptance),
        max_tokens=args.max_tokens,
        link_bytes_per_s=args.link_gb_s * 1e9,
        changed_share=args.changed_share,
        learning_rate=args.learning_rate,
        seed=args.seed,
    )


def _compaction(args: argparse.Namespace) -> "Compaction | None":
    from trainer.plan.workload import Compaction

    if args.compact_every is None:
        if args.summary_tokens is not None:
            raise UserError("--summary-tokens is the length of a compaction's summary: give --compact-every too")
        return None
    return Compaction(args.compact_every, 300 if args.summary_tokens is None else args.summary_tokens)


def _workload(args: argparse.Namespace, compaction: "Compaction | None") -> "Workload":
    from trainer.plan.captured import captured_workload
    from trainer.plan.workload import assumed_workload

    given = {name: getattr(args, name) for name in LENGTH_FLAGS if getattr(args, name) is not None}
    if args.store is None:
        named = {LENGTH_FLAGS[name]: value for name, value in given.items()}
        named |= {"tool_wait_s": args.tool_s} if args.tool_s is not None else {}
        return assumed_workload(
            tasks=args.tasks,
            group_size=args.group_size,
            max_tokens=args.max_tokens,
            compaction=compaction,
            seed=args.seed,
            **named,
        )
    if given or compaction:
        flags = ", ".join(
            f"--{name.replace('_', '-')}" for name in [*given, *(["compact_every"] if compaction else [])]
        )
        raise UserError(f"{flags} and --store both say what rollouts look like: give one or the other")
    return captured_workload(args.store, rollouts=args.tasks * args.group_size, seed=args.seed, tool_wait_s=args.tool_s)
