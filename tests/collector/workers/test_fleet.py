"""Sessions stay with one engine worker for its prefix cache, leave it when it dies, and nothing is sampled twice."""

import asyncio
from pathlib import Path

import pytest

from collector.engine.wire import Finish, WorkerLoad
from collector.errors import EngineError, EngineUnavailable
from collector.fakes import Pause, ScriptedEngine, deltas
from collector.ports import Target
from collector.refusal import Refusal
from collector.store.sql import run_query
from tests.collector.loopback import until
from tests.collector.workers.plant import URLS, hello, plant


def served_by(store: Path) -> list[tuple[str, int, str | None]]:
    """Session, turn and worker of every turn."""
    with run_query(store, "SELECT session_id, turn, worker FROM turn_workers ORDER BY ALL") as result:
        return list(result.rows)  # type: ignore[arg-type]


async def test_a_session_stays_with_its_worker_whoever_has_less_to_do(tmp_path: Path) -> None:
    async with plant(tmp_path, ScriptedEngine(hello), ScriptedEngine(hello)) as made:
        await made.settled()
        await made.ask("s")
        own = next(n for n in (0, 1) if made.asked(n))
        made.engines[own].busy = [WorkerLoad(num_running_reqs=50, num_waiting_reqs=9)]
        await until(lambda: made.workers[own].busy == 59)
        for _ in range(3):
            await made.ask("s")
        assert len(made.asked(own)) == 4
        await made.ask("new")
        assert len(made.asked(1 - own)) == 1
    assert served_by(tmp_path) == [("new", 1, URLS[1 - own]), *(("s", turn, URLS[own]) for turn in range(1, 5))]


async def test_idle_workers_share_the_sessions_and_each_session_always_draws_the_same_one(tmp_path: Path) -> None:
    drawn: list[list[int]] = []
    for store in (tmp_path / "one", tmp_path / "two"):
        async with plant(store, ScriptedEngine(hello), ScriptedEngine(hello), ScriptedEngine(hello)) as made:
            await made.settled()
            served: list[int] = []
            for number in range(24):
                before = [len(made.asked(n)) for n in range(3)]
                await made.ask(f"s{number}")
                served += [n for n in range(3) if len(made.asked(n)) > before[n]]
            drawn.append(served)
    assert drawn[0] == drawn[1]
    assert min(drawn[0].count(n) for n in range(3)) >= 2


async def test_a_session_of_a_worker_that_died_moves_at_its_next_turn_and_stays_there(tmp_path: Path) -> None:
    async with plant(tmp_path, ScriptedEngine(hello), ScriptedEngine(hello)) as made:
        await made.settled()
        await made.ask("s")
        own = next(n for n in (0, 1) if made.asked(n))
        made.engines[own].down = "connection refused"
        await until(lambda: made.workers[own].fault)
        assert (await made.ask("s"))[0] == 200
        made.engines[own].restart()
        await until(lambda: made.workers[own].fault is None)
        await made.ask("s")
        assert [len(made.asked(own)), len(made.asked(1 - own))] == [1, 2]
        assert (made.fleet.moved_total, made.fleet.retried_total) == (1, 0)
    assert served_by(tmp_path) == [("s", 1, URLS[own]), ("s", 2, URLS[1 - own]), ("s", 3, URLS[1 - own])]


async def test_a_call_that_meets_a_dead_worker_is_sent_once_more_and_recorded_once(tmp_path: Path) -> None:
    # Nobody looks: the call itself finds out.
    async with plant(tmp_path, ScriptedEngine(hello), ScriptedEngine(hello), look_every_s=60) as made:
        await made.settled()
        await made.ask("s")
        own = next(n for n in (0, 1) if made.asked(n))
        made.engines[own].down = "connection refused"
        status, _, answer = await made.ask("s")
        assert (status, answer["choices"][0]["message"]["content"]) == (200, "Hello there.")
        assert made.fleet.retried_total == 1
        assert made.workers[own].fault == "connection refused"
        assert [turn["turn"] for turn in made.rows("turns")] == [1, 2]
        assert all(turn["trainable"] for turn in made.rows("turns"))
    assert served_by(tmp_path) == [("s", 1, URLS[own]), ("s", 2, URLS[1 - own])]


async def test_a_reply_that_broke_off_after_a_token_is_not_sent_again(tmp_path: Path) -> None:
    def dies(request: object) -> list[object]:
        return [*hello(request)[:2], EngineUnavailable("the engine cut the reply")]  # type: ignore[arg-type]

    async with plant(tmp_path, ScriptedEngine(dies), ScriptedEngine(dies)) as made:  # type: ignore[arg-type]
        await made.settled()
        status, _, _ = await made.ask("s")
        assert status == 502
        assert len(made.asked(0)) + len(made.asked(1)) == 1
        [turn] = made.rows("turns")
        assert (turn["finish_reason"], len(turn["completion_ids"]), turn["trainable"]) == ("error", 2, False)


async def test_a_call_is_sent_twice_at_most(tmp_path: Path) -> None:
    def dead(_: object) -> list[object]:
        return [EngineUnavailable("connection refused")]

    engines = [ScriptedEngine(dead) for _ in range(3)]  # type: ignore[arg-type]
    async with plant(tmp_path, *engines) as made:
        await made.settled()
        status, headers, _ = await made.ask("s")
        assert (status, headers["Retry-After"]) == (503, "5")
        assert sum(len(made.asked(n)) for n in range(3)) == 2
        assert len(made.rows("turns")) == 1


async def test_a_reply_that_ended_without_a_token_is_not_sampled_again(tmp_path: Path) -> None:
    def ended(request: object) -> list[object]:
        whole = deltas([], finish=Finish(type="stop"), prompt_tokens=len(request.input_ids))  # type: ignore[attr-defined]
        return [*whole, EngineUnavailable("the engine cut the reply")]

    async with plant(tmp_path, ScriptedEngine(ended), ScriptedEngine(ended)) as made:  # type: ignore[arg-type]
        await made.settled()
        await made.ask("s")
        assert len(made.asked(0)) + len(made.asked(1)) == 1
        assert made.fleet.retried_total == 0


async def test_a_call_for_the_base_model_is_refused_where_every_worker_turned_out_to_serve_another(
    tmp_path: Path,
) -> None:
    async with plant(tmp_path, ScriptedEngine(hello)) as made:
        await made.settled()
        target = Target(adapter="base", version=0, engine_name=None)
        # As it may come about between the check of the call and its dispatch.
        made.workers[0].served.difference = "the engine serves another model"
        with pytest.raises(Refusal, match="another model"):
            await made.fleet.place(target, session_id="s", stays_with=None)


async def test_what_another_worker_would_refuse_as_well_is_not_sent_again(tmp_path: Path) -> None:
    def refuses(_: object) -> list[object]:
        return [EngineError("the engine answered /generate with 400: too long", status=400)]

    async with plant(tmp_path, ScriptedEngine(refuses), ScriptedEngine(refuses)) as made:  # type: ignore[arg-type]
        await made.settled()
        assert (await made.ask("s"))[0] == 400
        assert len(made.asked(0)) + len(made.asked(1)) == 1


async def test_a_session_goes_on_with_its_worker_after_the_collector_was_started_anew(tmp_path: Path) -> None:
    async with plant(tmp_path, ScriptedEngine(hello), ScriptedEngine(hello)) as made:
        await made.settled()
        await made.ask("s")
        own = next(n for n in (0, 1) if made.asked(n))
        made.engines[own].down = "gone"
        await until(lambda: made.workers[own].fault)
        # It moves away from where its own draw would put it.
        await made.ask("s")
    async with plant(tmp_path, ScriptedEngine(hello), ScriptedEngine(hello)) as made:
        await made.settled()
        await made.ask("s")
        assert [len(made.asked(own)), len(made.asked(1 - own))] == [0, 1]
    assert served_by(tmp_path)[-1] == ("s", 3, URLS[1 - own])


async def test_with_one_worker_there_is_nothing_to_tell(tmp_path: Path) -> None:
    async with plant(tmp_path, ScriptedEngine(hello)) as made:
        await made.settled()
        await made.ask("s")
        assert made.told("worker") == []
    assert served_by(tmp_path) == [("s", 1, None)]


async def test_new_sessions_keep_away_from_a_paused_worker_and_its_own_wait(tmp_path: Path) -> None:
    async with plant(tmp_path, ScriptedEngine(hello), ScriptedEngine(hello)) as made:
        await made.settled()
        made.engines[0].is_ready = False
        await until(lambda: not made.workers[0].takes_requests)
        for number in range(6):
            await made.ask(f"s{number}")
        assert (len(made.asked(0)), len(made.asked(1))) == (0, 6)
        assert made.workers[0].fault is None


@pytest.mark.parametrize("first_moves", [True, False])
async def test_turns_that_run_at_once_are_told_each_with_its_own_worker(tmp_path: Path, first_moves: bool) -> None:
    def slow(request: object) -> list[object]:
        return [Pause(0.3), *hello(request)]  # type: ignore[arg-type]

    engines = [ScriptedEngine(slow, hello), ScriptedEngine(slow, hello)]  # type: ignore[arg-type]
    async with plant(tmp_path, *engines, look_every_s=60) as made:
        await made.settled()
        first = asyncio.create_task(made.ask("s", text="one"))
        await until(lambda: made.asked(0) or made.asked(1))
        own = next(n for n in (0, 1) if made.asked(n))
        second = asyncio.create_task(made.ask("s", text="two"))
        await until(lambda: made.fleet.workers[own].running == 2 or second.done())
        await second
        if first_moves:
            made.engines[own].down = "connection reset"
        assert (await first)[0] == 200
    expected = URLS[1 - own] if first_moves else URLS[own]
    assert served_by(tmp_path) == [("s", 1, expected), ("s", 2, URLS[own])]
