"""A version is served by a worker only while it is loaded there and proved of the process that runs there now."""

from pathlib import Path

import aiohttp

from collector.engine.wire import GenerateRequest, ModelInfo
from collector.errors import EngineError, EngineUnavailable
from collector.fakes import ScriptedEngine, Step
from tests.collector.loopback import until
from tests.collector.workers.plant import URLS, hello, plant


async def test_a_live_version_that_a_worker_lacks_is_loaded_and_served_once_it_is_proved(tmp_path: Path) -> None:
    async with plant(tmp_path, ScriptedEngine(hello)) as made:
        made.publish(1)
        await until(lambda: made.engines[0].loaded)
        assert made.engines[0].loaded == {"bot@1": str(tmp_path / "bot-1")}
        status, headers, answer = await made.ask("s")
        assert (status, headers["Retry-After"]) == (503, "5")
        assert "never proved" in answer["error"]["message"]
        await made.prove(0)
        # Nobody waits for the next look: the call itself finds the proof.
        assert (await made.ask("s"))[0] == 200
        assert made.asked(0) == ["bot@1"]
        [event] = made.told("reconcile")
        assert (event["adapter"], event["version"], event["severity"]) == ("bot", 1, "info")


async def test_only_the_worker_with_the_proof_gets_the_traffic(tmp_path: Path) -> None:
    async with plant(tmp_path, ScriptedEngine(hello), ScriptedEngine(hello)) as made:
        made.publish(1)
        await until(lambda: made.engines[0].loaded and made.engines[1].loaded)
        await made.prove(1)
        for number in range(8):
            assert (await made.ask(f"s{number}"))[0] == 200
        assert (made.asked(0), made.asked(1)) == ([], ["bot@1"] * 8)
        await made.prove(0, verdict="undecided")
        await made.ask("again")
        assert made.asked(0) == []
        await made.prove(0)
        await made.may_serve(0)
        for number in range(8):
            await made.ask(f"t{number}")
        assert made.asked(0)


async def test_a_worker_that_was_started_anew_needs_its_adapters_and_another_proof(tmp_path: Path) -> None:
    async with plant(tmp_path, ScriptedEngine(hello), ScriptedEngine(hello)) as made:
        made.publish(1)
        await until(lambda: made.engines[0].loaded and made.engines[1].loaded)
        await made.prove(0)
        await made.prove(1)
        await made.may_serve(0)
        await made.may_serve(1)
        await made.ask("s")
        own = next(n for n in (0, 1) if made.asked(n))
        made.engines[own].down = "connection refused"
        await until(lambda: made.workers[own].fault)
        made.engines[own].restart()
        await until(lambda: made.workers[own].loaded)
        assert made.reconciler.why_not(made.workers[own], "bot@1") == "the engine was started anew since its proof"
        # The old proof is of another process; the session goes on elsewhere, and the base model would be served.
        assert (await made.ask("s"))[0] == 200
        assert (len(made.asked(own)), len(made.asked(1 - own))) == (1, 1)
        await made.prove(own)
        await made.may_serve(own)


async def test_adapters_that_a_new_process_brings_along_are_not_trusted(tmp_path: Path) -> None:
    async with plant(tmp_path, ScriptedEngine(hello)) as made:
        made.publish(1)
        await until(lambda: made.engines[0].loaded)
        await made.prove(0)
        await made.may_serve(0)
        kept = dict(made.engines[0].loaded)
        made.engines[0].down = "connection refused"
        await until(lambda: made.workers[0].fault)
        made.engines[0].restart()
        made.engines[0].loaded = kept
        await until(lambda: made.workers[0].fault is None)
        assert (await made.ask("s"))[0] == 503
        assert made.asked(0) == []


async def test_a_name_from_another_folder_is_not_served(tmp_path: Path) -> None:
    async with plant(tmp_path, ScriptedEngine(hello)) as made:
        made.engines[0].loaded = {"bot@1": "/somewhere/else"}
        made.publish(1)
        await made.prove(0)
        status, _, answer = await made.ask("s")
        assert status == 503
        assert "/somewhere/else" in answer["error"]["message"]


async def test_a_worker_that_refuses_the_name_it_forgot_is_left_for_another(tmp_path: Path) -> None:
    def refuses(_: GenerateRequest) -> list[Step]:
        return [EngineError("the adapter bot@1 has never been loaded", status=400)]

    async with plant(tmp_path, ScriptedEngine(hello), ScriptedEngine(hello), look_every_s=60) as made:
        made.publish(1)
        await made.reconciler.look()
        await made.prove(0)
        assert (await made.ask("s"))[0] == 200
        await made.prove(1)
        await made.reconciler.refresh()
        # Nobody has looked since it was started anew.
        made.engines[0].restart()
        made.engines[0].scripts = [refuses]
        assert (await made.ask("s"))[0] == 200
        assert (made.asked(0), made.asked(1)) == (["bot@1"] * 2, ["bot@1"])
        assert [turn["adapter_version"] for turn in made.rows("turns")] == [1, 1]


async def test_a_refuted_probe_takes_a_version_off_a_worker_and_a_later_proof_brings_it_back(tmp_path: Path) -> None:
    async with plant(tmp_path, ScriptedEngine(hello)) as made:
        made.publish(1)
        await until(lambda: made.engines[0].loaded)
        await made.prove(0)
        assert (await made.ask("s"))[0] == 200
        await made.prove(0, verdict="refuted", kind="probe")
        await until(lambda: made.reconciler.why_not(made.workers[0], "bot@1"))
        status, _, answer = await made.ask("s")
        assert status == 503
        assert "its last probe there says refuted" in answer["error"]["message"]
        await made.prove(0)
        assert (await made.ask("s"))[0] == 200


async def test_more_live_versions_than_slots_are_refused_by_name_and_the_others_are_served(tmp_path: Path) -> None:
    engine = ScriptedEngine(hello)
    engine.settings["max_loras_per_batch"] = 3
    async with plant(tmp_path, engine) as made:
        for adapter in ("a", "b", "c"):
            made.publish(1, adapter)
        await until(lambda: "c@1" in str(made.told("reconcile")))
        await until(lambda: len(made.engines[0].loaded) == 2)
        await made.prove(0, "a@1")
        await made.prove(0, "b@1")
        assert (await made.ask("1", model="a"))[0] == 200
        assert (await made.ask("2", model="b"))[0] == 200
        status, headers, answer = await made.ask("3", model="c")
        assert (status, headers["Retry-After"]) == (503, "5")
        assert "all 2 adapter slots are taken, by a@1, b@1" in answer["error"]["message"]
        [budget] = made.reconciler.budgets()
        assert (budget.total, budget.needed, budget.live) == (2, 3, ("a@1", "b@1", "c@1"))
        assert budget.fault is not None
        assert "3 adapter versions are live (a@1, b@1, c@1) and http://127.0.0.1:31001 keeps 2" in budget.fault
        failed = [event for event in made.told("reconcile") if event["severity"] == "fail"]
        assert [event["adapter"] for event in failed] == ["c"]


async def test_a_full_worker_has_no_slot_for_a_candidate_and_says_so(tmp_path: Path) -> None:
    engine = ScriptedEngine(hello)
    engine.settings["max_adapters"] = 2
    async with plant(tmp_path, engine) as made:
        made.publish(1)
        await until(lambda: made.engines[0].loaded)
        [before] = made.reconciler.budgets()
        assert (before.needed, before.fault, before.warning) == (1, None, None)
        made.engines[0].loaded["someone@4"] = "/elsewhere"
        await until(lambda: "someone@4" in made.workers[0].loaded)
        [full] = made.reconciler.budgets()
        assert (full.needed, full.foreign, full.fault) == (2, ("someone@4",), None)
        assert full.warning == ("http://127.0.0.1:31001 has no adapter slot left for a candidate: 2 of 2 are taken")


async def test_a_proof_of_an_engine_that_cannot_be_told_apart_holds_until_it_is_lost(tmp_path: Path) -> None:
    engine = ScriptedEngine(hello)
    # A seed alone may be a setting.
    engine.settings = {"random_seed": 7}
    async with plant(tmp_path, engine) as made:
        made.publish(1)
        await until(lambda: made.engines[0].loaded)
        await made.prove(0)
        assert (await made.ask("s"))[0] == 200
        engine.down = "connection refused"
        await until(lambda: made.workers[0].fault)
        engine.down = None
        await until(lambda: made.workers[0].fault is None)
        assert (await made.ask("s"))[0] == 503
        await made.prove(0)
        assert (await made.ask("s"))[0] == 200


async def test_the_base_model_needs_no_proof(tmp_path: Path) -> None:
    async with plant(tmp_path, ScriptedEngine(hello)) as made:
        assert (await made.ask("s"))[0] == 200
        assert made.asked(0) == [None]


async def test_a_reply_says_which_version_served_it(tmp_path: Path) -> None:
    async with plant(tmp_path, ScriptedEngine(hello)) as made:
        assert "x-roundhouse-version" not in (await made.ask("s"))[1]
        made.publish(1)
        await until(lambda: made.engines[0].loaded)
        await made.prove(0)
        assert (await made.ask("t"))[1]["x-roundhouse-version"] == "bot@1"


async def test_health_says_how_each_worker_stands_and_where_slots_are_short(tmp_path: Path) -> None:
    short, down = ScriptedEngine(hello), ScriptedEngine(hello)
    short.settings["max_adapters"] = 1
    async with plant(tmp_path, short, down) as made:
        down.down = "connection refused"
        made.publish(1, "a")
        made.publish(1, "b")
        await until(lambda: made.engines[0].loaded and made.workers[1].fault)
        async with aiohttp.ClientSession() as session, session.get(f"{made.served.url}/health") as answer:
            first, second = (await answer.json())["engines"]
        assert (first["fault"], first["loaded"], first["slots"]) == (None, ["a@1"], 1)
        assert "2 adapter versions are live (a@1, b@1)" in first["slots_fault"]
        assert (second["fault"], second["loaded"]) == ("connection refused", None)
        # One that can serve is enough.
        async with aiohttp.ClientSession() as session, session.get(f"{made.served.url}/ready") as ready:
            assert ready.status == 200
        short.down = "connection refused"
        async with aiohttp.ClientSession() as session, session.get(f"{made.served.url}/ready") as ready:
            assert (ready.status, (await ready.json())["missing"]) == (
                503,
                ["none of the engine workers takes requests"],
            )


async def test_a_worker_with_another_model_gets_nothing_and_the_others_serve(tmp_path: Path) -> None:
    async with plant(tmp_path, ScriptedEngine(hello), ScriptedEngine(hello)) as made:
        await made.settled()
        made.workers[0].served.difference = "the engine serves another model"
        for number in range(6):
            assert (await made.ask(f"s{number}"))[0] == 200
        assert (len(made.asked(0)), len(made.asked(1))) == (0, 6)
        made.workers[1].served.difference = "and so does this one"
        status, _, answer = await made.ask("s")
        assert (status, answer["error"]["code"]) == (503, "another_model")


async def test_a_connection_that_broke_is_no_engine_that_ended(tmp_path: Path) -> None:
    def breaks(request: GenerateRequest) -> list[Step]:
        return [*hello(request)[:1], EngineUnavailable("the connection was reset")]

    async with plant(tmp_path, ScriptedEngine(breaks, hello), look_every_s=60) as made:
        made.publish(1)
        await made.reconciler.look()
        await made.prove(0)
        assert (await made.ask("s"))[0] == 502
        assert made.workers[0].fault == "the connection was reset"
        # Nobody has looked since: the call does, and finds the same process with its proof.
        assert (await made.ask("s"))[0] == 200
        assert made.asked(0) == ["bot@1"] * 2


async def test_a_proof_holds_for_the_process_under_whatever_address_the_trainer_knows_it(tmp_path: Path) -> None:
    async with plant(tmp_path, ScriptedEngine(hello)) as made:
        made.publish(1)
        await until(lambda: made.engines[0].loaded)
        await made.prove(0, address="http://engine-7.example:30000")
        assert (await made.ask("s"))[0] == 200


async def test_a_proof_of_another_process_at_the_same_address_is_none(tmp_path: Path) -> None:
    async with plant(tmp_path, ScriptedEngine(hello), ScriptedEngine(hello)) as made:
        made.engines[1].settings["launch_id"] = "9"
        made.publish(1)
        await until(lambda: made.engines[0].loaded)
        await made.prove(1, address=URLS[0])
        await made.reconciler.refresh()
        assert made.reconciler.why_not(made.workers[0], "bot@1") == "the engine was started anew since its proof"


async def test_a_process_that_came_and_went_between_two_looks_is_not_the_one_that_was_proved(tmp_path: Path) -> None:
    async with plant(tmp_path, ScriptedEngine(hello)) as made:
        made.publish(1)
        await made.prove(0)
        await made.may_serve(0)
        before = made.workers[0].process
        # No look met it while it was down.
        made.engines[0].restart()
        await until(lambda: made.engines[0].loaded)
        status, _, answer = await made.ask("s")
        assert (status, made.asked(0)) == (503, [])
        assert "started anew" in answer["error"]["message"]
        assert made.workers[0].process != before
        assert made.workers[0].restarted_total == 1


async def test_other_weights_under_the_same_process_void_its_proof_at_the_next_look(tmp_path: Path) -> None:
    class Changing(ScriptedEngine):
        label = "default"

        async def model_info(self) -> ModelInfo:
            return ModelInfo(model_path="scripted", weight_version=self.label)

    engine = Changing(hello)
    async with plant(tmp_path, engine) as made:
        made.publish(1)
        await made.prove(0)
        await made.may_serve(0)
        engine.label = "other"
        await until(lambda: made.reconciler.why_not(made.workers[0], "bot@1"))
        assert (await made.ask("s"))[0] == 503
        assert made.asked(0) == []


async def test_a_name_that_was_refused_makes_the_worker_say_anew_which_process_it_is(tmp_path: Path) -> None:
    def refused(_: GenerateRequest) -> list[Step]:
        return [EngineError("bot@1 was not found in the server's adapters", status=400)]

    async with plant(tmp_path, ScriptedEngine(refused), look_every_s=60) as made:
        made.publish(1)
        await made.reconciler.look()
        await made.prove(0)
        await made.reconciler.refresh()
        # Nobody has looked since it is another process, which was given the adapter by somebody else.
        made.engines[0].restart()
        assert (await made.ask("s"))[0] == 503
        assert made.asked(0) == ["bot@1"]
        made.engines[0].loaded = {"bot@1": str(tmp_path / "bot-1")}
        assert (await made.ask("s"))[0] == 503
        assert made.asked(0) == ["bot@1"]
