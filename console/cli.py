"""The `roundhouse` command: finds the subcommand by name and imports nothing else."""

import argparse
import difflib
import errno
import importlib
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn, Protocol, TextIO, cast

from collector.errors import UserError
from collector.terminal_text import terminal_safe

COMMANDS = {
    "adapters": "show the adapters of a store, promote them, try, hold and roll them back",
    "check": "find the faults of a rollout log, to the token",
    "collect": "run the collector between agents and an engine",
    "demo": "run engine, collector and a small agent, and show what was captured",
    "doctor": "say whether a model, an engine or a trainer's settings give exact capture",
    "engine": "serve a model for the collector to sample from",
    "explain": "say what a check measures, or list the checks",
    "export": "write a store as a native log or a self-contained DuckDB database",
    "feedback": "post feedback on a turn or a session to a collector",
    "forget": "erase sessions, or all that a user judged, from a store",
    "import": "import traffic that did not pass the collector, as text-only turns",
    "plan": "say what a loop will need and where it will wait",
    "sql": "query a store with DuckDB SQL",
    "train": "turn captured traffic into the next adapter versions, once or by a schedule",
    "verify": "prove that a store is whole, and set aside what is damaged",
    "watch": "watch a store or a log in the terminal: which signal moved first, and why",
}
"""Subcommand to its one-line help; `console.commands.<name>` implements it."""
_UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""What a disk answers that takes no more."""


class Command(Protocol):
    """What a module under `console.commands` offers."""

    __doc__: str | None

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declares the command's arguments."""
        ...

    def run(self, args: argparse.Namespace) -> int:
        """Does the work and returns the exit code."""
        ...


class OneLineParser(argparse.ArgumentParser):
    """Says what is wrong with a call in one line, as every other error is said."""

    def error(self, message: str) -> NoReturn:
        """Refuses the call."""
        raise UserError(f"{message}; {self.prog} --help says what can be given")


def _joined(words: Sequence[str]) -> list[str]:
    """`--at -5m` as `--at=-5m`: argparse takes a time back from now for an option."""
    joined: list[str] = []
    for word in words:
        if joined and re.fullmatch(r"-\d+[smhd]", word) and re.fullmatch(r"--[a-z-]+", joined[-1]):
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one subcommand; returns 0, its own verdict, or 2 for input or a call that cannot be used."""
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or words[0] not in COMMANDS:
        return _no_command(words)
    command = cast(Command, importlib.import_module(f"console.commands.{words[0]}"))
    parser = OneLineParser(prog=f"roundhouse {words[0]}", description=command.__doc__)
    command.add_arguments(parser)
    try:
        code = command.run(parser.parse_args(_joined(words[1:])))
        # Else what cannot be written is found only when Python ends, too late for the exit code.
        if cast(TextIO | None, sys.stdout) is not None:
            sys.stdout.flush()
    except UserError as error:
        print(f"roundhouse {words[0]}: {terminal_safe(str(error))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"roundhouse {words[0]}: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 141
    except OSError as error:
        if error.errno not in _UNWRITABLE:
            raise
        print(f"roundhouse {words[0]}: output cannot be written: {error.strerror}; make room for it", file=sys.stderr)
        with suppress(OSError):  # What is left of it is not tried again when Python ends.
            sys.stdout.close()
        return 2
    return code


def _no_command(words: list[str]) -> int:
    """Help and version; anything else is refused by name."""
    if not words or words[0] in ("-h", "--help", "-V", "--version"):
        _overview().parse_args(words or ["--help"])
    if words[0].startswith("-"):
        said = f"no option {words[0]} before a command, expected --help or --version"
    else:
        near = difflib.get_close_matches(words[0], COMMANDS, n=1)
        said = f"no command {words[0]!r}; {f'did you mean {near[0]}?' if near else 'roundhouse --help lists them'}"
    print(f"roundhouse: {terminal_safe(said)}", file=sys.stderr)
    return 2


def _overview() -> argparse.ArgumentParser:
    lines = "\n".join(f"  {name:<10} {text}" for name, text in COMMANDS.items())
    parser = argparse.ArgumentParser(
        prog="roundhouse",
        description="Online-RL operations console and debugging toolkit for deployed agents.",
        epilog=f"commands:\n{lines}\n\nroundhouse COMMAND --help says more.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("-V", "--version", action="version", version="roundhouse 0.1.0")
    parser.add_argument("command", choices=[*COMMANDS], metavar="COMMAND", help="what to run")
    return parser
