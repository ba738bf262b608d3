"""How `python -m console` ends: as Python does, and at once among the processes of torchrun."""

import os
import subprocess
import sys

import pytest

SCRIPT = """
import atexit, runpy, sys
atexit.register(print, "the interpreter ends")
print("begun", end=" ")
sys.argv = ["roundhouse", "no-such-command"]
runpy.run_module("console", run_name="__main__")
"""


@pytest.mark.parametrize(
    ("launched", "said"),
    [({}, "begun the interpreter ends\n"), ({"TORCHELASTIC_RUN_ID": "none", "RANK": "0", "WORLD_SIZE": "1"}, "begun ")],
    ids=["alone", "by torchrun"],
)
def test_a_process_of_torchrun_ends_with_its_code_and_without_the_interpreters_own_end(
    launched: dict[str, str], said: str
) -> None:
    # A thread of a process group that lets go of a tensor there would abort it, seldom and by chance.
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=os.environ | launched, capture_output=True, text=True, timeout=60
    )
    assert (ended.returncode, ended.stdout) == (2, said)
    assert "no command 'no-such-command'" in ended.stderr
