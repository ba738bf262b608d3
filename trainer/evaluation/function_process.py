"""A process of its own for one verifier function: started by file, it imports nothing of ours.

In: one line with the path, the function and the time limits, then a line for each reply. Out: `null` once the function
is there, then a line for each verdict, as long as it lasts. A function that raises ends it, and so does one that runs
past its time: the line that is missing says at which reply.
"""

import importlib
import json
import os
import signal
import sys


def main() -> None:
    """Reads replies and writes verdicts."""
    own, order = os.getpid(), json.loads(sys.stdin.readline())
    # What the function prints must not look like a verdict.
    verdicts = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    sys.path[:] = order["path"]
    module, _, name = order["function"].partition(":")
    signal.setitimer(signal.ITIMER_REAL, order["import_limit_s"])
    function = getattr(importlib.import_module(module), name)
    signal.setitimer(signal.ITIMER_REAL, 0)
    verdicts.write("null\n")
    verdicts.flush()
    for line in sys.stdin:
        asked = json.loads(line)
        # Nothing handles the alarm, so that it ends the process even where Python does not get to run.
        signal.setitimer(signal.ITIMER_REAL, order["time_limit_s"])
        score = function(asked["task"], asked["reply"])
        signal.setitimer(signal.ITIMER_REAL, 0)
        if os.getpid() != own:
            # The function forked and came back twice: one verdict is given, by the process that was asked.
            os._exit(0)
        if not isinstance(score, bool | int | float):
            raise TypeError(f"returned {score!r}, expected a bool or a score from 0 to 1")
        verdicts.write(json.dumps(float(score)) + "\n")
        verdicts.flush()


if __name__ == "__main__":
    main()
