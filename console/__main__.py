"""`python -m console`: the same as the `roundhouse` command, for child processes and for torchrun."""

import sys
from typing import NoReturn

from console.cli import main


def run() -> NoReturn:
    """One command, and the end of its process."""
    code = main()
    from console.config import by_torchrun

    if by_torchrun():
        from trainer.ranks import end_process

        end_process(code)
    sys.exit(code)


run()
