"""`roundhouse adapters` as a shell sees it: tables of 80 columns, stable JSON, and who decided what and why."""

import asyncio
import io
import json
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from collector.engine.process_identity import identity
from collector.engine.wire import ModelInfo
from collector.records import Event, Turn
from collector.store.registry import Registry
from collector.store.registry_rows import read_audit, read_registry
from collector.store.writer import Writer
from console.cli import main
from tests.trainer.adapter_lines import PASSED, WHY, add_bot, add_version, loads
from trainer.adapters import canary, promote

Captured = pytest.CaptureFixture[str]
HOSTILE = "odd \x1b[2Janswers"
UNSURE: dict[str, object] = {
    "verdict": "inconclusive",
    "reasons": ["12 tasks show a difference of 0.2 at best, which is more than the margin of 0.02"],
    "numbers": {"held_out_score": 0.25, "pass_at_1": {"lower_bound": -0.125}},
}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """bot@1 is live, bot@2 a canary for a tenth, bot@3 a candidate that the gate could not judge."""
    store = tmp_path / "store"
    Writer(store, "trainer").close()
    with Registry(store) as registry:
        add_bot(registry)
        add_version(registry, store, 1)
        promote(registry, "bot", 1, load=loads, **WHY)
        add_version(registry, store, 2, gate=PASSED)
        canary(registry, "bot", 2, 0.1, load=loads, actor="ana", reason=HOSTILE)
        add_version(registry, store, 3, gate=UNSURE)
    return store


class Terminal(io.StringIO):
    """A standard input that is a terminal."""

    def isatty(self) -> bool:
        return True


def refused(words: list[str], capsys: Captured) -> str:
    assert main(["adapters", *words]) == 2
    found = capsys.readouterr()
    assert found.out == ""
    assert found.err.count("\n") == 1
    return found.err


def test_the_list_is_a_table_of_80_columns(store: Path, capsys: Captured) -> None:
    with Registry(store) as registry:
        add_bot(registry, "a" * 100, "t" * 100)
    assert main(["adapters", "hold", "bot", "--store", str(store), "--reason", HOSTILE, "--actor", "ben"]) == 0
    capsys.readouterr()
    assert main(["adapters", "list", "--store", str(store)]) == 0
    head, long, bot, *notes = capsys.readouterr().out.splitlines()
    assert head.split() == ["adapter", "tenant", "live", "step", "canary", "candidate", "gate", "age"]
    assert bot.split()[:8] == ["bot", "acme", "@1", "10", "@2", "10", "%", "@3"]
    assert "inconclusive" in bot
    assert "aaaaa…" in long
    assert notes[0].startswith("bot is held: ben, ")
    assert notes[0].endswith(r"odd \x1b[2Janswers")
    assert max(map(len, (head, long, bot, *notes))) <= 80


def test_the_list_as_json_has_every_number_a_script_decides_by(store: Path, capsys: Captured) -> None:
    assert main(["adapters", "list", "--store", str(store), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    (bot,) = told["adapters"]
    assert told["revision"] == read_registry(store).revision
    assert bot["live"].pop("age_s") >= 0
    assert datetime.fromisoformat(bot["live"].pop("since")) == read_registry(store).decisions[0].at
    assert datetime.fromisoformat(bot.pop("created_at")) < datetime.now(UTC)
    assert bot == {
        "adapter": "bot",
        "tenant": "acme",
        "base_model": "tiny",
        "live": {"version": 1, "optimizer_step": 10},
        "canary": {"version": 2, "share": 0.1},
        "candidate": 3,
        "held": None,
        "pinned": None,
        "best": 1,
        "gate": {"version": 3, "verdict": "inconclusive"},
    }


def test_one_adapter_is_shown_with_reasons_numbers_routes_and_audit(store: Path, capsys: Captured) -> None:
    assert main(["adapters", "show", "bot", "--store", str(store)]) == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    flat = " ".join(text.split())
    for said in (
        "new sessions: 90 % to @1, 10 % to @2",
        "best: @1, by its held-out score",
        "@3 candidate @2 30 5 inconclusive adapters/bot/3",
        "gate: 12 tasks show a difference of 0.2 at best, which is more than the margin of 0.02",
        "held_out_score 0.25, pass_at_1.lower_bound -0.125",
        "promote @1 from @0, ana: because",
        r"change_state @2 to canary, ana: odd \x1b[2Janswers",
    ):
        assert said in flat
    assert main(["adapters", "show", "bot", "--store", str(store), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [(each["version"], each["state"], each["trained_turns"]) for each in told["versions"]] == [
        (0, "live", 0),
        (1, "live", 5),
        (2, "canary", 5),
        (3, "candidate", 5),
    ]
    assert told["routes"] == [
        {"version": 1, "weight": 0.9, "share": 0.9},
        {"version": 2, "weight": 0.1, "share": 0.1},
    ]
    assert [row["revision"] for row in told["audit"]] == [row.revision for row in read_audit(store)]
    assert (told["versions"][3]["gate"], told["audit"][-3]["reason"]) == (UNSURE, HOSTILE)


def test_hold_release_and_pin_are_on_record_with_actor_and_reason(store: Path, capsys: Captured) -> None:
    for words in (["hold", "bot"], ["release", "bot"], ["pin", "bot", "0"], ["pin", "bot"]):
        assert main(["adapters", *words, "--store", str(store), "--reason", "so", "--actor", "ben"]) == 0
    rows = read_audit(store)[-4:]
    assert [(row.action, row.version, row.actor, row.reason) for row in rows] == [
        ("hold", None, "ben", "so"),
        ("release", None, "ben", "so"),
        ("pin", 0, "ben", "so"),
        ("pin", None, "ben", "so"),
    ]
    assert "bot: hold is done, live is 1" in capsys.readouterr().out


def test_the_login_name_decides_when_nobody_is_named(
    store: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGNAME", "cy")
    assert main(["adapters", "hold", "bot", "--store", str(store), "--reason", "so"]) == 0
    assert read_audit(store)[-1].actor == "cy"


def test_a_change_needs_a_reason_and_a_known_adapter(store: Path, capsys: Captured) -> None:
    assert "--reason" in refused(["hold", "bot", "--store", str(store)], capsys)
    assert "say who changes the registry and why" in refused(
        ["hold", "bot", "--store", str(store), "--reason", " "], capsys
    )
    said = refused(["hold", "cow", "--store", str(store), "--reason", "so"], capsys)
    assert said.startswith("roundhouse adapters: no adapter 'cow', expected one of: bot; ")
    assert "no registry.sqlite in it" in refused(["list", "--store", str(store.parent)], capsys)


def test_add_registers_and_routes(tmp_path: Path, capsys: Captured) -> None:
    words = ["add", "bot", "--tenant", "acme", "--base-model", "tiny", "--reason", "so", "--json"]
    assert main(["adapters", *words, "--store", str(tmp_path / "new")]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told == {"adapter": "bot", "action": "add", "live_before": None, "live": 0, "revision": 2, "behind": []}
    assert [(route.tenant, route.adapter) for route in read_registry(tmp_path / "new").routes] == [("acme", "bot")]


def test_going_back_to_the_base_model_needs_no_engine(store: Path, capsys: Captured) -> None:
    assert main(["adapters", "rollback", "bot", "--store", str(store), "--reason", "rude", "--yes"]) == 0
    assert capsys.readouterr().out.startswith("bot: live is 0, was 1 (revision ")
    snapshot = read_registry(store)
    assert [version.state for version in snapshot.versions] == ["live", "retired", "rejected", "candidate"]
    assert [route.version for route in snapshot.routes] == [0]
    assert "bot" in snapshot.held


def test_what_is_served_changes_only_after_the_name_is_typed(
    store: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["reject", "bot", "2", "--store", str(store), "--reason", "so"]
    monkeypatch.setattr("sys.stdin", io.StringIO("bot\n"))
    assert "there is no terminal; give --yes" in refused(words, capsys)
    with Writer(store, "collector") as writer:
        for session, version in (("s1", 1), ("s2", 1), ("s3", 2)):
            writer.append(turn(session, version))
    monkeypatch.setattr("sys.stdin", Terminal("bat\n"))
    assert main(["adapters", *words]) == 2
    asked = capsys.readouterr().err
    assert "reject bot@2; live is @1. @2 serves 1 session that is open now, of 1 tenant, 33.33 % of all" in asked
    assert "the name was not typed; nothing is changed" in asked
    assert read_registry(store).versions[2].state == "canary"
    monkeypatch.setattr("sys.stdin", Terminal("bot\n"))
    assert main(["adapters", *words]) == 0
    assert read_registry(store).versions[2].state == "rejected"


def turn(session: str, version: int) -> Turn:
    return Turn(
        turn_id=session,
        session_id=session,
        turn=1,
        tenant="acme",
        adapter="bot",
        adapter_version=version,
        api="chat",
        started_at=datetime.now(UTC),
        prompt_ids=[1],
        completion_ids=[],
        sampled_logprobs=[],
        weight_versions=[],
    )


def test_a_reader_that_does_not_act_on_a_change_is_named(
    store: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("console.adapter_orders.ACKNOWLEDGED_WITHIN_S", 0.0)
    with Registry(store) as registry:
        registry.acknowledge("collector", 1)
    assert main(["adapters", "hold", "bot", "--store", str(store), "--reason", "so"]) == 0
    assert capsys.readouterr().err == "collector does not act on it yet; is that collector running?\n"


def test_a_version_is_routed_to_only_if_the_engine_has_it(store: Path, capsys: Captured) -> None:
    words = ["promote", "bot", "2", "--store", str(store), "--reason", "so", "--yes"]
    assert "nobody knows whether bot@2 is loaded; give --engine URL" in refused(words, capsys)
    assert read_registry(store).versions[2].state == "canary"
    said = refused(["promote", "bot", "3", "--store", str(store), "--reason", "so", "--yes"], capsys)
    assert said == "roundhouse adapters: bot@2 is the canary; promote or reject it before bot@3\n"


SETTINGS = {"launch_id": "1"}


@contextmanager
def engine_with(*names: str) -> Generator[str]:
    """An engine that lists these adapters, and says which start of it this is."""
    data = [{"id": "tiny", "root": "tiny"}, *({"id": name, "root": f"/{name}", "parent": "tiny"} for name in names)]
    answers = {
        b"/v1/models": {"object": "list", "data": data},
        b"/model_info": {"model_path": "tiny"},
        b"/server_info": SETTINGS,
    }
    ready, address = threading.Event(), list[str]()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = await reader.readuntil(b"\r\n\r\n")
        body = json.dumps(answers[line.split()[1]]).encode()
        head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()
        writer.close()

    async def run() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        address.append(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        ended.append(asyncio.Event())
        loops.append(asyncio.get_running_loop())
        ready.set()
        await ended[0].wait()
        server.close()

    ended: list[asyncio.Event] = []
    loops: list[asyncio.AbstractEventLoop] = []
    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    ready.wait(10)
    try:
        yield address[0]
    finally:
        stop: Callable[[], None] = ended[0].set
        loops[0].call_soon_threadsafe(stop)
        thread.join(10)


@pytest.mark.parametrize("process", ["its own", "another's"])
def test_a_version_that_is_loaded_and_proved_of_the_process_that_runs_is_promoted_without_torch(
    store: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch, process: str
) -> None:
    own = process == "its own"
    words = ["promote", "bot", "2", "--store", str(store), "--reason", "so", "--yes"]
    monkeypatch.setitem(sys.modules, "trainer.cycle.model_side", None)
    with engine_with("bot@1", "bot@2") as url:
        with Writer(store, "trainer") as writer:
            of = identity(dict(SETTINGS), ModelInfo(model_path="tiny")) if own else "another"
            proof = {"verdict": "proved", "worker": url, "process": of}
            writer.append(Event(at=datetime.now(UTC), kind="proof", adapter="bot", version=2, detail=dict(proof)))
        said = main(["adapters", *words, "--engine", url])
    told = capsys.readouterr()
    if own:
        assert said == 0
        assert told.out.startswith("bot: live is 2, was 1")
        assert [(route.version, route.weight) for route in read_registry(store).routes] == [(2, 1.0)]
    else:
        # It has to be proved again, for which there is no model here.
        assert said == 2
        assert f"bot@2 on {url}: the engine was started anew since its proof; it is loaded and proved now" in told.err
        assert read_registry(store).versions[2].state == "canary"


def test_nothing_changes_where_no_engine_answers(store: Path, tmp_path: Path, capsys: Captured) -> None:
    words = ["promote", "bot", "2", "--store", str(store), "--reason", "so", "--yes"]
    said = refused([*words, "--engine", "http://127.0.0.1:9"], capsys)
    assert "http://127.0.0.1:9 cannot be reached" in said
    assert said.endswith("; nothing is changed\n")
    config = tmp_path / "r.toml"
    config.write_text('[collector]\nengines = ["http://127.0.0.1:9"]\n')
    assert refused([*words, "--config", str(config)], capsys) == said
    assert read_registry(store).versions[2].state == "canary"
