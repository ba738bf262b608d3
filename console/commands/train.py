"""Turn captured traffic with feedback into the next version of each adapter, prove it, judge it, and route to it.

One cycle: collect what is new, train every adapter in one step after another, register a candidate, load it on the
engines, prove that they serve what was trained, evaluate it on held-out suites, let the gate decide, route new sessions
to it, drain and unload the version before. A cycle that is cut short is finished or undone by the next one.
"""

import argparse
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from console.stop_with_stdin import add_stop_with_stdin, watch_stdin

if TYPE_CHECKING:
    from trainer.config import TrainerConfig

EXIT_CODES = """
exit codes: 0 every adapter ended as it should (a new version is routed, nothing was new, or it waits: held or
inconclusive); 1 a version was refused by the gate or not proved, or a stage failed; 2 the call or its input cannot be
used; 130 it was told to stop, which is how a trainer with a schedule ends: the first signal ends it between two steps,
a second one at once.

torchrun --nproc-per-node N -m console train ... cuts the base model over N processes of this command; the first one
does everything else, and says everything.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EXIT_CODES
    parser.add_argument("--store", type=Path, default=Path("store"), metavar="DIR", help="what to train on (./store)")
    when = parser.add_argument_group(
        "when", "Without any of these, as [trainer.schedule] says, and once if that is empty."
    )
    when.add_argument("--once", action="store_true", help="one cycle now, whatever the schedule says")
    when.add_argument("--every", metavar="D", help="one cycle every D, as in 30m, 5h, 1d; a missed one is run once")
    when.add_argument("--min-feedback", type=int, metavar="N", help="one as soon as N feedback records are new")
    what = parser.add_argument_group("what")
    what.add_argument(
        "--adapter", action="append", default=[], metavar="NAME", help="only this one of [trainer.adapters]; repeat"
    )
    what.add_argument(
        "--engine", action="append", default=[], metavar="URL", help="an engine worker to publish to; repeat for more"
    )
    what.add_argument("--model", help="folder of the base model (default: [engine] model, smollm2-135m)")
    what.add_argument("--dry-run", action="store_true", help="say what would be trained and why, and change nothing")
    shown = parser.add_argument_group("output")
    shown.add_argument("--json", action="store_true", help="one JSON object per cycle on stdout")
    shown.add_argument("--plain", action="store_true", help="plain lines, on a terminal too")
    parser.add_argument("--config", type=Path, metavar="FILE", help="settings (./roundhouse.toml if there)")
    add_stop_with_stdin(parser)


def run(args: argparse.Namespace) -> int:
    """Runs cycles; the exit code of the only one, or 130 when it was told to stop."""
    from console.config import launch

    if launch().rank:
        return _follow(args)
    if args.stop_with_stdin:
        watch_stdin()
    from collector.errors import UserError
    from collector.store.layout import existing_store
    from console.config import load_config
    from trainer.cycle.schedule import schedule_of

    if args.once and (args.every is not None or args.min_feedback is not None):
        raise UserError("--once and a schedule are both given; leave out --once, or --every and --min-feedback")
    if args.min_feedback is not None and args.min_feedback < 1:
        raise UserError(f"--min-feedback is {args.min_feedback}, expected 1 or more")
    whole = load_config(args.config, say=_say)
    names = _names(whole.trainer, args.adapter)
    schedule = schedule_of(whole.trainer.schedule, every=args.every, min_feedback=args.min_feedback)
    existing_store(args.store)
    if args.dry_run:
        from console.train.dry_run import dry_run

        return dry_run(args.store, whole.trainer, names, schedule, as_json=args.json)
    from console.train.session import train

    return train(args, whole, names, None if args.once or not schedule.repeats else schedule)


def _follow(args: argparse.Namespace) -> int:
    """One of the processes that torchrun started beside the first, which says what goes wrong, in settings too."""
    from collector.errors import UserError
    from console.config import load_config

    if args.dry_run:
        return 0
    # The first process ends by itself; one that has not met it yet has nothing to leave behind.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        config = load_config(args.config).trainer
    except UserError:
        return 2
    from trainer.cycle.follower import follow

    return follow(args.store, config)


def _names(config: "TrainerConfig", asked: list[str]) -> tuple[str, ...]:
    """The adapters to train, in the file's order."""
    from collector.errors import UserError

    if not config.adapters:
        raise UserError(
            "no adapter is configured; add three lines to roundhouse.toml: "
            '[trainer.adapters.my-bot]  /  tenant = "dev"  /  rank = 16   '
            "(dev is the tenant of a collector without keys)"
        )
    for name in asked:
        if name not in config.adapters:
            raise UserError(f"--adapter is {name!r}, expected one of {', '.join(config.adapters)} ([trainer.adapters])")
    return tuple(name for name in config.adapters if not asked or name in asked)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
