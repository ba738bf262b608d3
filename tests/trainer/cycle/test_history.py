"""What the store says of earlier cycles, before and after a restart, and which feedback is new."""

from datetime import UTC, datetime
from pathlib import Path

from collector.store.reader import Reader
from collector.store.writer import Writer
from tests.trainer.cycle.scripted import Site, feedback
from trainer.cycle.cycle import run_cycle
from trainer.cycle.cycle_log import CycleLog
from trainer.cycle.history import TABLES, History
from trainer.cycle.schedule import Past


def look(store: Path, history: History) -> Past:
    with Reader(store).snapshot(TABLES) as snapshot:
        return history.look(snapshot)


def post(store: Path, tenant: str, *names: str) -> None:
    with Writer(store, "collector") as writer:
        for record in feedback(tenant, *names):
            writer.append(record).result(10)


def test_feedback_counts_from_the_last_cycle_on_and_only_of_the_tenants_trained_for(tmp_path: Path):
    post(tmp_path, "acme", "a", "b")
    post(tmp_path, "stranger", "c")
    with Site(tmp_path, {"bot": "acme"}) as site:
        history = site.setting.history
        assert look(tmp_path, history) == Past(None, True, 2)
        run_cycle(site.setting, "asked for")
        assert look(tmp_path, history).new_feedback == 0
        post(tmp_path, "acme", "d")
        post(tmp_path, "stranger", "e")
        assert look(tmp_path, history).new_feedback == 1
        # Looking again counts nothing twice, and a restart comes to the same.
        assert look(tmp_path, history).new_feedback == 1
        fresh = History(["acme"])
        assert look(tmp_path, fresh) == look(tmp_path, history)
        assert fresh.number == 1
        assert look(tmp_path, History(["acme", "stranger"])).new_feedback == 2


def test_sealed_feedback_counts_as_well(tmp_path: Path):
    post(tmp_path, "acme", "a")
    history = History(["acme"])
    assert look(tmp_path, history).new_feedback == 1
    with Writer(tmp_path, "collector") as writer:
        for record in feedback("acme", "b", "c"):
            writer.append(record).result(10)
        writer.seal()
    assert look(tmp_path, history).new_feedback == 3


def test_a_cycle_that_never_ended_is_known_as_one(tmp_path: Path):
    with Writer(tmp_path, "trainer") as writer:
        log = CycleLog(
            7, lambda record: writer.append(record).result(10) and None, lambda: datetime.now(UTC), actor="t"
        )
        began_at = log.begin("asked for", {"collector": 4})
        history = History(["acme"])
        assert look(tmp_path, history) == Past(began_at, False, 0)
        assert (history.number, history.feedback_seen) == (7, {"collector": 4})
        log.end(())
    assert look(tmp_path, history) == Past(began_at, True, 0)
