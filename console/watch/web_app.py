"""One tab of a browser: the console as `--web` runs it, `python -m console.watch.web_app ARGUMENTS`, read only."""

import argparse
import sys
from collections.abc import Sequence

from collector.errors import UserError
from console.commands import watch
from console.watch.app import run_app
from console.watch.opened import opened_app


def main(words: Sequence[str]) -> int:
    """Runs the console for textual-serve, whose driver stands in for a terminal."""
    parser = argparse.ArgumentParser(prog="roundhouse watch --web")
    watch.add_arguments(parser)
    options = watch.options_of(parser.parse_args(words))
    return run_app(opened_app(options._replace(rw=False)))


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except UserError as error:
        sys.exit(f"roundhouse watch --web: {error}")
