"""The drill: a running loop into which one fault at a time is put, and who catches it.

A loop is a tiny random model on an embedded engine, a proxy before it that does the wrong, a collector, a store, and
`roundhouse train --once --json` over it. Where nothing is wrong the same traffic is routed (`test_served_weights`,
`test_rewards`); of each fault the tests say who caught it, what the cycle said, that no route changed, and what a new
session is served by.

| fault                                      | caught by                                             | ends as         |
| ------------------------------------------ | ----------------------------------------------------- | --------------- |
| adapter not applied                        | proof; served-adapter: base_model_served              | refuted, 1      |
| previous version under the new name        | proof; served-adapter: previous_version_served        | refuted, 1      |
| prefix that the old version computed       | proof, by its second probe alone; served-adapter      | refuted, 1      |
| engine hides whether it used its cache     | proof: no cached prefix was used                      | undecided, 1    |
| temperature ignored, or not in log-probs   | gate: importance-weight, unscaled_temperature         | refused, 1      |
| temperature ignored in the proof too       | proof, by its second probe (at T = 0.8)               | refuted, 1      |
| zeros in place of log-probs, one or many   | gate: importance-weight, zero_padded                  | refused, 1      |
| grader passes everything, or crashes       | its trial before the evaluation, with the task        | failed, 1       |
| grader crashes on real replies             | gate: evaluation, no_data                             | inconclusive, 0 |
| grader gives every reply one score below 1 | gate: evaluation                                      | inconclusive, 0 |
| feedback turned round                      | gate: score against live                              | refused, 1      |
| one session alone                          | funnel: no_baseline                                   | nothing_new, 0  |
| all rewards of a group equal               | funnel: zero_variance                                 | nothing_new, 0  |
| engine hangs: load                         | load_limit_s; the next cycle takes the candidate up   | failed, 1       |
| engine hangs: proof                        | prove_limit_s                                         | undecided, 1    |
| engine hangs: unload                       | unload_limit_s; left behind, tried by the next cycle  | routed, 0       |
| engine hangs: listing its adapters         | load_limit_s; no cycle begins                         | exit 2          |
| trainer killed between proof and route     | the next cycle: proved anew before anything is routed | as proved       |

Not caught: a grader that passes every reply but the empty one. Nothing but replies known to be bad tells it from a task
that every version solves: give `known_bad`.
"""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from checks.finding import Finding
from checks.readers.store_window import StoreWindow, Window
from checks.suite import run, select_checks
from collector.store.reader import Reader
from tests.drill.faulty_engine import Fault, faulty
from tests.drill.plant import Cycle, Spoken, ascii_share, collecting, rows, speak, train
from tests.drill.settings import write_settings
from tests.trainer.engine.loopback import Served, serving
from trainer.engine_config import EngineConfig

FaultOf = Callable[[Served], Fault]


class Loop(NamedTuple):
    """The loop, under one roof."""

    store: Path
    model: Path
    settings: Path
    served: Served
    engine: str
    """The engine as collector and trainer see it: with its fault."""
    collector: str

    def train(self, settings: Path | None = None, *, engine: str | None = None) -> Cycle:
        """One cycle."""
        return train(self.store, model=self.model, settings=settings or self.settings, engine=engine or self.engine)

    def speak(self, *, seed: int, sessions: int = 64) -> list[Spoken]:
        """New sessions, judged by their users."""
        return speak(self.collector, sessions, seed=seed, judge=ascii_share)

    def next_session(self, seed: int = 7) -> str | None:
        """The version that a new session is recorded with; None is the base model."""
        [spoken] = speak(self.collector, 1, seed=seed, judge=None)
        [turn] = [row for row in rows(self.store, "turns") if row["session_id"] == spoken.session]
        return f"{turn['adapter']}@{turn['adapter_version']}" if turn["adapter_version"] else None

    def last_proof(self) -> dict[str, Any]:
        """All that the last proof says."""
        return [row["detail"] for row in rows(self.store, "events") if row["kind"] == "proof"][-1]

    def found_by(self, check: str) -> Finding:
        """What `roundhouse check` says of the store."""
        with Reader(self.store).snapshot() as snapshot:
            log = StoreWindow(self.store, Window(turns=4096)).log(snapshot, datetime.now(UTC))
            [finding] = run(log, checks=select_checks([check])).findings
        return finding


@contextmanager
def opened(
    captured: Path, folder: Path, *, model: Path, fault: FaultOf = lambda _: Fault(), settings: Path | None = None
) -> Iterator[Loop]:
    """A loop over a copy of what was captured."""
    store = shutil.copytree(captured, folder / "store")
    chosen = settings or write_settings(folder / "settings")
    with (
        serving(EngineConfig(model=str(model))) as served,
        faulty(served.url, fault(served)) as engine,
        collecting(store, model=model, engine=engine) as collector,
    ):
        yield Loop(store, model, chosen, served, engine, collector)
