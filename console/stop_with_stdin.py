"""`--stop-with-stdin`: a server that ends with whoever holds the other end of its standard input."""

import argparse
import os
import signal
import threading
import time

AGAIN_S = 60.0
"""How long a stop may take before it is asked for again; a signal between two handlers is lost."""


def add_stop_with_stdin(parser: argparse.ArgumentParser) -> None:
    """Declares the flag."""
    parser.add_argument(
        "--stop-with-stdin",
        action="store_true",
        help="stop, as on SIGTERM, once standard input ends: give a pipe, and the server ends when its owner does",
    )


def watch_stdin() -> None:
    """From now on this process gets SIGTERM once its standard input ends."""
    threading.Thread(target=_wait_and_stop, name="stop-with-stdin", daemon=True).start()


def _wait_and_stop() -> None:
    try:
        while os.read(0, 4096):
            pass
    except OSError:
        # A standard input that cannot be read has no owner either.
        pass
    while True:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(AGAIN_S)
