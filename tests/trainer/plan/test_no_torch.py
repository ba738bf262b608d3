"""Holds that planning and the delta codec start without torch, transformers or peft."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
PROBE = """
import importlib, pathlib, sys
names = ["trainer.delta", *("trainer.plan." + path.stem for path in pathlib.Path("trainer/plan").glob("[!_]*.py"))]
for name in names:
    importlib.import_module(name)
print(len(names), sorted({"torch", "transformers", "peft"} & set(sys.modules)))
"""


def test_no_module_of_the_plan_loads_torch() -> None:
    done = subprocess.run([sys.executable, "-c", PROBE], cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    count, _, loaded = done.stdout.partition(" ")
    assert int(count) == 1 + len(list((ROOT / "trainer/plan").glob("[!_]*.py")))
    assert loaded.strip() == "[]"
