"""A trainer that is killed between proof and route leaves nothing routed; the next one proves anew what it takes up."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.drill.conftest import OpenLoop
from tests.drill.faulty_engine import Fault, Json
from tests.drill.plant import proofs, routed, stages, states, train_words
from tests.drill.whole_loop import Loop
from trainer.publish.proving import probe_rid

ROOT = Path(__file__).parents[2]
PROBE = probe_rid()[:9]


class KillsItsCaller(Fault):
    """The trainer dies as it asks for the first held-out reply; after that the engine may forget the adapter."""

    def __init__(self) -> None:
        self.pid: int | None = None
        self.forgets = False

    async def asked(self, path: str, order: Json) -> None:
        """Nothing reaches the engine of the request that kills."""
        if path != "/generate" or order.get("lora_path") != "bot@1":
            return
        if self.forgets:
            order["lora_path"] = None
        if self.pid is not None and not order["rid"].startswith(PROBE):
            os.kill(self.pid, signal.SIGKILL)
            self.pid = None


def train_and_die(loop: Loop, fault: KillsItsCaller) -> None:
    """One cycle in a process of its own, up to the evaluation."""
    words = train_words(loop.store, model=loop.model, settings=loop.settings, engine=loop.engine)
    command = [sys.executable, "-m", "console", *words]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        fault.pid = child.pid
        out, said = child.communicate(timeout=100)
    assert (child.returncode, out) == (-signal.SIGKILL, b""), said
    assert stages(loop.store)[-1] == "evaluate begun"
    assert proofs(loop.store) == [(1, "proved", "new")]
    assert (routed(loop.store), states(loop.store)) == ([("bot", 0)], ["live", "candidate"])
    assert loop.next_session() is None


@pytest.mark.parametrize(
    "forgets",
    [pytest.param(True, id="the engine forgot it"), pytest.param(False, id="without a fault", marks=pytest.mark.long)],
)
def test_what_an_earlier_process_had_proved_is_proved_again(
    over: OpenLoop, captures: dict[str, Path], forgets: bool
) -> None:
    fault = KillsItsCaller()
    with over(captures["healthy"], fault=lambda _: fault) as loop:
        train_and_die(loop, fault)
        fault.forgets = forgets
        cycle = loop.train()
        taken_up, fresh = cycle.said["adapters"]
        assert (taken_up["version"], taken_up["recovered"]) == (1, True)
        if forgets:
            assert (cycle.code, taken_up["ending"]) == (1, "refuted")
            # The traffic waits still: what is made of it anew is served under a name of its own, and proved.
            assert (fresh["ending"], fresh["version"], fresh["parent"]) == ("routed", 2, 0), fresh["reason"]
            assert proofs(loop.store)[1:] == [(1, "refuted", "base"), (2, "proved", "new")]
            assert states(loop.store) == ["retired", "rejected", "live"]
            assert loop.next_session(seed=8) == "bot@2"
        else:
            assert (cycle.code, taken_up["ending"], fresh["ending"]) == (0, "routed", "nothing_new")
            assert proofs(loop.store) == [(1, "proved", "new")] * 2
            assert loop.next_session(seed=8) == "bot@1"
