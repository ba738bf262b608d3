"""Two addresses of one engine process are one worker: the second is said to be one, and left alone."""

from pathlib import Path

import pytest

from collector.engine.wire import GenerateRequest, WorkerLoad
from collector.errors import EngineUnavailable
from collector.fakes import ScriptedEngine, Step
from collector.store.sql import run_query
from collector.workers.engine_load import load_event
from collector.workers.twins import twins
from tests.collector.loopback import until
from tests.collector.workers.plant import URLS, Plant, hello, plant


class Counting(ScriptedEngine):
    """Counts how often it was told to load."""

    loads_asked = 0

    async def load_adapter(self, name: str, path: Path, *, pinned: bool = False) -> None:
        self.loads_asked += 1
        await super().load_adapter(name, path, pinned=pinned)


def served_by(store: Path) -> set[str]:
    """The workers of all turns."""
    with run_query(store, "SELECT DISTINCT worker FROM turn_workers") as result:
        return {row[0] for row in result.rows}


async def found(made: Plant) -> None:
    """Waits until the second address is known to be of the first one's process."""
    await until(lambda: URLS[1] in twins(made.workers))


async def test_turns_go_to_the_address_that_is_listed_first_and_the_other_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    engine = ScriptedEngine(hello)
    engine.busy = [WorkerLoad(num_running_reqs=1, num_waiting_reqs=0)]
    async with plant(tmp_path, engine, engine) as made:
        await found(made)
        for number in range(8):
            assert (await made.ask(f"s{number}"))[0] == 200
        assert served_by(tmp_path) == {URLS[0]}
        first, second = made.fleet.health()
        assert first["fault"] is None
        assert second["fault"] == (
            f"{URLS[1]} is the same engine process as {URLS[0]}: turns go to {URLS[0]} only; remove {URLS[1]} from "
            "[collector] engines or --engine, or start a second engine there"
        )
        await until(lambda: any(str(second["fault"]) in record.getMessage() for record in caplog.records))
        # What it is busy with counts once.
        left = twins(made.workers)
        events = [load_event(worker, left.get(worker.url)) for worker in made.workers]
        assert [event.severity for event in events] == ["info", "warn"]
        assert [event.detail["ranks"] is None for event in events if event.detail is not None] == [False, True]
        assert [budget.worker for budget in made.reconciler.budgets()] == [URLS[0]]
    assert sum(str(second["fault"]) in record.getMessage() for record in caplog.records) == 1


async def test_an_adapter_is_loaded_once_into_a_process_of_two_addresses(tmp_path: Path) -> None:
    engine = Counting(hello)
    async with plant(tmp_path, engine, engine) as made:
        await found(made)
        made.publish(1)
        await until(lambda: engine.loaded)
        await made.prove(0)
        assert (await made.ask("s"))[0] == 200
        assert served_by(tmp_path) == {URLS[0]}
        assert engine.loads_asked == 1
        assert [event["text"].split(" is loaded")[0] for event in made.told("reconcile")] == [
            f"bot@1 was missing on {URLS[0]} and"
        ]


async def test_a_second_engine_that_is_started_at_the_address_is_served_from(tmp_path: Path) -> None:
    engines = ScriptedEngine(hello), ScriptedEngine(hello)
    engines[1].settings = dict(engines[0].settings)
    async with plant(tmp_path, *engines) as made:
        await found(made)
        engines[1].down = "connection refused"
        await until(lambda: made.workers[1].fault)
        engines[1].restart()
        await until(lambda: made.workers[1].process)
        assert twins(made.workers) == {}
        for number in range(24):
            await made.ask(f"s{number}")
        assert min(len(made.asked(0)), len(made.asked(1))) >= 2


async def test_the_other_address_serves_while_the_first_does_not_answer(tmp_path: Path) -> None:
    engines = ScriptedEngine(hello), ScriptedEngine(hello)
    engines[1].settings = dict(engines[0].settings)
    async with plant(tmp_path, *engines) as made:
        await found(made)
        engines[0].down = "connection refused"
        await until(lambda: made.workers[0].fault)
        assert (await made.ask("s"))[0] == 200
        assert len(made.asked(1)) == 1


async def test_a_turn_that_failed_is_not_sent_to_the_same_process_again(tmp_path: Path) -> None:
    def cut(_: GenerateRequest) -> list[Step]:
        return [EngineUnavailable("cut")]

    engine = ScriptedEngine(cut)
    # One look each, so that nothing but the turn itself changes what is known.
    async with plant(tmp_path, engine, engine, look_every_s=60) as made:
        await found(made)
        assert (await made.ask("s"))[0] >= 500
        assert len(engine.requests) == 1
        assert made.fleet.retried_total == 0


async def test_engines_that_do_not_say_which_process_they_are_stay_two_workers(tmp_path: Path) -> None:
    engines = ScriptedEngine(hello), ScriptedEngine(hello)
    for engine in engines:
        engine.settings = {}
    async with plant(tmp_path, *engines) as made:
        await made.settled()
        assert twins(made.workers) == {}
        for number in range(24):
            await made.ask(f"s{number}")
        assert min(len(made.asked(0)), len(made.asked(1))) >= 2
