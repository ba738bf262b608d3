"""The whole loop as a user runs it: what can be learnt is learnt, what lies is refused, and nothing is left behind."""

import re
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import torch

from collector.store.reader import Reader
from collector.store.registry_rows import read_registry
from collector.store.verify import verify
from tests.console.watch.opened_store import console, pane, pressed
from tests.console.watch.screen_text import screen_text
from trainer.tiny_model import write_tiny_model


def demo(store: Path, *arguments: str, limit_s: float) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "console", "demo", "--plain", "--store", str(store), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=limit_s)


def states(store: Path) -> list[str]:
    return [version.state for version in read_registry(store).versions if version.adapter == "demo"]


@pytest.mark.timeout(300)
def test_a_model_that_learns_nothing_gives_no_version_and_the_demo_says_so(tmp_path: Path) -> None:
    torch.set_num_threads(1)
    model = write_tiny_model(tmp_path / "tiny-model", context=4096)
    store = tmp_path / "store"
    ran = demo(store, "--model", str(model), "--minutes", "0.01", limit_s=250)
    assert (ran.returncode, ran.stderr) == (2, "roundhouse demo: no version passed the gate\n")
    assert "cycle 1: traffic 0 of 128 as asked\n  demo nothing new" in ran.stdout
    assert "held-out: no version but the first was live" in ran.stdout
    assert "signals, at step 0" in ran.stdout
    assert f"roundhouse adapters show demo --store {store}" in ran.stdout
    assert states(store) == ["live"]
    assert verify(store).clean
    lines = [" ".join(process.info["cmdline"] or []) for process in psutil.process_iter(["cmdline"])]
    assert not [line for line in lines if str(store) in line]


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_the_held_out_score_rises_beyond_its_interval(tmp_path: Path) -> None:
    store = tmp_path / "store"
    ran = demo(store, limit_s=3500)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert re.search(r"gain .*: it rose beyond the interval", ran.stdout)
    assert "live" in states(store)[1:]
    with Reader(store).snapshot(["turns", "steps", "evals"]) as snapshot:
        turns, steps, evals = (snapshot.frame(name) for name in ("turns", "steps", "evals"))
    served = turns.filter(turns["purpose"] == "traffic")["adapter_version"].fill_null(0)
    assert served.n_unique() > 1
    assert steps["max_w"].is_not_null().all()
    exam = evals.filter(evals["suite"] == "exam")
    before, after = (exam.filter(exam["version"] == version)["score"] for version in (0, exam["version"].max()))
    assert (before.len(), after.len()) == (96, 96)
    assert after.sum() > before.sum() + 20
    assert verify(store).clean


@pytest.mark.long
@pytest.mark.timeout(3600)
async def test_what_learns_from_inverted_feedback_is_refused_and_the_console_shows_why(tmp_path: Path) -> None:
    store = tmp_path / "store"
    ran = demo(store, "--sabotage", "reward", limit_s=3500)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "and the user said the opposite\n  demo@2 refused; gate refuse" in ran.stdout
    assert states(store) == ["retired", "live", "rejected"]
    await console_shows_the_fault(store)


async def console_shows_the_fault(store: Path) -> None:
    """The first screen names what fell, and one key leads to a token that the refused version learned."""
    async with console(store) as pilot:
        line = screen_text(pilot.app).split("\n")[2]
        assert line.startswith(" FIRST MOVER  rew-eval @2–9: held-out 0.")
        assert " by v2, refused ┊ reward 0." in line
        told = pane(await pressed(pilot, "enter"), "credit")
        assert told.startswith("TAUGHT V2, WHICH FELL: reward +1 (accept 1) → advantage +0.")
        assert "→ pushed up by v2; v2 fell on held-out 0." in told
        assert "over 48 tasks and was refused opened for most credit (advantage) of the 128 turns" in told
