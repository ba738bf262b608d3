"""Runs a cycle in a forked child that is killed after its 1st, 2nd, ... durable deed, and then one that is not.

Called with a folder, the verdict that the candidate gets, and the first deed and the step between deeds; prints a JSON
line for each kill: what the child did last, and what the next run made of it.
"""

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from collector.store.registry import Registry
from tests.trainer.cycle.scripted import Site, cycle_events
from trainer.cycle.cycle import run_cycle


class Deeds:
    """Counts what was done, and dies after the one it was told."""

    def __init__(self, last: int | None, note: Path) -> None:
        self._left = last
        self._note = note

    def done(self, what: str) -> None:
        """Another one is durable."""
        if self._left is None:
            return
        self._left -= 1
        if self._left == 0:
            self._note.write_text(what)
            os.kill(os.getpid(), signal.SIGKILL)


def registry_with(point: Callable[[str], None]) -> type[Registry]:
    """A registry that tells of every commit of a change."""

    class Told(Registry):
        @contextmanager
        def _transaction(self) -> Generator[None]:
            before = self._connection.total_changes
            with super()._transaction():
                yield
            if self._connection.total_changes != before:
                point("registry")

    return Told


def in_child(store: Path, verdict: str, sessions: int, last: int | None) -> bool:
    """One cycle in a child; whether it was killed."""
    pid = os.fork()
    if pid == 0:
        try:
            one_cycle(store, verdict, sessions, Deeds(last, store / "last"))
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, "the child failed"
    return os.WIFSIGNALED(status)


def one_cycle(store: Path, verdict: str, sessions: int, deeds: Deeds) -> None:
    with Site(store, {"bot": "acme"}, point=deeds.done, registry=registry_with(deeds.done)) as site:
        site.parts.sessions = {"bot": sessions}
        site.parts.verdicts = {"bot": verdict}
        run_cycle(site.setting, "asked for")
        if not sessions:
            (store / "after").write_text(json.dumps(after(site)))


def after(site: Site) -> dict[str, Any]:
    """What a run that had nothing to train on leaves."""
    events = cycle_events(site.store)
    return {
        "states": site.states("bot"),
        "routed": site.routed("acme"),
        "engine": site.parts.engine,
        "cycles": [row["detail"]["cycle"] for row in events if row["detail"]["stage"] == "begin"],
        "last": events[-1]["detail"]["stage"],
        "endings": [
            row["detail"]["ending"] for row in events if row["detail"]["state"] == "ended" and row["version"] == 2
        ],
    }


def main(folder: Path, verdict: str, first: int, step: int) -> None:
    assert not in_child(folder / "before", "pass", 1, None)
    for last in range(first, 10_000, step):
        store = shutil.copytree(folder / "before", folder / f"killed-{last}")
        if not in_child(store, verdict, 1, last):
            break
        assert not in_child(store, verdict, 0, None)
        found = json.loads((store / "after").read_text())
        print(json.dumps({"killed_after": (store / "last").read_text(), **found}), flush=True)
        shutil.rmtree(store)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
