"""Runs the code on its standard input in a process of its own, and tries the function that it should define.

Only ever in the sandbox. The code shares it with this file: it could end the process that it runs in with any status,
so that what counts is what it computes, under a name that it cannot know beforehand.
"""

import json
import secrets
import subprocess
import sys

VALUES = [secrets.randbelow(1000) - 500 for _ in range(5)]
mark = secrets.token_hex(8)
code = sys.stdin.read() + f"\nprint({mark!r}, [double(value) for value in {VALUES}])\n"
done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
said = [line.removeprefix(mark) for line in done.stdout.splitlines() if line.startswith(mark)]
sys.exit(0 if said and json.loads(said[-1]) == [2 * value for value in VALUES] else 1)
